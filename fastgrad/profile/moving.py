"""The walk of a program with a body that moves its bytes and computes nothing.

The same text around it (`kernels/elementwise.py`, `reducing.py`), the same operands and results,
the same tiles, layouts and ways out; elements are integers of their width, so that no cast costs
anything. One kernel serves three cases, chosen by a number that it takes last.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fastgrad.kernels import elementwise, reducing
from fastgrad.kernels.template import STREAMED, Fields, local_name
from fastgrad.profile.launches import Launch
from fastgrad.program.emit import header_source
from fastgrad.program.program import Program
from fastgrad.runtime.modules import load_module
from fastgrad.vector_unit.precision import Precision

if TYPE_CHECKING:  # imports Numba
    from fastgrad.runtime.compiler import Kernel

__all__ = ["BOTH", "IN", "OUT", "moving"]

#: What is moved: operands alone, into scratch tiles; results alone; both.
IN, OUT, BOTH = 1, 2, 3

# No operand may be called so.
_WHAT = "_what"

_BODY = '''

@lane
def body({arguments}):
    """One tile: operands are read, results written, all of it as integers."""
    if {what} != {out}:
        for i in range({first}.size):
            bits = {bits}
{writes}
    else:
        for i in range({first}.size):
            bits = i
{writes}
{sums}

'''


def moving(launch: Launch, program: Program, precision: Precision, what: int) -> Launch:
    """The launch of `program` that only moves: `IN`, `OUT` or `BOTH`.

    Operands alone are read into scratch tiles that go nowhere. The program has at least one result
    of its operands' shape.
    """
    moved = dataclasses.replace(
        launch,
        tiles=_kernel(program, precision),
        arguments=(*launch.arguments, what),
    )
    return moved.stored(STREAMED) if what == IN else moved


def _kernel(program: Program, precision: Precision) -> Kernel:
    text = (
        header_source(program, dataclasses.replace(precision, load="", store=""), "bytes alone")
        + _body_source(fields := _fields(program, precision))
        + (reducing if fields.sums else elementwise).source(fields)
    )
    return load_module(f"{program.name}_{precision.name}_bytes", text).tiles


class _GuardedFields(Fields):
    """Results stay in their scratch tiles where operands alone are moved."""

    def tiles_out(self, indent: int) -> str:
        return " " * indent + f"if {_WHAT} != {IN}:\n" + super().tiles_out(indent + 4)


def _fields(program: Program, precision: Precision) -> Fields:
    compute, storage = precision.compute_dtype.itemsize, precision.dtype.itemsize
    full = [result.name for result in program.results if not result.reduced]
    summed = [result.name for result in program.results if result.reduced]
    return _GuardedFields(
        operands=tuple(
            (local_name(name), _integer(compute if name in program.channels else storage))
            for name in program.arrays
        ),
        results=tuple((local_name(name), _integer(storage)) for name in full),
        sums=tuple((local_name(name), precision.compute) for name in summed),
        numbers=(
            *((local_name(name), precision.compute) for name in program.numbers),
            (_WHAT, "int64"),
        ),
    )


def _integer(itemsize: int) -> str:
    return f"uint{8 * itemsize}"


def _body_source(fields: Fields) -> str:
    names = [name for name, _ in (*fields.operands, *fields.results, *fields.sums)]
    results = [name for name, _ in fields.results]
    return _BODY.format(
        arguments=", ".join([*names, *(name for name, _ in fields.numbers)]),
        what=_WHAT,
        out=OUT,
        first=results[0],
        bits=" ^ ".join(f"read({name}, i)" for name, _ in fields.operands),
        writes="\n".join(f"{'':12}write({name}, i, bits)" for name in results),
        sums="\n".join(
            f"    for i in range({name}.size):\n        write({name}, i, f(0))"
            for name, _ in fields.sums
        ),
    )
