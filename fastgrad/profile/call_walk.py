"""Calling a walk by its address from compiled code, as `share` does for each part of a launch."""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fastgrad.runtime.native import call_kernel

__all__ = ["call_walk"]


@intrinsic
def call_walk(typing_context, walk, lo, hi, arguments):
    """Walk ``lo`` to ``hi`` with the kernel at the address `walk`; whether it failed."""

    def generate(context, builder, signature, values):
        walk, lo, hi, packed = values
        own_types = (types.int64, types.int64, *arguments)
        own_values = (lo, hi, *cgutils.unpack_tuple(builder, packed))
        return call_kernel(context, builder, walk, own_types, own_values)

    return types.boolean(types.int64, types.int64, types.int64, arguments), generate
