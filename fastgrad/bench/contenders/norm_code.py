"""What a user writes around a function to run it as a `NormCall` asks for."""

from __future__ import annotations

from typing import Any

from fastgrad.bench.contenders.protocol import call_text
from fastgrad.bench.norms import NormCall


def norm_and_sum(norm, sum, *parameters):
    """A norm of a sum that is a result itself: it goes on along the residual."""
    return norm(sum, *parameters), sum


def keywords(call: NormCall) -> dict[str, Any]:
    """What a function of (x, gamma, beta) is told; it is written for the order of its axes."""
    return {name: value for name, value in call.norm.keywords.items() if name != "data_format"}


def forward_text(call: NormCall, name: str) -> str:
    """`y = name(x, gamma, beta)`, and the sum with it where that is a result."""
    text = call_text(name, call.operands, keywords(call), "allocate", "")
    if call.of_sum:
        return f"y = {text}, sum"
    return f"{', '.join(_forward_results(call))} = {text}"


def _forward_results(call: NormCall) -> tuple[str, ...]:
    return call.results if call.direction == "forward" else ("y",)


def listed(names: tuple[str, ...]) -> str:
    """Names as the tuple, or the one array, that they are."""
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def torch_text(call: NormCall, name: str) -> str:
    """Forward, and backward by PyTorch's autograd."""
    text = forward_text(call, name)
    if call.direction == "forward":
        return text
    gradients = ", ".join(one for one in call.results if one != "y")
    arguments = f"y, {listed(call.operands)}, {listed(call.incoming)}"
    if call.direction == "both":
        return f"{text}\n{gradients} = torch.autograd.grad({arguments})"
    return (
        f"{text}  # before, untimed\n"
        f"{gradients} = torch.autograd.grad({arguments}, retain_graph=True)"
    )


def partial_text(call: NormCall, name: str) -> str:
    """The function with what it is told, as an argument of another one."""
    told = "".join(f", {key}={value!r}" for key, value in keywords(call).items())
    return f"functools.partial({name}{told})" if told else name
