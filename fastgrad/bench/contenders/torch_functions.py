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


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def swiglu(gate, up):
    return F.silu(gate) * up


def swiglu_packed(packed):
    gate, up = packed.chunk(2, dim=-1)
    return F.silu(gate) * up


def geglu(gate, up):
    return F.gelu(gate) * up


def geglu_tanh(gate, up):
    return F.gelu(gate, approximate="tanh") * up


def reglu(gate, up):
    return F.relu(gate) * up


def add_gelu(x, bias):
    return F.gelu(x + bias)


def add_swish(x, bias):
    return F.silu(x + bias)


def add_relu(x, bias):
    return F.relu(x + bias)


#: The backward alone, of a graph that was recorded before.
GRADIENTS: dict[str, Function] = {
    "swish_grad": F.silu,
    "gelu_grad": F.gelu,
    "gelu_tanh_grad": gelu_tanh,
    **{f"{name}_grad": _WRITTEN.get(name) or getattr(F, name) for name in (*NAMES, "prelu")},
}

FORWARD_BACKWARD: dict[str, Function] = {
    "swish_forward_backward": F.silu,
    "swiglu_forward_backward": swiglu,
    "swiglu_packed_forward_backward": swiglu_packed,
    "geglu_forward_backward": geglu,
    "geglu_tanh_forward_backward": geglu_tanh,
    "reglu_forward_backward": reglu,
    "glu_forward_backward": F.glu,
    "add_gelu_forward_backward": add_gelu,
    "add_swish_forward_backward": add_swish,
    "add_relu_forward_backward": add_relu,
    "mse_value_and_grad": F.mse_loss,
    "huber_value_and_grad": F.huber_loss,
    "bce_with_logits_value_and_grad": F.binary_cross_entropy_with_logits,
}

OPERATORS = frozenset([*GRADIENTS, *FORWARD_BACKWARD])


def prepare(
    case: Case,
    inputs: dict[str, np.ndarray],
    compiler: Callable[[Function], Function] | None = None,
) -> Prepared:
    """Bind `inputs` to a function, compiled if there is a `compiler`."""
    function = {**GRADIENTS, **FORWARD_BACKWARD}[case.operator]
    return by_autograd(function, case, inputs, compiler)


def by_autograd(
    function: Function,
    case: Case,
    inputs: dict[str, np.ndarray],
    compiler: Callable[[Function], Function] | None = None,
) -> Prepared:
    """Bind `inputs` to the backward of `function`, or to forward and backward of it."""
    name, definition = _named(function)
    if compiler:
        function = compiler(function)
        definition += f"{compiled_text(name)}\n\n"
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


def compiled_text(name: str) -> str:
    """How a user compiles a function for one shape."""
    return f"function = torch.compile({name}, dynamic=False)"


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
