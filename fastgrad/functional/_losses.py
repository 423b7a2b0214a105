"""Elementwise losses: each a line of maths of one element; reductions, value and gradient come with it."""

from __future__ import annotations

from typing import Any

from ..program import maths as m
from ._loss_operator import LossOperator, loss
from ._variants import LossVariants

__all__ = [
    "binary_cross_entropy_with_logits",
    "binary_cross_entropy_with_logits_grad",
    "huber_loss",
    "huber_loss_grad",
    "kl_div",
    "kl_div_grad",
    "mse_loss",
    "mse_loss_grad",
    "smooth_l1_loss",
    "smooth_l1_loss_grad",
]


@loss
def mse_loss(x, target):
    """Squared error, (x - target)².

    Parameters
    ----------
    x, target : array_like
        Broadcast together; float16, bfloat16, float32 or float64, of one dtype.
    reduction : {"mean", "sum", "none"}
        What becomes of the elements.
    out : ndarray, optional
        Where to write the result of ``reduction="none"``.

    Returns
    -------
    scalar or ndarray
        In the dtype of `x`. Sums are in float64, in an order that depends on the shape alone.

    Raises
    ------
    TypeError, ValueError
        If the operands differ in dtype or do not broadcast, if `reduction` is unknown.

    Notes
    -----
    ``mse_loss.value_and_grad(x, target)`` gives the loss and `dx` in one pass. Backward keeps `x` and
    `target` alone. The mean of no elements is NaN.
    """
    distance = x - target
    return distance * distance


@loss
def huber_loss(x, target, delta=1.0):
    """Huber loss: d²/2 for |d| <= delta, else delta · (|d| - delta/2), with d = x - target.

    Parameters
    ----------
    x, target, reduction, out
        As for `mse_loss`.
    delta : float
        Where the square becomes a line.

    Returns
    -------
    scalar or ndarray
        In the dtype of `x`.

    Notes
    -----
    ``huber_loss.value_and_grad(x, target)`` gives the loss and `dx` in one pass.

    References
    ----------
    Huber, "Robust Estimation of a Location Parameter", 1964.
    """
    distance = x - target
    size = abs(distance)
    return m.where(size <= delta, 0.5 * distance * distance, delta * (size - 0.5 * delta))


@loss
def smooth_l1_loss(x, target, beta=1.0):
    """Smooth L1 loss: d²/(2 beta) for |d| < beta, else |d| - beta/2, with d = x - target.

    Parameters
    ----------
    x, target, reduction, out
        As for `mse_loss`.
    beta : float
        Where the square becomes a line; 0 gives |d|, whose slope at 0 is 0.

    Returns
    -------
    scalar or ndarray
        In the dtype of `x`.

    Notes
    -----
    ``smooth_l1_loss.value_and_grad(x, target)`` gives the loss and `dx` in one pass.

    References
    ----------
    Girshick, "Fast R-CNN", arXiv:1504.08083.
    """
    distance = x - target
    size = abs(distance)
    return m.where(size < beta, 0.5 * distance * distance / beta, size - 0.5 * beta)


def _weighted(share, size):
    """share·size; 0 where a label leaves nothing of it, even at an infinity."""
    return m.where(share == 0.0, 0.0, share * size)


@loss
def _bce_with_logits(x, target):
    share = m.where(x > 0.0, 1.0 - target, target)
    return m.softplus(-abs(x)) + _weighted(share, abs(x))


@_bce_with_logits.backward
def _bce_with_logits_slopes(x, target):
    # By hand: the derived slope, sigmoid(-|x|)·-sign(x) + share·sign(x), cancels where the prediction is
    # right (x = 20, target = 1: 24 of 24 bits in float32), these two terms have one sign each.
    return (1.0 - target) * m.sigmoid(x) - target * m.sigmoid(-x), -x


def _unweighted(x, target, pos_weight):
    positive = pos_weight * target
    share = m.where(x > 0.0, 1.0 - target, positive)
    return (positive + (1.0 - target)) * m.softplus(-abs(x)) + _weighted(share, abs(x))


@loss
def _bce_with_weights(x, target, weight, pos_weight):
    return weight * _unweighted(x, target, pos_weight)


@_bce_with_weights.backward
def _bce_with_weights_slopes(x, target, weight, pos_weight):
    # By hand for the same reason.
    below, above = m.softplus(-x), m.softplus(x)
    slope = (1.0 - target) * m.sigmoid(x) - pos_weight * target * m.sigmoid(-x)
    dtarget = pos_weight * below - above
    return (
        weight * slope,
        weight * dtarget,
        _unweighted(x, target, pos_weight),
        weight * _weighted(target, below),
    )


def _choose_bce(
    x: Any, target: Any, weight: Any = None, pos_weight: Any = None
) -> tuple[LossOperator, tuple]:
    if weight is None and pos_weight is None:
        return _bce_with_logits, (x, target)
    weights = [1.0 if value is None else value for value in (weight, pos_weight)]
    return _bce_with_weights, (x, target, *weights)


binary_cross_entropy_with_logits = LossVariants(
    "binary_cross_entropy_with_logits",
    _choose_bce,
    (_bce_with_logits, _bce_with_weights),
    """Binary cross entropy of logits: softplus(x) · (1 - target) + softplus(-x) · target.

    Parameters
    ----------
    x : array_like
        Logits; float16, bfloat16, float32 or float64.
    target : array_like
        Probabilities, 0 to 1, of the shape and dtype of `x`, or broadcast with it.
    weight : array_like or float, optional
        A factor of the loss of each element, broadcast.
    pos_weight : array_like or float, optional
        A factor of the second term, broadcast: one a class along the last axis.
    reduction : {"mean", "sum", "none"}
        What becomes of the elements. The mean is over their number, whatever they weigh.
    out : ndarray, optional
        Where to write the result of ``reduction="none"``.

    Returns
    -------
    scalar or ndarray
        In the dtype of `x`.

    Raises
    ------
    TypeError, ValueError
        As `mse_loss`.

    Notes
    -----
    ``binary_cross_entropy_with_logits.value_and_grad(x, target)`` gives the loss and `dx` in one pass. All
    digits are kept where the prediction is right; an infinite logit with the right label costs 0.
    """,
)


@loss
def _kl_div(x, target):
    return m.where(target == 0.0, 0.0, target * (m.log(target) - x))


@loss
def _kl_div_log(x, target):
    return m.exp(target) * (target - x)


for _operator in (_kl_div, _kl_div_log):
    _operator.reductions = ("none", "sum", "mean", "batchmean")


def _choose_kl_div(x: Any, target: Any, log_target: bool = False) -> tuple[LossOperator, tuple]:
    return (_kl_div_log if log_target else _kl_div), (x, target)


kl_div = LossVariants(
    "kl_div",
    _choose_kl_div,
    (_kl_div, _kl_div_log),
    """Kullback-Leibler divergence, target · (log(target) - x), where `x` holds logarithms.

    Parameters
    ----------
    x : array_like
        Logarithms of the predicted probabilities; float16, bfloat16, float32 or float64.
    target : array_like
        Probabilities, of the dtype of `x`; 0 contributes nothing, whatever `x` is.
    log_target : bool
        Whether `target` holds logarithms too.
    reduction : {"mean", "batchmean", "sum", "none"}
        ``"mean"`` divides by the number of elements, as PyTorch does; ``"batchmean"``, the divergence by its
        definition, by the length of the first axis.
    out : ndarray, optional
        Where to write the result of ``reduction="none"``.

    Returns
    -------
    scalar or ndarray
        In the dtype of `x`.

    Raises
    ------
    TypeError, ValueError
        As `mse_loss`.

    Notes
    -----
    ``kl_div.value_and_grad(x, target)`` gives the loss and `dx` in one pass.

    References
    ----------
    Kullback, Leibler, "On Information and Sufficiency", 1951.
    """,
)


def mse_loss_grad(dy: Any, x: Any, target: Any, *, reduction: str = "mean", out: Any = None) -> Any:
    """The gradient of `mse_loss`: dy · 2 (x - target), divided by the number of elements for the mean.

    Parameters
    ----------
    dy : float or array_like
        The gradient of the loss: one number, or an array of the shape of `x` for ``reduction="none"``.
    x, target, reduction
        As in the forward call.
    out : ndarray, optional
        Where to write `dx`; may be `x` or `target` itself.

    Returns
    -------
    ndarray
        `dx`; for `dtarget` see ``mse_loss.grad``.
    """
    return mse_loss.grad(dy, x, target, reduction=reduction, wrt="x", out=out)[0]


def huber_loss_grad(
    dy: Any, x: Any, target: Any, delta: Any = 1.0, *, reduction: str = "mean", out: Any = None
) -> Any:
    """The gradient of `huber_loss`: dy · d for |d| <= delta, else dy · delta · sign(d).

    Parameters
    ----------
    dy, x, target, delta, reduction, out
        As for `mse_loss_grad` and `huber_loss`.

    Returns
    -------
    ndarray
        `dx`.
    """
    return huber_loss.grad(dy, x, target, delta, reduction=reduction, wrt="x", out=out)[0]


def smooth_l1_loss_grad(
    dy: Any, x: Any, target: Any, beta: Any = 1.0, *, reduction: str = "mean", out: Any = None
) -> Any:
    """The gradient of `smooth_l1_loss`: dy · d/beta for |d| < beta, else dy · sign(d).

    Parameters
    ----------
    dy, x, target, beta, reduction, out
        As for `mse_loss_grad` and `smooth_l1_loss`.

    Returns
    -------
    ndarray
        `dx`.
    """
    return smooth_l1_loss.grad(dy, x, target, beta, reduction=reduction, wrt="x", out=out)[0]


def binary_cross_entropy_with_logits_grad(
    dy: Any,
    x: Any,
    target: Any,
    weight: Any = None,
    pos_weight: Any = None,
    *,
    reduction: str = "mean",
    out: Any = None,
) -> Any:
    """The gradient of the loss: dy · ((1 - target) · sigmoid(x) - target · sigmoid(-x)).

    Parameters
    ----------
    dy, x, target, weight, pos_weight, reduction, out
        As for `mse_loss_grad` and `binary_cross_entropy_with_logits`.

    Returns
    -------
    ndarray
        `dx`.
    """
    return binary_cross_entropy_with_logits.grad(
        dy, x, target, weight, pos_weight, reduction=reduction, wrt="x", out=out
    )[0]


def kl_div_grad(
    dy: Any,
    x: Any,
    target: Any,
    log_target: bool = False,
    *,
    reduction: str = "mean",
    out: Any = None,
) -> Any:
    """The gradient of `kl_div`: -dy · target.

    Parameters
    ----------
    dy, x, target, log_target, reduction, out
        As for `mse_loss_grad` and `kl_div`.

    Returns
    -------
    ndarray
        `dx`.
    """
    return kl_div.grad(dy, x, target, log_target, reduction=reduction, wrt="x", out=out)[0]
