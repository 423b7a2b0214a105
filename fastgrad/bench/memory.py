"""The peak memory of a call, as Linux counts the pages of its process.

One way for every contender: the high-water mark of the resident set (`VmHWM`) is reset before the call
and read after it. Whatever the library allocates with is counted, results included, to a page.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastgrad.runtime import memory

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_HIGH_WATER_MARK = "5"

_MORE_CALLS = 2
_LARGE = 64 << 20


def peak_bytes(call: Callable[[], Any]) -> int | None:
    """Bytes of `call` above what is there before; None where the system does not say.

    What was freed before, and is only kept for the next result, is given back first: a call that
    takes warm memory again needs it all the same.
    """
    peak = _peak_of_one(call)
    for _ in range(_MORE_CALLS):
        if peak is None or peak > _LARGE:
            break
        # Something that happens once, such as code that is read, looks large beside a small array.
        peak = min(peak, _peak_of_one(call) or 0)
    return peak


def _peak_of_one(call: Callable[[], Any]) -> int | None:
    _give_back()
    try:
        _CLEAR.write_text(_RESET_HIGH_WATER_MARK)
        before = _high_water_mark()
    except OSError:
        return None
    result = call()
    peak = _high_water_mark()
    del result
    return peak - before


def _give_back() -> None:
    """Return idle memory to the system: fastgrad's blocks, and the allocator's of most others."""
    memory.clear()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # the GNU C library's alone
    if trim is not None:
        trim(0)


def _high_water_mark() -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise OSError(f"{_STATUS} holds no VmHWM")
