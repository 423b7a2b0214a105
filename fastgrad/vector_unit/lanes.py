"""One lane of a vector: the instructions that LLVM turns into full-width ones inside a loop.

Each works on float32 and float64 (or on the integers of their width) and is typed by its arguments.
None of them may be contracted or reassociated, so a vector body and its scalar remainder agree bit
for bit.

A constant of the vector maths is a pair ``(float32 value, float64 value)``, a table of coefficients
a pair of tuples; `like`, `fma` and `polynomial` take the half that fits their other operands. Thus a
formula is written once, and a float32 one never computes in float64.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..runtime.compiler import jit

SINGLE = (types.float32, types.int32)
DOUBLE = (types.float64, types.int64)


def lane(function):
    """Compile a vector function so that LLVM inlines it and can vectorise the loop around it."""
    return jit(function, forceinline=True)


def pair(single, double=None):
    """A constant in float32 and float64; the second value, if it differs, is for float64."""
    return np.float32(single), np.float64(single if double is None else double)


def int_pair(single, double):
    """An integer constant of the width of float32 and of float64."""
    return np.int32(single), np.int64(double)


def table(single, double):
    """Coefficients of a polynomial, highest order first, in float32 and in float64."""
    return tuple(map(np.float32, single)), tuple(map(np.float64, double))


def _is_pair(type_):
    return isinstance(type_, types.BaseTuple) and type_.count == 2


def _half(builder, type_, value, wanted):
    """The half of a constant pair that has the precision of `wanted`; any other value as it is."""
    if not _is_pair(type_):
        return value
    return builder.extract_value(value, 0 if wanted in SINGLE else 1)


def _operand_type(arguments):
    """The one type of all operands that are not constants; None if there are several."""
    found = {type_ for type_ in arguments if not _is_pair(type_)}
    return found.pop() if len(found) == 1 else None


@intrinsic
def like(typing_context, operand, constant):
    """`constant` (a number or a pair) in the type of `operand`."""
    if operand not in SINGLE + DOUBLE:
        return None

    def generate(context, builder, signature, arguments):
        value = _half(builder, constant, arguments[1], operand)
        own = constant if not _is_pair(constant) else constant[0 if operand in SINGLE else 1]
        return context.cast(builder, value, own, operand)

    return operand(operand, constant), generate


@intrinsic
def fma(typing_context, a, b, c):
    """a * b + c, rounded once."""
    result = _operand_type((a, b, c))
    if result not in (types.float32, types.float64):
        return None

    def generate(context, builder, signature, arguments):
        return builder.fma(
            *(_half(builder, t, v, result) for t, v in zip(signature.args, arguments))
        )

    return result(a, b, c), generate


@intrinsic
def polynomial(typing_context, x, coefficients):
    """A polynomial in `x` by Horner's rule, one fma a step; `coefficients` is a `table`."""
    if x not in (types.float32, types.float64):
        return None

    def generate(context, builder, signature, arguments):
        variable, tables = arguments
        own = builder.extract_value(tables, 0 if x in SINGLE else 1)
        count = coefficients[0 if x in SINGLE else 1].count
        total = builder.extract_value(own, 0)
        for i in range(1, count):
            total = builder.fma(total, variable, builder.extract_value(own, i))
        return total

    return x(x, coefficients), generate


def _intrinsic_call(name, operands):
    """An LLVM floating-point intrinsic of so many operands, all of one type."""

    @intrinsic
    def one(typing_context, x):
        return _float_signature(name, (x,))

    @intrinsic
    def two(typing_context, x, y):
        return _float_signature(name, (x, y))

    return one if operands == 1 else two


def _float_signature(name, operands):
    result = _operand_type(operands)
    if result not in (types.float32, types.float64):
        return None

    def generate(context, builder, signature, arguments):
        own = context.get_value_type(result)
        function = builder.module.declare_intrinsic(
            f"llvm.{name}", [own], ir.FunctionType(own, [own] * len(operands))
        )
        return builder.call(function, arguments)

    return result(*operands), generate


rint = _intrinsic_call("rint", 1)
floor = _intrinsic_call("floor", 1)
sqrt = _intrinsic_call("sqrt", 1)
fabs = _intrinsic_call("fabs", 1)
copysign = _intrinsic_call("copysign", 2)
#: NaN if either is NaN; -0 is less than +0.
minimum = _intrinsic_call("minimum", 2)
maximum = _intrinsic_call("maximum", 2)


def _integer_instruction(name):
    """An LLVM integer instruction in the width of its operands (Numba's own widen to 64 bits)."""

    @intrinsic
    def instruction(typing_context, i, j):
        result = _operand_type((i, j))
        if result not in (types.int32, types.int64):
            return None

        def generate(context, builder, signature, arguments):
            halves = (_half(builder, t, v, result) for t, v in zip(signature.args, arguments))
            return getattr(builder, name)(*halves)

        return result(i, j), generate

    return instruction


int_add = _integer_instruction("add")
int_subtract = _integer_instruction("sub")
shift_left = _integer_instruction("shl")
#: Arithmetic: the sign fills up.
shift_right = _integer_instruction("ashr")


def _cast(pairs, instruction):
    """A conversion between floats and integers by an LLVM instruction, typed by `pairs`."""

    @intrinsic
    def convert(typing_context, value):
        result = pairs.get(value)
        if result is None:
            return None

        def generate(context, builder, signature, arguments):
            return getattr(builder, instruction)(arguments[0], context.get_value_type(result))

        return result(value), generate

    return convert


_TO_INTEGER = dict([SINGLE, DOUBLE])
_TO_FLOAT = {integer: real for real, integer in _TO_INTEGER.items()}

#: The bit pattern of a float as an integer of its width, and back.
bits = _cast(_TO_INTEGER, "bitcast")
from_bits = _cast(_TO_FLOAT, "bitcast")
#: A float in the range of the integer of its width, cut off towards zero; and an integer as a float.
to_int = _cast(_TO_INTEGER, "fptosi")
to_float = _cast(_TO_FLOAT, "sitofp")
