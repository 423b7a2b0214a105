"""The files of the cache, read and written whole.

One file holds one thing and is named by a hash of everything that its content depends on, so nothing
is ever updated: a file is there and right, or it is not there. Files are published by a rename. A file
that is empty, truncated, foreign, or no file at all, is a miss, never an error.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
from pathlib import Path

from . import places, size
from .complaint import warn_not_kept

__all__ = ["counts", "keep", "load", "publish", "seal"]

_MAGIC = b"fastgrad-1\n"

#: Seconds: a file used within the last hour counts as just used.
_HOUR = 3600.0

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_compiled: set[str] = set()
_loaded: set[str] = set()


def counts() -> tuple[int, int]:
    """How many kernels this process has compiled, and how many it has loaded, so far."""
    return len(_compiled), len(_loaded - _compiled)


def seal(name: str, payload: bytes) -> bytes:
    """Prefix the payload of the file `name` with a checksum of both, which `load` checks."""
    return _MAGIC + _checksum(name, payload) + payload


def _checksum(name: str, payload: bytes) -> bytes:
    """The name too: another kernel's file in its place is foreign."""
    import hashlib  # here, as import fastgrad needs none

    return hashlib.sha256(name.encode() + b"\0" + payload).digest()


def load(name: str) -> bytes | None:
    """The payload sealed in the file `name`; None where it is missing or damaged."""
    for place, named in places.readable():
        payload = _unsealed(name, _read(place / name, named))
        if payload is not None:
            _loaded.add(name)
            return payload
    return None


def _read(path: Path, named: bool) -> bytes | None:
    """The content of a regular file, which must be this user's own where nobody named the folder."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not (named or status.st_uid == os.geteuid()):
                return None
            content = file.read()
            if time.time() - status.st_mtime > _HOUR:
                with contextlib.suppress(OSError):
                    os.utime(file.fileno())  # so that what is used is not evicted
            return content
    except (OSError, ValueError):  # ValueError: a name that the file system cannot encode
        return None


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a named pipe in its place must not block


def _unsealed(name: str, content: bytes | None) -> bytes | None:
    head = len(_MAGIC) + 32
    if content is None or content[: len(_MAGIC)] != _MAGIC:
        return None
    payload = content[head:]
    return payload if _checksum(name, payload) == content[len(_MAGIC) : head] else None


def keep(name: str, content: bytes) -> Path | None:
    """The path of a file with exactly this content: one that is there, or a new one; else None."""
    for place, named in places.readable():
        if _read(place / name, named) == content:
            return place / name
    return publish(name, content)


def publish(name: str, content: bytes) -> Path | None:
    """Write `content` to the file `name` so that no reader ever sees half of it.

    Returns its path, or None where it could not be written: the caller goes on without.
    """
    if name.endswith(".bin"):
        _compiled.add(name)
    if len(content) > size.limit():
        return None
    for _ in range(2):
        place = places.folder()
        if place is None:
            warn_not_kept(f"there is no folder to write to ({places.refused()})")
            return None
        try:
            _write(place, name, content)
        except (OSError, ValueError) as error:
            if getattr(error, "errno", None) in _NO_SPACE:
                warn_not_kept(f"there is no space in {place}")
                return None
            places.look_again()
        else:
            size.make_room(place, len(content))
            return place / name
    return None


def _write(place: Path, name: str, content: bytes) -> None:
    part = place / f"{name}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        with open(part, "xb") as file:  # x: never through a link
            file.write(content)
        os.replace(part, place / name)
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            part.unlink()
        raise
