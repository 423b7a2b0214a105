"""How many processors this process may use: its affinity, and the quota of its control group."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

__all__ = ["available"]


def available(root: Path = Path("/")) -> int:
    """Processors to use, at least 1; a quota of one and a half counts as two.

    Parameters
    ----------
    root : Path
        Where ``proc`` and ``sys`` are.
    """
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    quotas = [math.ceil(quota) for quota in _quotas(root)]
    return max(1, min([processors, *quotas]))


def _quotas(root: Path) -> Iterator[float]:
    """Processors that each control group above this process grants, as far as one sets a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:  # "0::/path" in version 2, "4:cpu,cpuacct:/path" in version 1
        controllers, _, path = line.partition(":")[2].partition(":")
        if not path or (controllers and "cpu" not in controllers.split(",")):
            continue
        mounts = [controllers, "cpu"] if controllers else ["", "unified"]
        # In a container the path may be the host's, of which only the mount's own folder is seen.
        for group in (PurePosixPath(path), *PurePosixPath(path).parents):
            for mount in dict.fromkeys(mounts):
                quota = _quota(root / "sys/fs/cgroup" / mount / str(group).lstrip("/"))
                if quota is not None:
                    yield quota


def _quota(folder: Path) -> float | None:
    """The processors that a control group grants: version 2, else version 1; None without limit."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return float(quota) / float(period) if float(quota) > 0 and float(period) > 0 else None
    except (OSError, ValueError):  # no such file; "max"
        return None
