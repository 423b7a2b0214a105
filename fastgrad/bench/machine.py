"""The machine that a run is of."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastgrad.bench.extras import require
from fastgrad.runtime.tiling import last_level_cache

#: Share of the processors in use by others above which times say little.
BUSY = 0.1


def describe_machine() -> dict[str, Any]:
    """Processor, cores, caches, memory, commit and date, and what else moves a measurement.

    To be called before the run: `busy` is the share of the processors that others use.
    """
    psutil = require("psutil")
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=False),
        "processors": len(os.sched_getaffinity(0)),
        "last_level_cache": last_level_cache(),
        "memory": psutil.virtual_memory().total,
        "busy": psutil.cpu_percent(interval=0.5) / 100,
        "huge_pages": _first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _first_line(path: str) -> str | None:
    file = Path(path)
    return file.read_text().strip() if file.exists() else None


def _commit() -> str | None:
    """Of the source tree that is measured; None where it is no repository of its own."""
    tree = Path(__file__).parents[2]
    if not (tree / ".git").exists():
        return None
    command = [
        "git",
        "--no-optional-locks",
        "-C",
        str(tree),
        "describe",
        "--always",
        "--dirty",
        "--exclude",
        "*",
    ]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return found.stdout.strip() or None
