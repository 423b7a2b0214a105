"""Where the cache is: folders to read, and the one to write.

Machine code is unpickled, which runs whatever the file says. Hence the care about whose a folder is.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["folder", "look_again", "read_only", "readable", "refused"]


def folder() -> Path | None:
    """The folder that is written: the first writable one where a user would look for it, if any.

    `FASTGRAD_CACHE_DIR`, `NUMBA_CACHE_DIR`/fastgrad, `XDG_CACHE_HOME`/fastgrad, ~/.cache/fastgrad,
    and a folder of this user's own under the system's temporary files. It is made if need be.
    """
    return _places(*_surroundings()).writable


def read_only() -> tuple[Path, ...]:
    """Folders that the environment names and that are read before `folder`, but not written."""
    return tuple(path for path in _places(*_surroundings()).named if path != folder())


def readable() -> Iterator[tuple[Path, bool]]:
    """The folders to look in, and whether the environment names them."""
    named = _places(*_surroundings()).named
    yield from ((path, True) for path in named)
    place = folder()
    if place is not None and place not in named:
        yield place, False


def refused() -> str:
    """The folders that cannot be written, each with the reason, where none can."""
    return "; ".join(_places(*_surroundings()).refused)


def look_again() -> None:
    """The folder was deleted, or taken from us: choose anew at the next use."""
    _places.cache_clear()


class _Candidate(NamedTuple):
    path: Path
    #: Whether the environment names it for this very purpose: trusted, and read even if read-only.
    named: bool
    #: What speaks against it, by whose it is; "" where nothing does.
    objection: Callable[[Path], str]


class _Places(NamedTuple):
    named: tuple[Path, ...]
    writable: Path | None
    refused: tuple[str, ...]


def _surroundings() -> tuple[Any, ...]:
    """All that the choice depends on: a process may change its environment, and its user."""
    import tempfile

    try:
        temporary = tempfile.gettempdir()
    except OSError:  # there is none that can be written
        temporary = None
    variables = ("FASTGRAD_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
    return (*map(os.environ.get, variables), temporary, os.geteuid())


@functools.cache
def _places(*surroundings: Any) -> _Places:
    """The folders to use, looked for once as long as nothing around them changes."""
    candidates = list(_candidates(*surroundings))
    named = tuple(candidate.path for candidate in candidates if candidate.named)
    refused = []
    for candidate in candidates:
        reason = _why_not(candidate)
        if not reason:
            return _Places(named, candidate.path, ())
        refused.append(f"{candidate.path} ({reason})")
    return _Places(named, None, tuple(refused))


def _candidates(
    fastgrad: str | None,
    numba: str | None,
    xdg: str | None,
    home: str | None,
    temporary: str | None,
    user: int,
) -> Iterator[_Candidate]:
    if fastgrad:
        yield _Candidate(_absolute(fastgrad), True, _trusted)
    if numba:
        yield _Candidate(_absolute(numba, "fastgrad"), True, _trusted)
    if xdg and os.path.isabs(xdg):  # as its specification asks
        yield _Candidate(Path(xdg, "fastgrad"), False, _not_own)
    home = home or os.path.expanduser("~")
    if os.path.isabs(home):
        yield _Candidate(Path(home, ".cache", "fastgrad"), False, _not_at_home)
    if temporary:
        yield _Candidate(_absolute(temporary, f"fastgrad-{user}"), False, _not_private)


def _absolute(*parts: str) -> Path:
    path = Path(*parts)
    with contextlib.suppress(OSError):  # where the working directory was deleted
        return path.absolute()
    return path


def _why_not(candidate: _Candidate) -> str:
    """What keeps us from using this folder, which is made where it is missing; "" if nothing does."""
    import tempfile

    path, named, objection = candidate
    try:
        if reason := objection(path):
            return reason
        path.mkdir(mode=0o777 if named else 0o700, parents=True, exist_ok=True)
        if reason := objection(path):  # another user may have been faster
            return reason
        with tempfile.TemporaryFile(dir=path):
            return ""
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)


def _trusted(path: Path) -> str:
    return ""


def _not_own(path: Path) -> str:
    """The user's own folder, in one of theirs or of root: not so where sudo has kept HOME."""
    user = os.geteuid()
    owners = {os.lstat(path).st_uid, os.stat(path).st_uid} if os.path.lexists(path) else set()
    above = next(parent for parent in path.parents if os.path.exists(parent))
    is_own = owners <= {user} and os.stat(above).st_uid in (user, 0)
    return "" if is_own else "it belongs to another user"


def _not_at_home(path: Path) -> str:
    home = path.parents[1]
    return _not_own(path) if home.is_dir() else f"there is no home folder {home}"


def _not_private(path: Path) -> str:
    """Others write beside it: it must be a real folder of ours, where nobody else can put another."""
    if not (_is_closed(os.stat(path.parent)) or os.stat(path.parent).st_mode & stat.S_ISVTX):
        return "other users may replace it"
    if not os.path.lexists(path):
        return ""
    status = os.lstat(path)
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return "" if is_private and _is_closed(status) else "it is not a private folder of this user"


def _is_closed(status: os.stat_result) -> bool:
    """Whether only this user and root may write a folder."""
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o022
