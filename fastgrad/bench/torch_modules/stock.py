"""PyTorch's own modules."""

from __future__ import annotations

from torch import Tensor, nn

from fastgrad.bench.contenders.tensors import start
from fastgrad.bench.torch_modules.worker import ModuleWorker

__all__ = ["MODULES", "WORKER", "adapt", "start", "swiglu"]

WORKER = ModuleWorker
MODULES = nn


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """As most models write it."""
    return nn.functional.silu(gate) * up


def adapt(model: nn.Module) -> nn.Module:
    return model
