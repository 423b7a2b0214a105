"""How much the cache holds: bounded, by what was used least recently."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from .complaint import warn
from .places import folder

__all__ = ["LIMIT", "clear", "limit", "make_room", "usage"]

#: Bytes that the folder may hold, unless FASTGRAD_CACHE_LIMIT says otherwise.
LIMIT = 256 << 20

#: What fastgrad's files are called, and while they are being written. Nothing else is ever deleted.
_OURS = r"[^\W\d]\w*_[0-9a-f]{20}(\.py|\.[^\W\d]\w*\.bin)(?P<part>\.\d+\.\d+\.part)?"

#: Seconds: a file half written for longer is left by a process that was killed.
_HOUR = 3600.0


class _File(NamedTuple):
    path: str
    bytes: int
    used: float
    is_part: bool

    @property
    def owner(self) -> str:
        """The generated module that it belongs to: its files are of use together."""
        return os.path.basename(self.path).partition(".")[0]


def limit() -> int:
    """Bytes that the folder may hold: `FASTGRAD_CACHE_LIMIT`, else 256 MiB; 0 means: write nothing.

    More is evicted when a kernel is published. Other processes may add a sixteenth each meanwhile.
    """
    text = os.environ.get("FASTGRAD_CACHE_LIMIT", "").strip()
    if not text:
        return LIMIT
    if text.isascii() and text.isdigit() and len(text) < 20:
        return int(text)
    warn(f"FASTGRAD_CACHE_LIMIT must be a number of bytes, got {text!r}: it is {LIMIT} instead")
    return LIMIT


def clear() -> int:
    """Remove fastgrad's files from `folder`; returns how many."""
    place = folder()
    _budgets.clear()
    return sum(_remove(file.path) for file in _files(place)) if place is not None else 0


def usage() -> tuple[int, int]:
    """How many files of fastgrad's are in `folder`, and their bytes."""
    place = folder()
    files = _files(place) if place is not None else []
    return len(files), sum(file.bytes for file in files)


#: By folder, the bytes that may still be published before its files are looked through again.
_budgets: dict[Path, int] = {}


def make_room(place: Path, published: int) -> None:
    """Evict what exceeds the limit, without looking through the folder at every file published."""
    budget = _budgets.get(place, -1) - published
    _budgets[place] = budget if budget >= 0 else _evict(place, limit())


def _evict(place: Path, most: int) -> int:
    """Remove what was used least recently, to three quarters of the limit, if it is exceeded.

    The module that was used last stays. Returns a budget: other processes publish, too.
    """
    files = _living_files(place)
    size = sum(file.bytes for file in files)
    if size > most:
        for file in _least_recently_used(files):
            if size <= most * 3 // 4:
                break
            size -= file.bytes if _remove(file.path) else 0
    return max(0, min(most - size, most // 16))


def _living_files(place: Path) -> list[_File]:
    """Those that a process may still have a use for. The remains of killed ones are removed."""
    files = _files(place)
    dead = {file for file in files if file.is_part and time.time() - file.used > _HOUR}
    for file in dead:
        _remove(file.path)
    return [file for file in files if file not in dead]


def _least_recently_used(files: list[_File]) -> list[_File]:
    """The files that may go, in order: a module's together, by the latest use of any of them."""
    used: dict[str, float] = {}
    for file in files:
        used[file.owner] = max(used.get(file.owner, 0.0), file.used)
    latest = max(used, key=used.__getitem__, default="")
    removable = [file for file in files if file.owner != latest and not file.is_part]
    return sorted(removable, key=lambda file: (used[file.owner], file.owner))


def _files(place: Path) -> list[_File]:
    """fastgrad's files in a folder, where a user may keep others."""
    found = []
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            match = re.fullmatch(_OURS, entry.name)
            if match is None or not entry.is_file(follow_symlinks=False):
                continue
            with contextlib.suppress(FileNotFoundError):  # removed by another process
                status = entry.stat(follow_symlinks=False)
                part = match["part"] is not None
                found.append(_File(entry.path, status.st_size, status.st_mtime, part))
    return found


def _remove(path: str) -> bool:
    """Remove a file, or find that another process has; whether it is gone."""
    try:
        os.unlink(path)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return True
