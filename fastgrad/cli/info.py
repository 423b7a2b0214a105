"""`fastgrad info`: what is installed, and on what it runs."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from typing import Annotated, Any

import rich
import rich.table

import fastgrad

from .finding import AsJson

__all__ = ["info"]

_PACKAGES = ("numpy", "numba", "llvmlite", "ml_dtypes")
_EXTRAS = ("torch", "jax", "mindspore", "rich", "typer", "matplotlib", "psutil")
_FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512_bf16", "asimd", "sve")


def info(as_json: Annotated[bool, AsJson] = False) -> None:
    """Versions, processor, threads, cache and extras."""
    found = _found()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    table = rich.table.Table(show_header=False)
    for name, value in found.items():
        lines = [f"{key} {own}" for key, own in value.items()] if isinstance(value, dict) else None
        table.add_row(name.replace("_", " "), str(value) if lines is None else "\n".join(lines))
    rich.print(table)


def _found() -> dict[str, Any]:
    cache = fastgrad.cache.info()
    return {
        "fastgrad": fastgrad.__version__,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "extras": {name: _version(name) for name in _EXTRAS},
        "processor": _processor(),
        "features": ", ".join(_features()) or "unknown",
        "processors": len(os.sched_getaffinity(0)),
        "threads": fastgrad.get_num_threads(),
        "block_size": fastgrad.get_block_size(),
        "dtypes": "float16, bfloat16, float32, float64",
        "cache_folder": None if cache.folder is None else str(cache.folder),
        "cache_files": cache.files,
        "cache_bytes": cache.bytes,
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cpu_lines() -> list[str]:
    try:
        with open("/proc/cpuinfo") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _processor() -> str:
    names = [line.partition(":")[2].strip() for line in _cpu_lines() if "model name" in line]
    return names[0] if names else platform.processor() or platform.machine()


def _features() -> list[str]:
    flags = next((line for line in _cpu_lines() if line.startswith(("flags", "Features"))), "")
    return [name for name in _FEATURES if name in flags.split()]
