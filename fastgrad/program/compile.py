"""A program in one precision as a kernel that can be called."""

from __future__ import annotations

import functools

from ..kernels import elementwise, reducing
from ..kernels.elementwise import ElementwiseWalk
from ..kernels.reducing import ReducingWalk
from ..kernels.template import Fields, local_name
from ..runtime.modules import load_module
from ..vector_unit.precision import Precision
from .cost import nanoseconds
from .emit import body_source, header_source
from .expression import RANDOM
from .program import Program
from .text import instructions_text

__all__ = ["compiled", "generated_source"]


@functools.cache
def compiled(program: Program, precision: Precision) -> ElementwiseWalk | ReducingWalk:
    """The walk that runs `program`; its machine code is compiled or loaded at the first call."""
    module = load_module(f"{program.name}_{precision.name}", generated_source(program, precision))
    walk = ReducingWalk if _has_sums(program) else ElementwiseWalk
    full = [result for result in program.results if not result.reduced]
    return walk(module, len(program.arrays) + len(full), nanoseconds(program, precision))


def generated_source(program: Program, precision: Precision) -> str:
    """The whole text of the generated module."""
    walk = reducing if _has_sums(program) else elementwise
    return (
        header_source(program, precision, instructions_text(program))
        + body_source(program, precision)
        + "\n\n"
        + walk.source(_fields(program, precision))
    )


def _has_sums(program: Program) -> bool:
    return any(result.reduced for result in program.results)


def _fields(program: Program, precision: Precision) -> Fields:
    kinds = {
        name: precision.compute if name in program.channels else precision.storage
        for name in program.arrays
    }
    full = [result.name for result in program.results if not result.reduced]
    summed = [result.name for result in program.results if result.reduced]
    return Fields(
        operands=tuple((local_name(name), kind) for name, kind in kinds.items()),
        results=tuple((local_name(name), precision.storage) for name in full),
        sums=tuple((local_name(name), precision.compute) for name in summed),
        numbers=tuple((local_name(name), precision.compute) for name in program.numbers),
        random=local_name(RANDOM.name) if program.is_random else "",
    )
