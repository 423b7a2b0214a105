"""What is measured: modules and blocks, forward and backward in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fastgrad.bench.torch_modules.blocks import Bottleneck, ResBlock
from fastgrad.bench.workloads import Shape


class Side(Protocol):
    """Whose modules are measured: the module `stock` or `fused`."""

    MODULES: Any

    def swiglu(self, gate: Tensor, up: Tensor) -> Tensor: ...

    def adapt(self, model: nn.Module) -> nn.Module: ...


#: From the modules of one side to what is called.
Make = Callable[[Side], Callable[..., Tensor]]


@dataclass(frozen=True)
class Task:
    """One row.

    Parameters
    ----------
    kind : str
        "overhead", "module", "res block" or "bottleneck".
    shapes : sequence of Shape
        Of its inputs, all of which take part in the backward.
    """

    name: str
    kind: str
    make: Make
    shapes: Sequence[Shape]

    def bind(self, side: Side, seed: int) -> Bound:
        """Make parameters and inputs, the same on both sides."""
        torch.manual_seed(seed)
        function = self.make(side)
        inputs = [2 * torch.randn(shape) for shape in self.shapes]
        return Bound(function, [one.requires_grad_() for one in inputs])


class Bound:
    """A task with its inputs.

    Parameters
    ----------
    function : callable
        A module, or a function of tensors.
    inputs : list of Tensor
        What it is called with.
    """

    def __init__(self, function: Callable[..., Tensor], inputs: list[Tensor]) -> None:
        self.function = function
        self.inputs = inputs
        of_module = function.parameters() if isinstance(function, nn.Module) else ()
        self.parameters = list(of_module)
        self._leaves = [*inputs, *self.parameters]
        with torch.no_grad():
            self._incoming = torch.randn_like(self.forward())

    def forward(self) -> Tensor:
        return self.function(*self.inputs)

    def step(self) -> Tensor:
        """Forward and backward; the gradients of the last step are freed, as an optimiser does."""
        for leaf in self._leaves:
            leaf.grad = None
        result = self.forward()
        result.backward(self._incoming)
        return result

    def values(self, most: int = 1 << 12) -> list[Any]:
        """Result and gradients of a step, float64, at `most` elements evenly spread over each."""
        tensors = [self.step(), *(leaf.grad for leaf in self._leaves if leaf.grad is not None)]
        flat = [one.detach().reshape(-1) for one in tensors]
        return [one[:: max(1, len(one) // most)].double().numpy() for one in flat]


_ROWS = (8192, 4096)
_MAPS = (32, 256, 64, 64)


def _res_block(channels: int, out_channels: int, batch: int) -> Task:
    embedding = 4 * 320
    return Task(
        f"ResBlock-{channels}" + (f"-{out_channels}" if out_channels != channels else ""),
        "res block",
        lambda side: side.adapt(ResBlock(channels, out_channels, embedding)),
        [(batch, channels, 64, 64), (batch, embedding)],
    )


_TASKS = [
    Task("silu-overhead", "overhead", lambda side: side.MODULES.SiLU(), [(1024,)]),
    Task("SiLU", "module", lambda side: side.MODULES.SiLU(), [_ROWS]),
    Task("GELU", "module", lambda side: side.MODULES.GELU(), [_ROWS]),
    Task("swiglu", "module", lambda side: side.swiglu, [_ROWS, _ROWS]),
    Task("GroupNorm", "module", lambda side: side.MODULES.GroupNorm(32, 256), [_MAPS]),
    Task("LayerNorm", "module", lambda side: side.MODULES.LayerNorm(4096), [_ROWS]),
    Task("RMSNorm", "module", lambda side: side.MODULES.RMSNorm(4096), [_ROWS]),
    _res_block(64, 64, batch=4),
    _res_block(320, 320, batch=1),
    _res_block(640, 320, batch=1),
    Task(
        "Bottleneck",
        "bottleneck",
        lambda side: side.adapt(Bottleneck(256, 64)),
        [(8, 256, 56, 56)],
    ),
]

#: By name, in the order in which they are shown.
TASKS = {task.name: task for task in _TASKS}
