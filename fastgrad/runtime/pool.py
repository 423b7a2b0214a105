"""The threads that share a launch: our own, or those of the OpenMP library that PyTorch has loaded.

Threads of our own need no library, start again in a forked child, and may be used by any number of
Python threads at once: while one launches, the others compute alone. They wait awake between launches
that follow each other closely. So do PyTorch's, on the same cores: with both in turn, each would find
the other's threads in its place. Therefore, once PyTorch is there, its team does the work of both.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import threading

import numpy as np

from .locks import compile_lock

__all__ = ["CAPACITY", "Pool", "ready"]

#: Participants at most.
CAPACITY = 256
#: How long a worker without work stays awake, in nanoseconds.
LINGER = 2_000_000

#: Importing one of these loads an OpenMP library whose threads linger too.
_OPENMP_USERS = ("torch", "numba.np.ufunc.omppool")
_OPENMP_LIBRARIES = ("libgomp.so.1", "libiomp5.so", "libomp.so")


class Pool:
    """The memory of a pool and its workers. See `pool_kernels` for how they work together.

    Parameters
    ----------
    own : bool
        Never use an OpenMP library: this is a forked child, and the library's threads are the parent's.
    """

    def __init__(self, own: bool = False):
        from . import pool_kernels as kernels  # imports Numba

        self._kernels = kernels
        size = kernels.COUNTERS + CAPACITY * kernels.LINES + CAPACITY * kernels.SLOT
        self._memory = np.zeros((size + kernels.LINES) // 8, np.int64)
        start = self._memory.ctypes.data
        #: Where the head is.
        self.address = start + -start % kernels.LINES
        self.run_address = kernels.run.address
        self._end_workers = kernels.stop.entry  # compiled now, not while the interpreter ends
        self.workers = 0
        self._own = own
        self._team = 0
        self._stopped = False
        self._users: tuple[bool, ...] = ()
        self._set(kernels.JOIN, kernels.join_team.address)
        self._set(kernels.PROCESS, os.getpid())
        self._set(kernels.CAPACITY, CAPACITY)
        self._set(kernels.LINGER, LINGER)
        self._set(kernels.MEMBERS, kernels.CLOSED)

    def _set(self, offset: int, value: int) -> None:
        self._memory[(self.address - self._memory.ctypes.data + offset) // 8] = value

    def prepare(self, cores: int) -> int:
        """See to it that `cores` threads can take part; returns how many can."""
        if self._stopped:
            return 1
        users = _openmp_users()
        if users != self._users:
            self._find_team(users)
        if self._team or self.workers >= cores - 1:
            return min(cores, CAPACITY)
        return min(cores, self._grow(min(cores, CAPACITY)))

    def _find_team(self, users: tuple[bool, ...]) -> None:
        """Look for an OpenMP library in this process."""
        with _lock:
            team, index = (0, 0) if self._own or not any(users) else _openmp()
            self._set(self._kernels.TEAM_INDEX, index)
            self._set(self._kernels.TEAM, team)
            self._team = team
            if team or not _is_importing():
                self._users = users

    def _grow(self, cores: int) -> int:
        """Start workers until there are `cores - 1`, or the system gives no more."""
        kernels = self._kernels
        work = kernels.work.address
        with _lock:
            # Signals are for threads that run Python.
            before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
            try:
                while self.workers < cores - 1:
                    if not kernels.start.entry(self.address, self.workers + 1, work):
                        break
                    self.workers += 1
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self.workers + 1

    def stop(self) -> None:
        """End the workers. Launches are serial from now on."""
        self._stopped = True
        self._end_workers(self.address, self.workers)


def _openmp_users() -> tuple[bool, ...]:
    return tuple([name in sys.modules for name in _OPENMP_USERS])


def _openmp() -> tuple[int, int]:
    """Addresses of GOMP_parallel and omp_get_thread_num in the library in this process; else 0."""
    for name in _OPENMP_LIBRARIES:
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            functions = library.GOMP_parallel, library.omp_get_thread_num
        except (OSError, AttributeError):
            continue
        parallel, index = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions)
        return parallel, index
    return 0, 0


def _is_importing() -> bool:
    """Whether one of the OpenMP users is still being imported: its library may come yet."""
    specs = (getattr(sys.modules.get(name), "__spec__", None) for name in _OPENMP_USERS)
    return any(getattr(spec, "_initializing", False) for spec in specs)


_pool: Pool | None = None
_lock = threading.Lock()
_team_is_gone = False


def ready(cores: int) -> tuple[Pool, int]:
    """The pool of this process, with `cores` participants or as many as can be had."""
    global _pool
    if _pool is None:
        with compile_lock:
            if _pool is None:
                _pool = Pool(own=_team_is_gone)
    return _pool, _pool.prepare(cores)


@atexit.register
def _stop() -> None:
    """Before the interpreter frees the machine code that workers are in."""
    if _pool is not None:
        _pool.stop()


def _after_fork_in_child() -> None:
    """None of the parent's threads are here: forget its pool. The memory is left as it is."""
    global _pool, _lock, _team_is_gone
    _pool, _lock = None, threading.Lock()
    _team_is_gone = _team_is_gone or any(_openmp_users())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
