"""Gated by themselves: x times something between 0 and 1 that grows with x."""

from __future__ import annotations

import math
from typing import Any

from ..program import maths as m
from ._gradient import gradient_of
from ._operator import elementwise

__all__ = [
    "gelu",
    "gelu_grad",
    "mish",
    "mish_grad",
    "quick_gelu",
    "quick_gelu_grad",
    "silu",
    "silu_grad",
    "swish",
    "swish_grad",
]


@elementwise
def swish(x, beta=1.0):
    """Swish, x · sigmoid(beta · x).

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    beta : float or 1-D array_like
        The slope: a number, or one a channel along `axis`. Trainable: see `swish_grad`.
    axis : int, optional
        The channel axis of `x`, for a `beta` with one element a channel.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Raises
    ------
    TypeError
        If `x` has another dtype, or `beta` is neither a number nor an array of floats.
    ValueError
        If `beta` has not one element a channel, or `out` does not fit or overlaps `x` in part.

    Notes
    -----
    Backward keeps `x` alone. Error at most 4 ULP, down through the subnormals; -inf gives 0.

    References
    ----------
    Ramachandran, Zoph, Le, "Searching for Activation Functions", arXiv:1710.05941.

    Examples
    --------
    >>> fastgrad.swish(np.array([-np.inf, 0.0, 1.0]), 2.0).round(6) + 0.0
    array([0.      , 0.      , 0.880797])
    >>> dx, dbeta = fastgrad.swish_grad(np.ones(2), np.array([0.0, np.inf]), 2.0, beta_grad=True)
    >>> dx, dbeta
    (array([0.5, 1. ]), 0.0)
    """
    return x * m.sigmoid(beta * x)


def swish_grad(
    dy: Any,
    x: Any,
    beta: Any = 1.0,
    *,
    axis: int | None = None,
    beta_grad: bool = False,
    out: Any = None,
) -> Any:
    """The gradient of `swish`: dy · (s + z·s·(1-s)) with z = beta·x, s = sigmoid(z).

    Parameters
    ----------
    dy : array_like
        The gradient of the result, of the shape and dtype of `x`, in any layout.
    x, beta, axis
        As in the forward call.
    beta_grad : bool
        Also compute the gradient of `beta`, the sum of dy · x²·s·(1-s), in the same pass.
    out : ndarray, optional
        Where to write `dx`; may be `dy` or `x` itself.

    Returns
    -------
    dx : ndarray
        Of the shape and dtype of `x`.
    dbeta : float or ndarray
        Only with `beta_grad`: a float for a number, else of the shape and dtype of `beta`. Summed
        in float64 in a fixed order: the same bits for any layout and number of threads.

    Raises
    ------
    TypeError, ValueError
        As `swish`; also if `dy` has another shape or dtype than `x`.

    Notes
    -----
    Eight vector instructions, as in the source article; `1-s` is computed as sigmoid(-z).
    """
    if beta_grad:
        return swish.grad(dy, x, beta, wrt=("x", "beta"), axis=axis, out=out)
    return swish.input_grad(dy, (x,), (beta,), (), axis, out)


@elementwise
def silu(x):
    """SiLU, x · sigmoid(x): `swish` with ``beta=1``.

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
    Backward keeps `x` alone. Error at most 4 ULP, down through the subnormals; -inf gives 0.

    References
    ----------
    Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units", arXiv:1702.03118.

    Examples
    --------
    >>> fastgrad.silu(np.array([-np.inf, 0.0, 1.0])).round(6) + 0.0
    array([0.      , 0.      , 0.731059])
    >>> fastgrad.silu_grad(np.ones(2), np.array([0.0, np.inf]))
    array([0.5, 1. ])
    """
    return x * m.sigmoid(x)


silu_grad = gradient_of(
    silu, "(s + x·s·(1-s)) with s = sigmoid(x)", "`1-s` is computed as sigmoid(-x)."
)


#: 2·sqrt(2/pi) and 0.044715 times that: 1 + tanh(u) is 2·sigmoid(2u).
_TANH_LINEAR = 2.0 * math.sqrt(2.0 / math.pi)
_TANH_CUBIC = 0.044715 * _TANH_LINEAR
_APPROXIMATIONS = ("none", "tanh")


@elementwise(approximate=_APPROXIMATIONS)
def gelu(x, approximate="none"):
    """GELU, x · Phi(x) with the normal distribution function Phi, or its tanh approximation.

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    approximate : {"none", "tanh"}
        ``"none"``: x · (1 + erf(x/sqrt(2))) / 2. ``"tanh"``: x · (1 + tanh(u)) / 2 with
        u = sqrt(2/pi) · (x + 0.044715 x³), computed as x · sigmoid(2u), which has no cancellation.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Raises
    ------
    TypeError
        If `x` has another dtype.
    ValueError
        If `approximate` is unknown, or `out` does not fit or overlaps `x` in part.

    Notes
    -----
    Backward keeps `x` alone. Error of ``"none"`` at most 5 ULP, down through the subnormals; of
    ``"tanh"`` the rounding of `u` is amplified by 2|u|. -inf gives 0 in both.

    References
    ----------
    Hendrycks, Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.

    Examples
    --------
    >>> fastgrad.gelu(np.array([-np.inf, 0.0, 1.0])).round(6) + 0.0
    array([0.      , 0.      , 0.841345])
    >>> fastgrad.gelu_grad(np.ones(3), np.array([-np.inf, 0.0, np.inf]), "tanh")
    array([0. , 0.5, 1. ])
    """
    if approximate == "tanh":
        return x * m.sigmoid(x * (_TANH_LINEAR + _TANH_CUBIC * (x * x)))
    return x * m.normal_cdf(x)


gelu_grad = gradient_of(
    gelu,
    '(Phi(x) + x·phi(x)) with the normal density phi; of ``"tanh"``, (s + x·s·(1-s)·z\') with z = 2u, '
    "s = sigmoid(z)",
)


@elementwise
def mish(x):
    """Mish, x · tanh(softplus(x)).

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
    Backward keeps `x` alone. Error at most 4 ULP, down through the subnormals; of the slope 5 ULP of its
    larger term. One exponential and one division each. -inf gives 0.

    References
    ----------
    Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", arXiv:1908.08681.

    Examples
    --------
    >>> fastgrad.mish(np.array([-np.inf, 0.0, 1.0])).round(6) + 0.0
    array([0.      , 0.      , 0.865098])
    >>> fastgrad.mish_grad(np.ones(3), np.array([-np.inf, 0.0, np.inf])) + 0.0
    array([0. , 0.6, 1. ])
    """
    return x * m.tanh(m.softplus(x))


mish_grad = gradient_of(
    mish,
    "(t + x·(1-t²)·sigmoid(x)) with t = tanh(softplus(x))",
    "`1-t²` is computed without cancellation.",
)


@elementwise
def quick_gelu(x):
    """Quick GELU, x · sigmoid(1.702 x): Ascend's FastGelu, a coarse approximation of `gelu`.

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
    Backward keeps `x` alone. Error at most 4 ULP, and |z| ULP more below 0, as the rounding of
    z = 1.702 x is amplified. -inf gives 0.

    References
    ----------
    Hendrycks, Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.

    Examples
    --------
    >>> fastgrad.quick_gelu(np.array([-np.inf, 0.0, 1.0])).round(6) + 0.0
    array([0.      , 0.      , 0.845796])
    >>> fastgrad.quick_gelu_grad(np.ones(2), np.array([0.0, np.inf]))
    array([0.5, 1. ])
    """
    return x * m.sigmoid(1.702 * x)


quick_gelu_grad = gradient_of(
    quick_gelu,
    "(s + z·s·(1-s)) with z = 1.702 x, s = sigmoid(z)",
    "`1-s` is computed as sigmoid(-z).",
)
