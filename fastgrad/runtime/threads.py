"""How many cores a launch uses, and when it has to stay on the calling one."""

from __future__ import annotations

import os
import threading

from .settings import positive_integer

__all__ = ["SERIAL_ELEMENTS", "cores_for", "get_num_threads", "launch_lock", "set_num_threads"]

# A launch costs some microseconds; below this much work a core, measured in elements of a cheap
# kernel, one core is done sooner alone. See docs/architecture.md, "Small work".
_ELEMENTS_PER_CORE = 8192

#: Up to this many elements a launch never pays.
SERIAL_ELEMENTS = 2 * _ELEMENTS_PER_CORE - 1

_num_threads: int | None = None
_forked = False


def get_num_threads() -> int:
    """The number of cores that a kernel may use, for the whole process.

    Until `set_num_threads` is called: `OMP_NUM_THREADS` where it is set, else the processors that
    this process may run on.
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
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_for(elements: int) -> int:
    """The cores to spread `elements` over; 1 means the serial walk, with no launch at all."""
    if elements <= SERIAL_ELEMENTS or _forked:
        return 1
    return min(get_num_threads(), elements // _ELEMENTS_PER_CORE)


# Numba's workqueue layer aborts the process when two threads launch at once, and which layer it
# loads is known only after the first launch: launches take turns. One launch fills all cores anyway.
launch_lock = threading.Lock()


def _after_fork_in_child() -> None:
    """A forked child has none of the pool's threads: it walks serially, and the lock is free."""
    global _forked, launch_lock
    _forked = True
    launch_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
