"""The 16-bit formats: float16 as uint16, bfloat16 as int16, each to and from float32.

Neither format has arithmetic of its own: a kernel computes in float32 and rounds once, to the
nearest, ties to even. A NaN stays one, a quiet one when it is rounded. The two integer types keep
the formats apart in Numba's type dispatch.

float16 is converted by the machine's instruction where there is one. The generic lowering gives the
same bits and vectorises as well; LLVM's own would call a function for each element.
"""

from __future__ import annotations

from llvmlite import binding, ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

__all__ = ["bfloat_to_float", "float_to_bfloat", "float_to_half", "half_to_float"]

_I16, _I32, _FLOAT = ir.IntType(16), ir.IntType(32), ir.FloatType()

#: Bit patterns of float32.
_INFINITY, _QUIET = 0x7F800000, 0x00400000
#: Bits of the mantissa of float32 that float16 and bfloat16 have not.
_LOST_BY_HALF, _LOST_BY_BFLOAT = 13, 16
#: float32 has its exponents biased by this much more than float16.
_REBIAS = 127 - 15


def _cast(result, operand, lowering):
    """A conversion of one lane, from the function that emits it."""

    @intrinsic
    def convert(typing_context, value):
        def generate(context, builder, signature, arguments):
            return lowering(builder, arguments[0])

        return (result(operand), generate) if value == operand else None

    return convert


def _hardware_half_to_float(b, half):
    return b.fpext(b.bitcast(half, ir.HalfType()), _FLOAT)


def _hardware_float_to_half(b, value):
    return b.bitcast(b.fptrunc(value, ir.HalfType()), _I16)


def _generic_half_to_float(b, half):
    pattern = b.zext(half, _I32)
    sign = b.shl(b.and_(pattern, _I32(0x8000)), _I32(16))
    # As float32 bits the number is too small by 2^112, subnormal or not; above all that are finite,
    # the exponent field has to be filled up.
    small = b.bitcast(b.shl(b.and_(pattern, _I32(0x7FFF)), _I32(_LOST_BY_HALF)), _FLOAT)
    size = b.fmul(small, ir.Constant(_FLOAT, 2.0**_REBIAS))
    size_bits = b.bitcast(size, _I32)
    infinite = b.or_(size_bits, _I32(_INFINITY))
    nan = b.or_(infinite, _I32(_QUIET))
    beyond = ir.Constant(_FLOAT, 2.0**16)
    edge = b.select(b.fcmp_ordered(">", size, beyond), nan, infinite)
    chosen = b.select(b.fcmp_ordered(">=", size, beyond), edge, size_bits)
    return b.bitcast(b.or_(chosen, sign), _FLOAT)


def _generic_float_to_half(b, value):
    pattern = b.bitcast(value, _I32)
    sign = b.lshr(b.and_(pattern, _I32(0x80000000)), _I32(16))
    size = b.and_(pattern, _I32(0x7FFFFFFF))
    # A normal number: what rounds up may carry into the exponent, and so up to infinity.
    normal = b.lshr(
        b.sub(_round_to_even(b, size, _LOST_BY_HALF), _I32(_REBIAS << 23)), _I32(_LOST_BY_HALF)
    )
    # A subnormal one: the sum with 1/2 has the spacing of float16's subnormals.
    half = ir.Constant(_FLOAT, 0.5)
    shifted = b.bitcast(b.fadd(b.bitcast(size, _FLOAT), half), _I32)
    subnormal = b.sub(shifted, b.bitcast(half, _I32))
    nan = b.or_(b.and_(b.lshr(size, _I32(_LOST_BY_HALF)), _I32(0x1FF)), _I32(0x7E00))

    result = b.select(b.icmp_unsigned("<", size, _I32(_float_bits(-14))), subnormal, normal)
    result = b.select(b.icmp_unsigned(">=", size, _I32(_float_bits(16))), _I32(0x7C00), result)
    result = b.select(b.icmp_unsigned(">", size, _I32(_INFINITY)), nan, result)
    return b.trunc(b.or_(result, sign), _I16)


def _bfloat_to_float(b, bfloat):
    return b.bitcast(b.shl(b.zext(bfloat, _I32), _I32(_LOST_BY_BFLOAT)), _FLOAT)


def _float_to_bfloat(b, value):
    pattern = b.bitcast(value, _I32)
    rounded = b.lshr(_round_to_even(b, pattern, _LOST_BY_BFLOAT), _I32(_LOST_BY_BFLOAT))
    nan = b.lshr(b.or_(pattern, _I32(_QUIET)), _I32(_LOST_BY_BFLOAT))
    return b.trunc(b.select(b.fcmp_unordered("uno", value, value), nan, rounded), _I16)


def _round_to_even(b, pattern, lost):
    """`pattern` plus what carries into the bits above the `lost` ones where they round up."""
    odd = b.and_(b.lshr(pattern, _I32(lost)), _I32(1))
    return b.add(pattern, b.add(odd, _I32((1 << (lost - 1)) - 1)))


def _float_bits(exponent):
    """The bit pattern of the float32 2^exponent."""
    return (127 + exponent) << 23


def _has_half_conversion():
    """Whether the processor that Numba compiles for converts float16 in hardware."""
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return "+f16c" in (config.CPU_FEATURES or "")
    aarch64 = binding.get_process_triple().startswith(("aarch64", "arm64"))
    return aarch64 or bool(binding.get_host_cpu_features().get("f16c", False))


hardware_half_to_float = _cast(types.float32, types.uint16, _hardware_half_to_float)
hardware_float_to_half = _cast(types.uint16, types.float32, _hardware_float_to_half)
generic_half_to_float = _cast(types.float32, types.uint16, _generic_half_to_float)
generic_float_to_half = _cast(types.uint16, types.float32, _generic_float_to_half)

HAS_HALF_CONVERSION = _has_half_conversion()
if HAS_HALF_CONVERSION:
    half_to_float, float_to_half = hardware_half_to_float, hardware_float_to_half
else:
    half_to_float, float_to_half = generic_half_to_float, generic_float_to_half
bfloat_to_float = _cast(types.float32, types.int16, _bfloat_to_float)
float_to_bfloat = _cast(types.int16, types.float32, _float_to_bfloat)
