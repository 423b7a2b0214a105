"""The `kernel` decorator: options, signature, lazy compile and cache of a function over tiles.

A kernel has one signature, so there is nothing to dispatch: `Kernel.entry` is the compiled
function itself, called with NumPy arrays and numbers. It takes 16-bit floats, read-only arrays and
whatever else has the right item size without a type of its own; checking is the caller's work.
Imports Numba: only generated modules and the vector unit import this file.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numba
from numba.core import serialize
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

from . import cache
from .locks import once
from .modules import GENERATED

__all__ = ["Kernel", "able_to_compile", "jit", "kernel"]

# No fast-math: NaN and infinities are results like any other here. The one function that may
# reassociate (`reduce_sum`) asks for it by itself.
_OPTIONS = {"error_model": "numpy", "boundscheck": False, "nogil": True}
_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def jit(function: Callable, **options: Any) -> Any:
    """Compile a function that kernels call: `numba.njit` with the options of every kernel.

    Unlike it, this compiles with NUMBA_DISABLE_JIT=1 too: a user sets that to debug functions of their
    own, and lanes and tiles have no meaning as Python.
    """
    return CPUDispatcher(
        function, targetoptions={"nopython": True, **_OPTIONS, **_INNER, **options}
    )


class Kernel:
    """A function over tiles with one signature, compiled or loaded at its first use.

    Parameters
    ----------
    function : callable
        The Python body; returns a bool.
    signature : str
        Its argument types as Numba writes them, ``"int64, float32[::1], float32"``.
    """

    def __init__(self, function: Callable, signature: str):
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.signature_text = signature
        self.signature = numba.core.sigutils.normalize_signature(f"boolean({signature})")[0]
        self.dispatcher = jit(function, no_cpython_wrapper=False)
        self.cache_name = f"{_content_name(function.__module__)}.{function.__name__}.bin"

    @once
    def entry(self) -> Callable:
        """The compiled function, called from Python."""
        return self._result.entry_point

    @once
    def address(self) -> int:
        """Where the machine code is, for other kernels to call it."""
        result = self._result
        return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)

    @once
    def _result(self) -> CompileResult:
        """Loaded from the cache where it is there, else compiled."""
        with global_compiler_lock:  # `once` holds fastgrad's own
            return self._load() or self._compile()

    def _load(self) -> CompileResult | None:
        payload = cache.load(self.cache_name)
        if payload is None:
            return None
        # Of `context.refresh()`, machine code needs the allocator alone. The rest imports Numba's
        # implementations of NumPy (SciPy's linear algebra too, where it is installed): 0.2 s.
        context = self.dispatcher.targetctx
        rtsys.initialize(context)
        try:
            return CompileResult._rebuild(context, *pickle.loads(payload))
        except Exception:  # whatever is wrong with a cached file, compiling is the answer
            return None

    def _compile(self) -> CompileResult:
        with able_to_compile():
            _keep_lines_at_hand(self.dispatcher.py_func.__code__.co_filename)
            self.dispatcher.compile(self.signature)
        result = self.dispatcher.overloads[self.signature]
        # The annotation is for people. To write it, Numba reads and parses the source's file, whatever
        # has become of that meanwhile.
        reduced = result._replace(type_annotation="")._reduce()
        cache.publish(self.cache_name, cache.seal(self.cache_name, serialize.dumps(reduced)))
        return result


def kernel(signature: str) -> Callable[[Callable], Kernel]:
    """Decorator: make a function over tiles a `Kernel` with this one signature."""
    return lambda function: Kernel(function, signature)


@contextlib.contextmanager
def able_to_compile() -> Iterator[None]:
    """Two conditions under which Numba compiles nothing, put aside for the time being.

    NUMBA_DISABLE_JIT is for the user's own functions, and cuts down Numba's own. A working directory
    that was deleted makes Numba fail over the relative paths in its messages.
    """
    disabled, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, 0
    lost = _lost_directory()
    try:
        yield
    finally:
        numba.config.DISABLE_JIT = disabled
        if lost is not None:
            os.fchdir(lost)
            os.close(lost)


def _lost_directory() -> int | None:
    """A descriptor of the working directory, left for the root, if it is deleted; else None."""
    try:
        os.getcwd()
    except FileNotFoundError:
        lost = os.open(".", os.O_RDONLY)
        os.chdir("/")
        return lost
    return None


def _keep_lines_at_hand(filename: str) -> None:
    """Numba quotes lines of the source, by a relative path: it shall not have to read the file."""
    if filename in linecache.cache:
        linecache.cache[os.path.relpath(filename)] = linecache.cache[filename]


def _content_name(module: str) -> str:
    """A module's name with a hash of what its kernels depend on: content, not time stamps.

    A generated module's name has it; the library's own sources are part of the environment.
    """
    stem = module.rpartition(".")[2]
    return stem if module.startswith(GENERATED) else f"{stem}_{cache.environment()}"
