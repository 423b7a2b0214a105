"""Dropout whose mask is computed again from a seed: nothing is kept for backward but that number."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from ..functional import _dropout
from ._adapter import Adapter, Tensors
from ._tensors import array_of, like, tensor_of

__all__ = ["dropout"]


class _Dropout(Adapter):
    """Dropout by a seed, a tensor so that a graph can draw it; its gradient is dropout with that seed."""

    def __init__(self) -> None:
        super().__init__("dropout", ("x", "seed"), ("float p",))
        self.stock = lambda x, seed, p: F.dropout(x, p)

    def saved(self, tensors: Tensors, found: Tensors) -> Tensors:
        """The seed alone."""
        return (None, tensors[1])

    def forward(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """The value."""
        (x, seed), (p,) = tensors, options
        return (tensor_of(_dropout.dropout(array_of(x), p, int(seed), out=like(x))),)

    def backward(
        self, dys: Tensors, tensors: Tensors, kept: Tensors, options: tuple, needs: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """The incoming gradient with the same elements dropped."""
        (dy,), (_, seed), (p,) = dys, tensors, options
        return [tensor_of(_dropout.dropout_grad(array_of(dy), None, p, int(seed))), None]

    def fake(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """As `x`."""
        return (torch.empty_like(tensors[0]),)

    def differentiable_backward(
        self, dys: Tensors, tensors: Tensors, kept: Tensors, options: tuple, needs: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """It is linear: the same again."""
        return [self((dys[0], tensors[1]), options), None]


_DROPOUT = _Dropout()


def dropout(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """0 with probability `p`, else x / (1 - p), as `torch.nn.functional.dropout`.

    The seed is drawn from PyTorch's generator, so `torch.manual_seed` makes a run repeatable; which
    elements are dropped is another choice than PyTorch's.

    Raises
    ------
    ValueError
        If `p` is no probability.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    seed = torch.randint(0, 1 << 62, ())
    y = _DROPOUT((input, seed), (float(p),))
    return input.copy_(y) if inplace else y
