"""How many cores a launch uses, and when it has to stay on the calling one."""

from __future__ import annotations

import os

from . import processors
from .settings import positive_integer

__all__ = ["SERIAL_WORK", "cores_for", "get_num_threads", "set_num_threads"]

#: Nanoseconds of work that a second core must be able to take over. A launch costs 1 to 3 µs, and one
#: on PyTorch's threads up to 5. See docs/architecture.md, "Small work".
_WORTH_A_CORE = 4_000.0

#: Nanoseconds of work up to which a launch never pays.
SERIAL_WORK = 2 * _WORTH_A_CORE

_num_threads: int | None = None


def get_num_threads() -> int:
    """The number of cores that a kernel may use, for the whole process.

    Until `set_num_threads` is called: `OMP_NUM_THREADS` where it is set, else the processors that
    this process may use, by its affinity and by the quota of its control group.
    """
    global _num_threads
    if _num_threads is None:
        _num_threads = _default_num_threads()
    return _num_threads


def set_num_threads(num_threads: int) -> None:
    """Let kernels use `num_threads` cores from now on; results do not depend on it, bit for bit.

    Parameters
    ----------
    num_threads : int
        At least 1; more than the machine has is allowed.

    Raises
    ------
    TypeError, ValueError
        If `num_threads` is not a positive integer.
    """
    global _num_threads
    _num_threads = positive_integer(num_threads, "num_threads")


def _default_num_threads() -> int:
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return processors.available()


def cores_for(nanoseconds: float) -> int:
    """The cores to spread this much work over; 1 means the serial walk, with no launch at all."""
    if nanoseconds < SERIAL_WORK:
        return 1
    return min(get_num_threads(), int(nanoseconds / _WORTH_A_CORE))
