"""What a user of PyTorch writes for each operator, of its own functions; backward is autograd's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from fastgrad.bench.contenders import tensors
from fastgrad.bench.contenders.protocol import Prepared, source
from fastgrad.bench.families.activation_gradients import NAMES
from fastgrad.bench.workloads import Case

Function = Callable[..., torch.Tensor]


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def squared_relu(x):
    return torch.square(F.relu(x))


_WRITTEN = {"quick_gelu": quick_gelu, "squared_relu": squared_relu}

#: The backward alone, of a graph that was recorded before.
GRADIENTS: dict[str, Function] = {
    **{f"{name}_grad": _WRITTEN.get(name) or getattr(F, name) for name in (*NAMES, "prelu")},
}

FORWARD_BACKWARD: dict[str, Function] = {"swish_forward_backward": F.silu}

OPERATORS = frozenset([*GRADIENTS, *FORWARD_BACKWARD])


def prepare(
    case: Case,
    inputs: dict[str, np.ndarray],
    compiler: Callable[[Function], Function] | None = None,
) -> Prepared:
    """Bind `inputs` to a function, compiled if there is a `compiler`."""
    is_gradient = case.operator in GRADIENTS
    function = (GRADIENTS if is_gradient else FORWARD_BACKWARD)[case.operator]
    return bind(function, case, inputs, compiler)


def bind(
    function: Function,
    case: Case,
    inputs: dict[str, np.ndarray],
    compiler: Callable[[Function], Function] | None = None,
) -> Prepared:
    """Bind `inputs` to the backward of `function`, or to forward and backward of it."""
    name, definition = _named(function)
    if compiler:
        function = compiler(function)
        definition += f"function = torch.compile({name}, dynamic=False)\n\n"
        name = "function"
    code = definition + autograd_text(case, name)
    make = tensors.prepare_gradient
    if case.workload.results[0].name in ("y", "value"):
        make = tensors.prepare_forward_backward
    return make(function, inputs, code)


def _named(function: Function) -> tuple[str, str]:
    """How a user names a function, and its definition where it is none of PyTorch's."""
    of_torch = [name for name, one in vars(F).items() if one is function]
    if of_torch:
        return f"torch.nn.functional.{of_torch[0]}", ""
    return function.__name__, f"{source(function)}\n\n"


def autograd_text(case: Case, name: str) -> str:
    """Forward by `name` and backward by PyTorch's autograd, as a user writes them."""
    workload = case.workload
    operands = [one for one in workload.inputs if one != "dy"]
    results = [one.name for one in workload.results]
    is_both = results[0] in ("y", "value")
    y = results.pop(0) if is_both else "y"
    wrt = [one.removeprefix("d") for one in results]
    gradients = f"({results[0]},)" if len(results) == 1 else ", ".join(results)
    taken = wrt[0] if len(wrt) == 1 else f"({', '.join(wrt)})"
    arguments = ", ".join([y, taken, *(["dy"] if "dy" in workload.inputs else [])])
    first = f"{y} = {name}({', '.join(operands)})"
    if is_both:
        return f"{first}\n{gradients} = torch.autograd.grad({arguments})"
    return (
        f"{first}  # before, untimed\n"
        f"{gradients} = torch.autograd.grad({arguments}, retain_graph=True)"
    )
