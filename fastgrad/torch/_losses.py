"""Elementwise losses with the signatures of `torch.nn.functional`.

All of them: `size_average` and `reduce`, which PyTorch has deprecated, are not taken. Under autocast they are
computed in float32, as PyTorch's. Backward keeps input and target, and takes one pass for all gradients.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ..functional import _losses as l
from ._elementwise import Loss

__all__ = [
    "binary_cross_entropy_with_logits",
    "huber_loss",
    "kl_div",
    "mse_loss",
    "smooth_l1_loss",
]


def _adapter(operator: Any, name: str, stock: Any) -> Loss:
    adapter = Loss(operator, name)
    adapter.stock = stock
    return adapter


_MSE = _adapter(l.mse_loss, "mse_loss", lambda x, t, r: F.mse_loss(x, t, reduction=r))
_HUBER = _adapter(l.huber_loss, "huber_loss", lambda x, t, delta, r: F.huber_loss(x, t, r, delta))
_SMOOTH_L1 = _adapter(
    l.smooth_l1_loss,
    "smooth_l1_loss",
    lambda x, t, beta, r: F.smooth_l1_loss(x, t, reduction=r, beta=beta),
)
_PLAIN_BCE, _WEIGHTED_BCE = l.binary_cross_entropy_with_logits.operators
_BCE = _adapter(
    _PLAIN_BCE,
    "binary_cross_entropy_with_logits",
    lambda x, t, r: F.binary_cross_entropy_with_logits(x, t, reduction=r),
)
_BCE_WEIGHTED = _adapter(
    _WEIGHTED_BCE,
    "weighted_binary_cross_entropy_with_logits",
    lambda x, t, w, p, r: F.binary_cross_entropy_with_logits(x, t, w, reduction=r, pos_weight=p),
)
_PLAIN_KL, _LOG_KL = l.kl_div.operators
_KL_DIV = _adapter(_PLAIN_KL, "kl_div", lambda x, t, r: F.kl_div(x, t, reduction=r))
_KL_DIV_LOG = _adapter(
    _LOG_KL, "kl_div_log_target", lambda x, t, r: F.kl_div(x, t, reduction=r, log_target=True)
)


def mse_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    reduction: str = "mean",
    weight: torch.Tensor | None = None,
) -> torch.Tensor:
    """(x - target)², as `torch.nn.functional.mse_loss`."""
    return _weighted(_MSE, input, target, (), reduction, weight)


def huber_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: torch.Tensor | None = None,
) -> torch.Tensor:
    """d²/2 for |d| <= delta, else delta · (|d| - delta/2), as `torch.nn.functional.huber_loss`."""
    if delta <= 0:
        raise RuntimeError(f"delta must be positive, got {delta}")
    return _weighted(_HUBER, input, target, (float(delta),), reduction, weight)


def smooth_l1_loss(
    input: torch.Tensor, target: torch.Tensor, reduction: str = "mean", beta: float = 1.0
) -> torch.Tensor:
    """d²/(2 beta) for |d| < beta, else |d| - beta/2, as `torch.nn.functional.smooth_l1_loss`."""
    if beta < 0:
        raise RuntimeError(f"beta must not be negative, got {beta}")
    return _weighted(_SMOOTH_L1, input, target, (float(beta),), reduction, None)


def binary_cross_entropy_with_logits(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    reduction: str = "mean",
    pos_weight: torch.Tensor | None = None,
) -> torch.Tensor:
    """softplus(x) - x · target, as `torch.nn.functional.binary_cross_entropy_with_logits`.

    Raises
    ------
    ValueError
        If `target` has another shape than `input`, as PyTorch's.
    """
    if target.shape != input.shape:
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        )
    if weight is None and pos_weight is None:
        return _weighted(_BCE, input, target, (), reduction, None)
    one = input.new_ones(())
    weights = (one if weight is None else weight, one if pos_weight is None else pos_weight)
    _check(reduction)
    return _BCE_WEIGHTED(_in_float32(input, target, *weights), (reduction,))


def kl_div(
    input: torch.Tensor, target: torch.Tensor, reduction: str = "mean", log_target: bool = False
) -> torch.Tensor:
    """target · (log(target) - x), where `input` holds logarithms, as `torch.nn.functional.kl_div`.

    ``reduction="batchmean"`` divides by the length of the first axis, which is the divergence by its
    definition; ``"mean"`` by the number of elements.
    """
    _check(reduction, ("batchmean",))
    adapter = _KL_DIV_LOG if log_target else _KL_DIV
    return adapter(_in_float32(input, target), (reduction,))


def _weighted(
    adapter: Loss,
    input: torch.Tensor,
    target: torch.Tensor,
    options: tuple,
    reduction: str,
    weight: torch.Tensor | None,
) -> torch.Tensor:
    """The loss; with a weight for each element, the mean is over the weights."""
    _check(reduction)
    tensors = _in_float32(input, target)
    if weight is None:
        return adapter(tensors, (*options, reduction))
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    losses = adapter(tensors, (*options, "none")) * weight
    if reduction == "none":
        return losses
    return losses.sum() / weight.sum() if reduction == "mean" else losses.sum()


def _check(reduction: str, more: tuple[str, ...] = ()) -> None:
    known = ("none", "mean", "sum", *more)
    if reduction not in known:
        raise ValueError(f"reduction must be one of {known}, got {reduction!r}")


def _in_float32(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Under autocast, 16-bit tensors in float32."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    return tuple([t.float() if t.dtype.itemsize == 2 else t for t in tensors])
