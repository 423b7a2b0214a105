"""Dropout, alone and added to a residual: the mask is computed again from the seed."""

from __future__ import annotations

from typing import Any

from ..program import maths as m
from ._seeded_operator import seeded

__all__ = ["add_dropout", "add_dropout_grad", "dropout", "dropout_grad"]


def _kept(x, p):
    """x / (1 - p) where it is kept, 0 where it is dropped; a NaN stays."""
    return m.where(m.random() < p, m.where(x == x, 0.0, x), x * (1.0 / (1.0 - p)))


def _slope(p):
    return m.where(m.random() < p, 0.0, 1.0 / (1.0 - p))


@seeded
def dropout(x, p=0.5):
    """Dropout: 0 with probability `p`, else x / (1 - p).

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    p : float
        The probability of an element to be dropped, 0 to 1.
    seed : int
        From 0 to 2^64 - 1. The same seed drops the same elements, by their index in C order: in any
        layout, precision and number of threads. Take another one for each call that is to be independent.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`.

    Raises
    ------
    TypeError
        If `x` has another dtype, or `seed` is no integer.
    ValueError
        If `p` or `seed` is out of its range, or `out` does not fit or overlaps `x` in part.

    Notes
    -----
    Backward keeps nothing but the seed. `p` is resolved to 2^-24. An infinity that is dropped is 0; a
    NaN stays.

    References
    ----------
    Srivastava et al., "Dropout", JMLR 15, 2014; Salmon et al., "Parallel Random Numbers: As Easy as
    1, 2, 3", SC 2011 (Philox4x32-10).
    """
    return _kept(x, p)


@seeded
def add_dropout(x, residual, p=0.5):
    """residual + dropout(x, p, seed), in one pass.

    Parameters
    ----------
    x, p, seed
        As for `dropout`.
    residual : array_like
        Broadcast with `x` as NumPy does.
    out : ndarray, optional
        Where to write the result; may be `x` or `residual` itself.

    Returns
    -------
    ndarray
        Of the dtype of `x`.

    Notes
    -----
    Backward keeps nothing but the seed and the shapes. What is dropped is decided by the index in the result.
    """
    return residual + _kept(x, p)


# By hand: the derived slopes read x to let its NaN through, which backward has no need to keep (two streams
# of memory instead of three).
@dropout.backward
def _dropout_slopes(x, p):
    return _slope(p), 0.0


@add_dropout.backward
def _add_dropout_slopes(x, residual, p):
    return _slope(p), 1.0, 0.0


for _operator in (dropout, add_dropout):
    _operator.require(lambda p: (p >= 0) & (p <= 1), "p must be a probability from 0 to 1, got {}")


def dropout_grad(dy: Any, x: Any, p: Any, seed: int, *, out: Any = None) -> Any:
    """The gradient of `dropout`: 0 where an element was dropped, else dy / (1 - p).

    Parameters
    ----------
    dy : array_like
        The gradient of the result, in any layout.
    x : array_like or None
        As in the forward call; it is not read, so None will do.
    p, seed
        As in the forward call.
    out : ndarray, optional
        Where to write the result; may be `dy` itself.

    Returns
    -------
    ndarray
        `dx`, of the shape and dtype of `dy`.

    Raises
    ------
    TypeError, ValueError
        As `dropout`; also if `dy` has another shape or dtype than `x`.
    """
    return dropout.grad(dy, x, p, seed, wrt="x", out=out)[0]


def add_dropout_grad(
    dy: Any, x: Any, residual: Any, p: Any, seed: int, *, out: Any = None
) -> tuple:
    """The gradients of `add_dropout`: dx as `dropout_grad`, dresidual = dy summed to its shape.

    Parameters
    ----------
    dy : array_like
        The gradient of the result, of its shape and dtype.
    x, residual, p, seed
        As in the forward call; of the arrays only shape and dtype are used.
    out : ndarray or tuple of (ndarray or None), optional
        Where to write `dx`, or (dx, dresidual).

    Returns
    -------
    dx, dresidual : ndarray
        Each of the shape and dtype of its operand.
    """
    return add_dropout.grad(dy, x, residual, p, seed, wrt=("x", "residual"), out=out)
