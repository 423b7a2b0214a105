"""The kernel cache on disk: generated source files, and the machine code compiled from them.

One file holds one thing and is named by a hash of everything that its content depends on, so nothing
in the folder is ever updated: a file is there and right, or it is not there. Files are published by
a rename. A file that is empty, truncated, foreign or from another machine is a miss, never an error.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import tempfile
import threading
from pathlib import Path

__all__ = ["digest", "folder", "load", "publish"]

_MAGIC = b"fastgrad-1\n"

#: What Numba can be told, by environment or file, that changes machine code.
_NUMBA_SETTINGS = (
    *("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "CPU_NAME", "CPU_FEATURES"),
    *("BOUNDSCHECK", "DEBUGINFO_DEFAULT"),
)


def digest(*parts: str) -> str:
    """A short hash of `parts`: the name under which what depends on them is kept."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


@functools.cache
def folder() -> Path | None:
    """The first writable of the places where a user would look for it; None where there is none.

    `FASTGRAD_CACHE_DIR`, `NUMBA_CACHE_DIR`/fastgrad, `XDG_CACHE_HOME`/fastgrad, ~/.cache/fastgrad,
    and a folder of this user's own under the system's temporary files.
    """
    for place in _places():
        try:
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                return place
        except (OSError, RuntimeError):
            continue
    return None


def _places():
    environ = os.environ
    if environ.get("FASTGRAD_CACHE_DIR"):
        yield Path(environ["FASTGRAD_CACHE_DIR"])
    if environ.get("NUMBA_CACHE_DIR"):
        yield Path(environ["NUMBA_CACHE_DIR"]) / "fastgrad"
    if environ.get("XDG_CACHE_HOME"):
        yield Path(environ["XDG_CACHE_HOME"]) / "fastgrad"
    home = os.path.expanduser("~")
    if home != "~":
        yield Path(home) / ".cache" / "fastgrad"
    # Shared temporary folders are other users' too: never load code from one that is not ours.
    private = Path(tempfile.gettempdir()) / f"fastgrad-{os.getuid()}"
    if not private.exists() or private.stat().st_uid == os.getuid():
        yield private


def publish(name: str, content: bytes) -> Path | None:
    """Write `content` to the file `name` so that no reader ever sees half of it.

    Returns its path, or None where it could not be written: the caller goes on without.
    """
    place = folder()
    if place is None:
        return None
    path = place / name
    part = place / f"{name}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        return None
    return path


def seal(payload: bytes) -> bytes:
    """Prefix `payload` with a checksum that `load` checks."""
    return _MAGIC + hashlib.sha256(payload).digest() + payload


def load(name: str) -> bytes | None:
    """The payload sealed in the file `name`; None where it is missing or damaged."""
    place = folder()
    if place is None:
        return None
    try:
        content = (place / name).read_bytes()
    except OSError:
        return None
    head = len(_MAGIC) + 32
    if content[: len(_MAGIC)] != _MAGIC:
        return None
    payload = content[head:]
    return payload if hashlib.sha256(payload).digest() == content[len(_MAGIC) : head] else None


@functools.cache
def environment() -> str:
    """Everything outside the generated source that machine code depends on, as one hash.

    The text of the vector unit and of the walks, fastgrad's version, Python, NumPy, Numba and its
    settings, LLVM and the processor with its features.
    """
    import llvmlite
    import numba
    import numpy as np
    from llvmlite import binding as llvm

    from fastgrad._version import __version__

    root = Path(__file__).parents[1]
    sources = [
        path.read_text()
        for part in ("vector_unit", "kernels", "runtime")
        for path in sorted((root / part).glob("*.py"))
    ]
    versions = (__version__, sys.version, np.__version__, numba.__version__, llvmlite.__version__)
    features = llvm.get_host_cpu_features().flatten()
    machine = (str(llvm.llvm_version_info), llvm.get_host_cpu_name(), features)
    settings = tuple(f"{name}={getattr(numba.config, name, None)}" for name in _NUMBA_SETTINGS)
    return digest(*versions, *machine, *settings, *sources)
