"""Smooth activations with two straight asymptotes: sigmoid, tanh, softplus and their kin."""

from __future__ import annotations

import math

from ..program import maths as m
from ._gradient import gradient_of
from ._operator import elementwise

__all__ = [
    "logsigmoid",
    "logsigmoid_grad",
    "sigmoid",
    "sigmoid_grad",
    "softplus",
    "softplus_grad",
    "softsign",
    "softsign_grad",
    "tanh",
    "tanh_grad",
    "tanhshrink",
    "tanhshrink_grad",
]


@elementwise
def sigmoid(x):
    """The logistic function, 1 / (1 + exp(-x)); inside an operator, its instruction.

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Notes
    -----
    Backward keeps `x` alone. Error at most 2 ULP, down through the subnormals.

    Examples
    --------
    >>> fastgrad.sigmoid(np.array([-np.inf, 0.0, np.inf]))
    array([0. , 0.5, 1. ])
    >>> fastgrad.sigmoid_grad(np.ones(3), np.array([-np.inf, 0.0, np.inf]))
    array([0.  , 0.25, 0.  ])
    """
    return m.sigmoid(x)


sigmoid_grad = gradient_of(
    sigmoid,
    "s · (1 - s) with s = sigmoid(x)",
    "`1 - s` is computed as sigmoid(-x): no digit is lost where `s` is near 1.",
)


@elementwise
def logsigmoid(x):
    """The logarithm of the logistic function, log(1 / (1 + exp(-x))).

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Notes
    -----
    Backward keeps `x` alone. Error at most 2 ULP on both sides: it is x far below 0, -exp(-x) far above.

    Examples
    --------
    >>> fastgrad.logsigmoid(np.array([-100.0, 0.0, np.inf])).round(6) + 0.0
    array([-100.      ,   -0.693147,    0.      ])
    >>> fastgrad.logsigmoid_grad(np.ones(3), np.array([-np.inf, 0.0, np.inf]))
    array([1. , 0.5, 0. ])
    """
    return m.log_sigmoid(x)


logsigmoid_grad = gradient_of(logsigmoid, "sigmoid(-x)")


@elementwise
def tanh(x):
    """The hyperbolic tangent; inside an operator, its instruction.

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Notes
    -----
    Backward keeps `x` alone. Error at most 2 ULP.

    Examples
    --------
    >>> fastgrad.tanh(np.array([-np.inf, 0.0, np.inf]))
    array([-1.,  0.,  1.])
    >>> fastgrad.tanh_grad(np.ones(3), np.array([-np.inf, 0.0, np.inf]))
    array([0., 1., 0.])
    """
    return m.tanh(x)


tanh_grad = gradient_of(
    tanh,
    "(1 - tanh(x)²)",
    "Computed as 4 · sigmoid(2x) · sigmoid(-2x): no digit is lost where tanh(x) is near ±1.",
)


@elementwise
def tanhshrink(x):
    """Tanh shrinkage, x - tanh(x).

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Notes
    -----
    Backward keeps `x` alone. Error at most 2 ULP, near 0 too, where the difference would cancel.

    Examples
    --------
    >>> fastgrad.tanhshrink(np.array([-np.inf, 1e-100, 0.0, 3.0])).round(6)
    array([    -inf, 0.      , 0.      , 2.004945])
    >>> fastgrad.tanhshrink_grad(np.ones(3), np.array([-np.inf, 0.0, np.inf]))
    array([1., 0., 1.])
    """
    return m.tanhshrink(x)


tanhshrink_grad = gradient_of(tanhshrink, "tanh(x)²")


@elementwise
def softplus(x, beta=1.0, threshold=20.0):
    """Softplus, log(1 + exp(beta · x)) / beta; x where beta · x > threshold.

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    beta : float or 1-D array_like
        How sharp it bends: a number, or one a channel along `axis`. Not 0.
    threshold : float or 1-D array_like
        Where it is taken to be straight, as in PyTorch, which needs that lest exp overflows. Nothing
        overflows here: ``threshold=np.inf`` gives the smooth function everywhere.
    axis : int, optional
        The channel axis of `x`, for parameters with one element a channel.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Raises
    ------
    ValueError
        If `beta` is 0.

    Notes
    -----
    Backward keeps `x` alone. Error at most 3 ULP; where the rounding of beta·x is not exact it is
    amplified by |beta·x| below 0. At beta·x = threshold the slope is that of the smooth function.

    References
    ----------
    Dugas, Bengio, Bélisle, Nadeau, Garcia, "Incorporating Second-Order Functional Knowledge for Better
    Option Pricing", NIPS 2000.

    Examples
    --------
    >>> fastgrad.softplus(np.array([-np.inf, 0.0, 30.0])).round(6)
    array([ 0.      ,  0.693147, 30.      ])
    >>> fastgrad.softplus_grad(np.ones(3), np.array([-np.inf, 0.0, np.inf]))
    array([0. , 0.5, 1. ])
    """
    z = beta * x
    return m.where(z > threshold, x, m.softplus(z) / beta)


softplus.require(lambda beta, threshold: beta != 0, "beta of softplus must not be 0, got {}")
softplus_grad = gradient_of(softplus, "(1 where beta·x > threshold, else sigmoid(beta·x))")


@elementwise
def softsign(x):
    """Softsign, x / (1 + |x|).

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Notes
    -----
    Backward keeps `x` alone. Error at most 2 ULP; ±1 at ±inf. It has no kink: the slope at 0 is 1.

    References
    ----------
    Bergstra, Desjardins, Lamblin, Bengio, "Quadratic polynomials learn better image features",
    Université de Montréal, 2009.

    Examples
    --------
    >>> fastgrad.softsign(np.array([-np.inf, -1.0, 0.0, 3.0]))
    array([-1.  , -0.5 ,  0.  ,  0.75])
    >>> fastgrad.softsign_grad(np.ones(4), np.array([-np.inf, -1.0, 0.0, 3.0]))
    array([0.    , 0.25  , 1.    , 0.0625])
    """
    size = m.abs(x)
    sign = m.where(x > 0, 1.0, -1.0)
    return m.where(size == math.inf, sign, x / (1 + size))  # ∞/∞ is NaN


@softsign.backward
def _softsign_slope(x):
    """1/(1 + |x|)², at most 3.4 ULP off in float32.

    The derived one, 1/(1 + |x|) - |x|/(1 + |x|)², cancels: 147 ULP off below |x| = 100, and no digit is
    left from 1e7 on.
    """
    inverse = m.reciprocal(1 + m.abs(x))
    return (inverse * inverse,)


softsign_grad = gradient_of(softsign, "1 / (1 + |x|)²")
