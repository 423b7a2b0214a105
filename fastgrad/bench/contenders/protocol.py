"""What a contender's module gives to the worker, and the worker to the parent."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fastgrad.bench.accuracy import Accuracy
from fastgrad.bench.workloads import Case


class Unsupported(Exception):
    """A contender has nothing to measure in a case; not a failure."""


class CannotStart(RuntimeError):
    """A contender's library is missing, or cannot work here; the text says what to do."""


@dataclass(frozen=True)
class Prepared:
    """A case ready to be timed.

    Parameters
    ----------
    call : callable
        What is timed, without arguments.
    arrays : callable
        From the result of `call` to NumPy arrays, in the order of the workload's reference.
    code : str
        What a user would write, for the report.
    restore : callable, optional
        Undoes what `call` did to its inputs, untimed, before the next call.
    bytes_kept : callable, optional
        Counts the bytes kept between forward and backward.
    peak_bytes : callable, optional
        Counts the bytes of a call, results included, where a library keeps what it frees: the
        system does not see them again.
    """

    call: Callable[[], Any]
    arrays: Callable[[Any], tuple[np.ndarray, ...]]
    code: str
    restore: Callable[[], None] | None = None
    bytes_kept: Callable[[], int] | None = None
    peak_bytes: Callable[[], int] | None = None


@dataclass(frozen=True)
class Readiness:
    """What a worker says about a case before it is timed."""

    code: str
    repetitions: int
    accuracy: Accuracy
    bytes_kept: int | None


class Backend(Protocol):
    """A contender's module."""

    OPERATORS: frozenset[str]
    """Names of the workloads that it takes part in."""

    def start(self, threads: int) -> dict[str, str]:
        """Set the library to `threads` and return the versions that matter."""

    def prepare(self, case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
        """Bind `inputs` to the call that `case` asks for."""


def library(module: str) -> Any:
    """Import a module of a library that not everyone has.

    Raises
    ------
    CannotStart
        If the library is not installed, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise  # it is there, and lacks something itself
        raise CannotStart(f"{error.name} is not installed: make peers") from None


def as_tuple(results: Any) -> tuple[Any, ...]:
    """The results of a call that returns one or a tuple of them."""
    return results if isinstance(results, tuple) else (results,)


def refuse_in_place(case: Case) -> None:
    """Leave `case` out if it asks for a result over an input, which a library does not have."""
    if case.mode == "in-place":
        raise Unsupported("its results are new arrays")


def bind(
    function: Callable[..., Any],
    operands: Sequence[Any],
    mode: str,
    out_keyword: str,
    *,
    new: Callable[[Any], Any],
    copy: Callable[[Any, Any], object],
) -> tuple[Callable[[], Any], Callable[[], None] | None]:
    """The call in `mode`, and what restores its inputs where it overwrites one.

    Parameters
    ----------
    new, copy : callable
        Make an array like another one; copy the second argument into the first.
    """
    if mode == "allocate":
        return functools.partial(function, *operands), None
    target = new(operands[0])
    if mode == "out":
        return functools.partial(function, *operands, **{out_keyword: target}), None

    def restore() -> None:
        copy(target, operands[0])

    restore()
    call = functools.partial(function, target, *operands[1:], **{out_keyword: target})
    return call, restore


def call_text(
    name: str, inputs: Sequence[str], keywords: Mapping[str, Any], mode: str, out_keyword: str
) -> str:
    """The call as a user would write it."""
    arguments = [*inputs, *(f"{key}={value!r}" for key, value in keywords.items())]
    if mode != "allocate":
        arguments.append(f"{out_keyword}={inputs[0] if mode == 'in-place' else 'out'}")
    return f"{name}({', '.join(arguments)})"


def source(*functions: Callable[..., Any]) -> str:
    """The text of `functions`, for `Prepared.code`: what is printed is what is run."""
    return "\n\n".join(inspect.getsource(function).strip() for function in functions)
