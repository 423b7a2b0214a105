"""What only x86 has, with its generic lowering beside it."""

from __future__ import annotations

import platform

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["store_fence"]

_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


@intrinsic
def store_fence(typing_context):
    """Order non-temporal stores before whatever follows; elsewhere than on x86 a release fence."""

    def generate(context, builder, signature, arguments):
        if _IS_X86:
            function_type = ir.FunctionType(ir.VoidType(), [])
            builder.call(
                builder.module.declare_intrinsic("llvm.x86.sse.sfence", (), function_type), []
            )
        else:
            builder.fence("release")
        return context.get_dummy_value()

    return types.void(), generate
