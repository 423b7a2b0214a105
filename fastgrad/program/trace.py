"""From a Python function of one line of maths to programs, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .derive import derivative
from .explain import called
from .expression import REDUCTIONS, Node, const, operand, walk
from .maths import Traced, TraceError, _node, as_number
from .optimize import build, reuse_products
from .program import Program, Result

__all__ = ["loss_program", "trace_backward", "trace_forward", "trace_given_backward"]


def trace_forward(
    function: Callable, name: str, kinds: Mapping[str, str], static: Mapping[str, Any]
) -> Program:
    """The program of `function`.

    Parameters
    ----------
    function : callable
        One line of maths over operands.
    name : str
        The operator's name.
    kinds : mapping of str to str
        Every operand, in order: ``"array"``, ``"channel"`` (an array of one element a channel) or
        ``"number"``.
    static : mapping of str to object
        Arguments that choose a program (``approximate="tanh"``).
    """
    operands = tuple(operand(own_name, kind != "number") for own_name, kind in kinds.items())
    value = _run(function, operands, static)
    if any(node.op in REDUCTIONS for node in walk(value)):
        raise TraceError(f"{name} reduces over a row: make it with @fastgrad.rowwise")
    channels = frozenset(own_name for own_name, kind in kinds.items() if kind == "channel")
    result = "out" if "y" in kinds else "y"
    return Program(name, operands, (Result(result, reuse_products(value)[0]),), channels)


def trace_backward(forward: Program, wrt: Sequence[str], number_dy: bool = False) -> Program:
    """The derived backward program: gradients of the operands named in `wrt`.

    Each is the derivative, seeded with 1, and multiplied by `dy` last, which is an array, or one number
    where all lanes are summed.
    """
    by_name = {node.name: node for node in forward.operands}
    value = forward.results[0].value
    slopes = reuse_products(*(derivative(value, by_name[name]) for name in wrt))
    return _backward(forward, wrt, slopes, number_dy)


def trace_given_backward(
    forward: Program,
    wrt: Sequence[str],
    function: Callable,
    static: Mapping[str, Any],
    number_dy: bool = False,
) -> Program:
    """The backward program of a function that gives the slopes for every operand, by hand."""
    traced = called(function, *map(Traced, forward.operands), **static)
    given = tuple(traced) if isinstance(traced, tuple | list) else (traced,)
    if len(given) != len(forward.operands):
        raise TraceError(
            f"the backward of {forward.name} gives {len(given)} derivatives, "
            f"it takes one for each of {len(forward.operands)} operands"
        )
    slopes = dict(zip((node.name for node in forward.operands), given, strict=True))
    return _backward(
        forward, wrt, reuse_products(*(_node(slopes[name]) for name in wrt)), number_dy
    )


def loss_program(
    forward: Program, backward: Program | None, with_value: bool, summed: bool
) -> Program:
    """The value of a loss, summed or not, its gradients, or both in one program."""
    (y,) = forward.results
    value = (Result("loss", y.value, reduced=summed),) if with_value else ()
    if backward is None:
        return Program(f"{forward.name}_sum", forward.operands, value, forward.channels)
    suffix = "_with_value" if with_value else "_of_sum"
    results = (*value, *backward.results)
    return Program(f"{backward.name}{suffix}", backward.operands, results, forward.channels)


def _backward(
    forward: Program, wrt: Sequence[str], slopes: Sequence[Node], number_dy: bool
) -> Program:
    dy = operand("dy", not number_dy)
    is_full = {
        node.name: node.is_array and node.name not in forward.channels for node in forward.operands
    }
    results = tuple(
        Result(_gradient_name(forward, name), _times(slope, dy), not is_full[name], name)
        for name, slope in zip(wrt, slopes, strict=True)
    )
    suffix = "grad" if tuple(wrt) == ("x",) else "grad_" + "_".join(wrt)
    operands = (dy, *forward.operands)
    return Program(f"{forward.name}_{suffix}", operands, results, forward.channels)


def _times(slope: Node, dy: Node) -> Node:
    """slope·dy; 0 where the operand is not used at all, whatever `dy` is."""
    return slope if slope is const(0.0) else build("mul", slope, dy)


def _gradient_name(forward: Program, name: str) -> str:
    """What the gradient of the operand `name` is called: "dx", unless something has that name."""
    taken = {"dy", *(node.name for node in forward.operands)}
    gradient = f"d{name}"
    while gradient in taken:
        gradient += "_"
    return gradient


def _run(function: Callable, operands: tuple[Node, ...], static: Mapping[str, Any]) -> Node:
    result = called(function, *map(Traced, operands), **static)
    if not isinstance(result, Traced):
        raise TraceError(
            f"{function.__name__} must return one value made of its operands, got {result!r}"
        )
    if not result.node.is_array:
        raise TraceError(f"{function.__name__} returns what depends on no array: {result!r}")
    return as_number(result.node)
