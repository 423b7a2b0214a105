"""The lock of everything that compiles, loads or imports kernels, and what a fork does with it."""

from __future__ import annotations

import contextlib
import logging  # noqa: F401  Its hooks of a fork take its lock, and must run after those below.
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["compile_lock", "once"]

#: Taken before Numba's own lock, never the other way round.
compile_lock = threading.RLock()


class once:
    """`functools.cached_property` under `compile_lock`.

    Python 3.11's has a lock of its own, which a forked child would inherit locked for ever.
    """

    def __init__(self, function: Callable):
        self._function, self.__doc__ = function, function.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        name = self._function.__name__
        with compile_lock:
            if name not in instance.__dict__:
                instance.__dict__[name] = self._function(instance)
        return instance.__dict__[name]


def _locks() -> Iterator[Any]:
    """Ours, Numba's and llvmlite's, in the order in which compiling takes them."""
    yield compile_lock
    compiler = sys.modules.get("numba.core.compiler_lock")
    llvm = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    for holder, name in ((compiler, "global_compiler_lock"), (llvm, "_lock")):
        lock = getattr(holder, name, None)
        if lock is not None:
            yield lock


_held = contextlib.ExitStack()


def _before_fork() -> None:
    """Wait for compilations in other threads: a child would inherit them half done, and their locks.

    Numba logs while it compiles. Hooks run in the reverse order of their registration, so this one waits
    before logging's lock is taken.
    """
    for lock in _locks():
        _held.enter_context(lock)


def _after_fork() -> None:
    _held.pop_all().close()  # another thread may fork as soon as the last one is free


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
