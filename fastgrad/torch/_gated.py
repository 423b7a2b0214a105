"""Gated units, and additions fused with an activation: of two tensors, broadcast together."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ..functional import _fused, _gated
from ..functional._arguments import choose
from ._elementwise import Elementwise

__all__ = ["add_gelu", "add_relu", "add_swish", "geglu", "glu", "reglu", "swiglu"]


def _adapter(operator: Any, stock: Any, name: str = "") -> Elementwise:
    adapter = Elementwise(operator, name)
    adapter.stock = stock
    return adapter


_SWIGLU = _adapter(_gated.swiglu, lambda gate, up: F.silu(gate) * up)
_GEGLU = _adapter(_gated.geglu, lambda gate, up, how: F.gelu(gate, approximate=how) * up)
_REGLU = _adapter(_gated.reglu, lambda gate, up: F.relu(gate) * up)
_GLU = _adapter(_gated._glu, lambda gate, up: torch.sigmoid(gate) * up, "glu")
_ADD_GELU = _adapter(_fused.add_gelu, lambda x, bias, how: F.gelu(x + bias, approximate=how))
_ADD_RELU = _adapter(_fused.add_relu, lambda x, bias: F.relu(x + bias))
_ADD_SWISH = _adapter(
    _fused.add_swish, lambda x, bias, beta: (x + bias) * torch.sigmoid(beta * (x + bias))
)


def _halves(x: torch.Tensor, gate: str, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Gate and value of a packed tensor, as views."""
    if x.dim() == 0 or x.shape[dim] % 2:
        raise RuntimeError(
            f"x packs two halves along dim {dim}, whose length must be even: got shape {tuple(x.shape)}"
        )
    first, last = x.chunk(2, dim)
    return (first, last) if choose(gate, "gate", ("first", "last")) == "first" else (last, first)


def swiglu(
    x: torch.Tensor, up: torch.Tensor | None = None, *, gate: str = "first", dim: int = -1
) -> torch.Tensor:
    """silu(gate) · up.

    Parameters
    ----------
    x : Tensor
        The gate, where `up` is given; else a tensor that packs both along `dim`.
    up : Tensor, optional
        What the gate lets through.
    gate : {"first", "last"}
        Which half of a packed tensor is the gate.
    dim : int
        The dimension that a packed tensor is halved along.

    Returns
    -------
    Tensor
        Of the shape of a half. Backward keeps the operands alone; both gradients in one pass.
    """
    return _SWIGLU((x, up) if up is not None else _halves(x, gate, dim))


def geglu(
    x: torch.Tensor,
    up: torch.Tensor | None = None,
    approximate: str = "none",
    *,
    gate: str = "first",
    dim: int = -1,
) -> torch.Tensor:
    """gelu(gate) · up, with the arguments of `swiglu`; `approximate` as in `gelu`."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return _GEGLU((x, up) if up is not None else _halves(x, gate, dim), (approximate,))


def reglu(
    x: torch.Tensor, up: torch.Tensor | None = None, *, gate: str = "first", dim: int = -1
) -> torch.Tensor:
    """max(gate, 0) · up, with the arguments of `swiglu`."""
    return _REGLU((x, up) if up is not None else _halves(x, gate, dim))


def glu(input: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """The first half times the sigmoid of the last one, as `torch.nn.functional.glu`."""
    return _GLU(_halves(input, "last", dim))


def add_gelu(input: torch.Tensor, bias: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """gelu(input + bias) in one pass; the gradient of what is broadcast is summed in that of the input.

    Parameters
    ----------
    input, bias : Tensor
        Broadcast together. A bias may have a dtype of its own: the result has the input's.
    approximate : {"none", "tanh"}
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return _ADD_GELU((input, bias), (approximate,))


def add_swish(input: torch.Tensor, bias: torch.Tensor, beta: float = 1.0) -> torch.Tensor:
    """swish(input + bias, beta) in one pass, as `add_gelu`."""
    return _ADD_SWISH((input, bias), (float(beta),))


def add_relu(input: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """max(input + bias, 0) in one pass, as `add_gelu`."""
    return _ADD_RELU((input, bias))
