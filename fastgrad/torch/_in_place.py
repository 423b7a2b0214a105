"""`in_place`: an activation written over its input, as `inplace=True` asks for."""

from __future__ import annotations

from typing import Any

import torch

from ._adapter import is_eager
from ._elementwise import Elementwise

__all__ = ["in_place"]


def in_place(
    adapter: Elementwise, x: torch.Tensor, options: tuple, from_result: bool
) -> torch.Tensor:
    """The value, written over `x`.

    Parameters
    ----------
    adapter : Elementwise
        Of one tensor.
    x : Tensor
    options : tuple
        As the adapter takes them.
    from_result : bool
        Whether the slope is the same at the result as at `x`. Else backward needs what `x` was, so a copy
        of it is kept, as PyTorch does.

    Raises
    ------
    RuntimeError
        If `x` is a leaf that requires a gradient, before anything is written.
    """
    needs_grad = torch.is_grad_enabled() and x.requires_grad
    if needs_grad and x.is_leaf:
        raise RuntimeError(
            f"input of fastgrad.torch.{adapter.name} is a leaf that requires a gradient: it cannot be "
            f"written in place"
        )
    if is_eager((x,)):
        if not needs_grad:
            adapter.write(x, options)
            torch.autograd.graph.increment_version(x)
            return x
        if from_result:
            return _InPlace.apply(adapter, options, x)
    return x.copy_(adapter((x.clone() if needs_grad else x,), options))


class _InPlace(torch.autograd.Function):
    """Keeps the result, at which the slope is the same."""

    @staticmethod
    def forward(ctx: Any, adapter: Elementwise, options: tuple, x: torch.Tensor) -> torch.Tensor:
        adapter.write(x, options)
        ctx.adapter, ctx.options = adapter, options
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple:
        adapter: Elementwise = ctx.adapter
        is_twice = torch.is_grad_enabled()
        way = adapter.differentiable_backward if is_twice else adapter.backward
        return (None, None, *way((dy,), ctx.saved_tensors, (), ctx.options, (True,)))
