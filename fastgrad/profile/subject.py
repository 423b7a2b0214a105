"""What is profiled: the call of one workload, and the programs of the kernels behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastgrad.bench.contenders.fastgrad_ import prepare
from fastgrad.bench.inputs import input_arrays
from fastgrad.bench.references import Reference
from fastgrad.bench.workloads import DTYPES, WORKLOADS, Case
from fastgrad.program.program import Program
from fastgrad.vector_unit.precision import PRECISIONS, Precision

__all__ = ["Subject", "known_operators", "subject_of"]

_SEED = 0


@dataclass(frozen=True)
class Subject:
    """One call and what it is made of.

    Attributes
    ----------
    case : Case
        Operator, shape, dtype and mode, as `fastgrad.bench` names them.
    call : callable
        The call of a user, without arguments.
    code : str
        What a user would write.
    programs : tuple of Program
        Of the kernels, in the order in which the call launches them.
    precision : Precision
        Of all of them.
    """

    case: Case
    call: Callable[[], Any]
    code: str
    programs: tuple[Program, ...]
    precision: Precision


def known_operators() -> list[str]:
    """The workloads that consist of programs."""
    return [
        name
        for name, workload in WORKLOADS.items()
        if all(isinstance(result, Reference) for result in workload.results)
    ]


def subject_of(operator: str, shape: tuple[int, ...], dtype: str) -> Subject:
    """Make the inputs of a workload and bind them to its call, in the first of its modes."""
    workload = WORKLOADS[operator]
    case = Case(operator, shape, dtype, workload.modes[0])
    prepared = prepare(case, input_arrays(case, _SEED))
    return Subject(
        case,
        prepared.call,
        prepared.code,
        tuple(map(_program, workload.results)),
        PRECISIONS[DTYPES[dtype]],
    )


def _program(result: Reference) -> Program:
    return result.operator.trace(wrt=result.wrt or None, **dict(result.choices))
