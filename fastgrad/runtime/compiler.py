"""The `kernel` decorator: options, signature, lazy compile and cache of a function over tiles.

A kernel has one signature, so there is nothing to dispatch: `Kernel.entry` is the compiled
function itself, called with NumPy arrays and numbers. It takes 16-bit floats, read-only arrays and
whatever else has the right item size without a type of its own; checking is the caller's work.
Imports Numba: only generated modules and the vector unit import this file.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable

import numba
from numba import types
from numba.core import cgutils, serialize
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys
from numba.extending import intrinsic

from . import cache

__all__ = ["Kernel", "call_address", "kernel"]

# No fast-math: NaN and infinities are results like any other here. The one function that may
# reassociate (`reduce_sum`) asks for it by itself.
_OPTIONS = {"error_model": "numpy", "boundscheck": False, "nogil": True}


class Kernel:
    """A function over tiles with one signature, compiled or loaded at its first use.

    Parameters
    ----------
    function : callable
        The Python body; returns a bool.
    signature : str
        Its argument types as Numba writes them, ``"int64, float32[::1], float32"``.
    parallel : bool
        Compile with Numba's `prange`.
    """

    def __init__(self, function: Callable, signature: str, parallel: bool = False):
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.signature_text = signature
        self.signature = numba.core.sigutils.normalize_signature(f"boolean({signature})")[0]
        self.dispatcher = numba.njit(parallel=parallel, **_OPTIONS)(function)
        # Named by its module (a hash of the source) and the environment: content, not time stamps.
        self.cache_name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}.bin"

    @functools.cached_property
    def entry(self) -> Callable:
        """The compiled function, called from Python."""
        return self._result.entry_point

    @functools.cached_property
    def address(self) -> int:
        """Where the machine code is, for `call_address`."""
        result = self._result
        return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)

    @functools.cached_property
    def _result(self) -> CompileResult:
        """Loaded from the cache where it is there, else compiled."""
        with global_compiler_lock:
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
        self.dispatcher.compile(self.signature)
        result = self.dispatcher.overloads[self.signature]
        cache.publish(self.cache_name, cache.seal(serialize.dumps(result._reduce())))
        return result


def kernel(signature: str, *, parallel: bool = False) -> Callable[[Callable], Kernel]:
    """Decorator: make a function over tiles a `Kernel` with this one signature."""
    return lambda function: Kernel(function, signature, parallel)


@intrinsic
def call_address(typing_context, address, *arguments):
    """Call the kernel at `address` with `arguments`, whose types must be those of its signature.

    Returns 1 if it raised an exception (there was no memory for its scratch), else 0. Unlike a call by
    name, this compiles nothing of the kernel into the caller.
    """
    if len(arguments) == 1 and isinstance(arguments[0], types.BaseTuple):
        arguments = tuple(arguments[0])

    def generate(context, builder, signature, values):
        own_types = signature.args[1:]
        own_values = values[1:]
        if len(own_types) == 1 and isinstance(own_types[0], types.BaseTuple):
            own_values = cgutils.unpack_tuple(builder, values[1])
            own_types = tuple(own_types[0])
        convention = context.call_conv
        function_type = convention.get_function_type(types.boolean, own_types)
        function = builder.inttoptr(values[0], function_type.as_pointer())
        status, _ = convention.call_function(
            builder, function, types.boolean, own_types, own_values
        )
        return builder.zext(status.is_error, context.get_value_type(types.int64))

    return types.int64(address, types.StarArgTuple.from_types(arguments)), generate
