"""The kernel cache on disk: where it is, what is in it, and how to empty it.

>>> print(fastgrad.cache.info())
/home/me/.cache/fastgrad: 41 files, 3.2 of 256.0 MiB; this process: 2 kernels compiled, 5 loaded

`FASTGRAD_CACHE_DIR` names another folder, `FASTGRAD_CACHE_LIMIT` the bytes that it may hold. The folder
may be deleted at any time, also while programs run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .runtime import cache as _cache
from .runtime.cache import clear, folder

__all__ = ["Info", "clear", "folder", "info"]


@dataclass(frozen=True)
class Info:
    """What `info` found.

    Attributes
    ----------
    folder : Path or None
        The folder that is written; None where there is none.
    files, bytes : int
        fastgrad's files in it.
    limit : int
        Bytes that they may have before those used least recently are removed.
    compiled, loaded : int
        How many kernels this process has compiled, and how many it has found in a cache, so far.
    read_only : tuple of Path
        Folders that the environment names and that are read first, such as a container image's.
    """

    folder: Path | None
    files: int
    bytes: int
    limit: int
    compiled: int
    loaded: int
    read_only: tuple[Path, ...] = ()

    def __str__(self) -> str:
        place = "no folder can be written" if self.folder is None else str(self.folder)
        size = f"{self.bytes / 2**20:.1f} of {self.limit / 2**20:.1f} MiB"
        process = f"this process: {self.compiled} kernels compiled, {self.loaded} loaded"
        others = "".join(f"; read only: {path}" for path in self.read_only)
        return f"{place}: {self.files} files, {size}; {process}{others}"


def info() -> Info:
    """The folder, its size, and what this process has used it for."""
    return Info(
        _cache.folder(), *_cache.usage(), _cache.limit(), *_cache.counts(), _cache.read_only()
    )
