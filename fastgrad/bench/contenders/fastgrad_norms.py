"""fastgrad's norms."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

import fastgrad
from fastgrad.bench.contenders.arrays import bytes_kept
from fastgrad.bench.contenders.protocol import Prepared, as_tuple
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.forms import PARAMETERS
from fastgrad.bench.norms import NormCall
from fastgrad.bench.workloads import Case

Arrays = dict[str, np.ndarray]


def prepare(case: Case, inputs: Arrays) -> Prepared:
    call = NORM_CALLS[case.operator]
    make = {"forward": _forward, "gradient": _gradient, "both": _forward_backward}
    return make[call.direction](call, inputs)


def _forward(call: NormCall, inputs: Arrays) -> Prepared:
    name, told = call.norm.name, call.norm.keywords
    text = f"{', '.join(call.results)} = {_text(name, inputs, told)}"
    return Prepared(_bound(name, inputs, told), as_tuple, text)


def _gradient(call: NormCall, inputs: Arrays) -> Prepared:
    name, told = f"{call.norm.name}_grad", call.norm.keywords
    taken = inspect.signature(getattr(fastgrad, name)).parameters
    operands = {key: array for key, array in inputs.items() if key in taken}
    statistics, before = _statistics(call, inputs)
    call_of_it = _bound(name, {**operands, **statistics}, told)
    text = _text(name, {**operands, **statistics}, told)
    return Prepared(
        call_of_it, tuple, f"{before}  # before, untimed\n{', '.join(call.results)} = {text}"
    )


def _statistics(call: NormCall, inputs: Arrays) -> tuple[Arrays, str]:
    """What forward saves for this backward, and how a user gets it."""
    operands = {name: inputs[name] for name in call.operands}
    told = {**call.norm.keywords, "return_stats": True}
    _, *saved = _bound(call.function, operands, told)()
    names = call.norm.statistics
    text = f"y, {', '.join(names)} = {_text(call.function, operands, told)}"
    return dict(zip(names, saved, strict=True)), text


def _forward_backward(call: NormCall, inputs: Arrays) -> Prepared:
    operator, told = getattr(fastgrad, call.norm.name), call.norm.keywords
    dy, x = inputs["dy"], inputs["x"]
    parameters = {name: inputs[name] for name in call.norm.parameters}

    def forward_backward() -> tuple[np.ndarray, ...]:
        y, pullback = fastgrad.vjp(operator, x, **parameters, **told)
        return y, *pullback(dy)

    def pullback_of(x: np.ndarray) -> Any:
        _, pullback = fastgrad.vjp(operator, x, **parameters, **told)
        return pullback

    arguments = _arguments({"x": x, **parameters}, told)
    gradients = ", ".join(call.norm.gradients)
    code = f"y, pullback = fastgrad.vjp(fastgrad.{call.norm.name}, {arguments})\n{gradients} = pullback(dy)"
    return Prepared(forward_backward, tuple, code, bytes_kept=lambda: bytes_kept(pullback_of, x))


def _is_named(name: str) -> bool:
    """Whether a user gives an argument by its name: all but the arrays that come first."""
    return name in (*PARAMETERS, "mean", "rstd")


def _bound(name: str, arrays: Arrays, told: Mapping[str, Any]) -> functools.partial[Any]:
    first = [array for key, array in arrays.items() if not _is_named(key)]
    named = {key: array for key, array in arrays.items() if _is_named(key)}
    return functools.partial(getattr(fastgrad, name), *first, **named, **told)


def _text(name: str, arrays: Arrays, told: Mapping[str, Any]) -> str:
    return f"fastgrad.{name}({_arguments(arrays, told)})"


def _arguments(arrays: Arrays, told: Mapping[str, Any]) -> str:
    given = [f"{key}={key}" if _is_named(key) else key for key in arrays]
    return ", ".join([*given, *(f"{key}={value!r}" for key, value in told.items())])
