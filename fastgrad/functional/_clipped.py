"""Activations made of straight pieces: clipped, hard forms of smooth ones, and shrinkage."""

from __future__ import annotations

from ..program import maths as m
from ._gradient import gradient_of
from ._operator import elementwise

__all__ = [
    "hardshrink",
    "hardshrink_grad",
    "hardsigmoid",
    "hardsigmoid_grad",
    "hardswish",
    "hardswish_grad",
    "hardtanh",
    "hardtanh_grad",
    "relu6",
    "relu6_grad",
    "softshrink",
    "softshrink_grad",
]


@elementwise
def relu6(x):
    """ReLU6, min(max(x, 0), 6).

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`.

    Notes
    -----
    Backward keeps `x` alone. Exact. The slope at the kinks, 0 and 6, is 0. NaN stays NaN.

    References
    ----------
    Krizhevsky, "Convolutional Deep Belief Networks on CIFAR-10", 2010.

    Examples
    --------
    >>> fastgrad.relu6(np.array([-1.0, 2.0, 7.0]))
    array([0., 2., 6.])
    >>> fastgrad.relu6_grad(np.ones(4), np.array([0.0, 2.0, 6.0, 7.0]))
    array([0., 1., 0., 0.])
    """
    return m.where(x <= 0, 0.0, m.where(x >= 6, 6.0, x))


relu6_grad = gradient_of(relu6, "(1 where 0 < x < 6, else 0)", "0 at the kinks, x = 0 and x = 6.")


@elementwise
def hardtanh(x, min_val=-1.0, max_val=1.0):
    """Hard tanh, x between min_val and max_val.

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    min_val, max_val : float or 1-D array_like
        The limits: each a number, or one a channel along `axis`; `min_val` at most `max_val`.
    axis : int, optional
        The channel axis of `x`, for limits with one element a channel.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`.

    Raises
    ------
    ValueError
        If `min_val` is larger than `max_val`.

    Notes
    -----
    Backward keeps `x` alone. Exact. The slope at the kinks, `min_val` and `max_val`, is 0. NaN stays NaN.

    References
    ----------
    Collobert, "Large Scale Machine Learning", thesis, Paris VI, 2004.

    Examples
    --------
    >>> fastgrad.hardtanh(np.array([-3.0, 0.5, 3.0]), -2, 2)
    array([-2. ,  0.5,  2. ])
    >>> fastgrad.hardtanh_grad(np.ones(3), np.array([-1.0, 0.5, 3.0]))
    array([0., 1., 0.])
    """
    return m.where(x <= min_val, min_val, m.where(x >= max_val, max_val, x))


hardtanh.require(
    lambda min_val, max_val: min_val <= max_val,
    "min_val of hardtanh must be at most max_val, got {}, {}",
)
hardtanh_grad = gradient_of(
    hardtanh, "(1 where min_val < x < max_val, else 0)", "0 at the kinks, `min_val` and `max_val`."
)


@elementwise
def hardsigmoid(x):
    """Hard sigmoid, (x + 3) / 6 between 0 and 1.

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
    Backward keeps `x` alone. Error at most 2 ULP. The slope at the kinks, -3 and 3, is 0.

    References
    ----------
    Howard et al., "Searching for MobileNetV3", arXiv:1905.02244.

    Examples
    --------
    >>> fastgrad.hardsigmoid(np.array([-4.0, 0.0, 4.0]))
    array([0. , 0.5, 1. ])
    >>> fastgrad.hardsigmoid_grad(np.full(3, 6.0), np.array([-3.0, 0.0, 4.0]))
    array([0., 1., 0.])
    """
    return m.where(x <= -3, 0.0, m.where(x >= 3, 1.0, (x + 3) / 6))


hardsigmoid_grad = gradient_of(
    hardsigmoid, "(1/6 where -3 < x < 3, else 0)", "0 at the kinks, x = -3 and x = 3."
)


@elementwise
def hardswish(x):
    """Hard swish, x · hardsigmoid(x).

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
    Backward keeps `x` alone. Error at most 2 ULP. The slope at the kinks is 0 at -3 and 1 at 3.

    References
    ----------
    Howard et al., "Searching for MobileNetV3", arXiv:1905.02244.

    Examples
    --------
    >>> fastgrad.hardswish(np.array([-np.inf, -3.0, 0.0, 4.0]))
    array([0., 0., 0., 4.])
    >>> fastgrad.hardswish_grad(np.ones(4), np.array([-3.0, 0.0, 3.0, 4.0]))
    array([0. , 0.5, 1. , 1. ])
    """
    return m.where(x <= -3, 0.0, m.where(x >= 3, x, x * (x + 3) / 6))


hardswish_grad = gradient_of(
    hardswish,
    "(0 where x <= -3, 1 where x >= 3, else x/3 + 1/2)",
    "At the kinks 0, x = -3, and 1, x = 3.",
)


@elementwise
def hardshrink(x, lambd=0.5):
    """Hard shrinkage, 0 where |x| <= lambd, else x.

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    lambd : float or 1-D array_like
        The threshold: a number, or one a channel along `axis`.
    axis : int, optional
        The channel axis of `x`, for a `lambd` with one element a channel.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`.

    Notes
    -----
    Backward keeps `x` alone. Exact. The slope at the steps, `lambd` and -`lambd`, is 0.

    References
    ----------
    Donoho, Johnstone, "Ideal spatial adaptation by wavelet shrinkage", Biometrika 81, 1994.

    Examples
    --------
    >>> fastgrad.hardshrink(np.array([-2.0, -0.5, 0.1, 0.7]))
    array([-2. ,  0. ,  0. ,  0.7])
    >>> fastgrad.hardshrink_grad(np.ones(4), np.array([-2.0, -0.5, 0.1, 0.7]))
    array([1., 0., 0., 1.])
    """
    return m.where(m.abs(x) <= lambd, 0.0, x)


hardshrink_grad = gradient_of(
    hardshrink, "(0 where |x| <= lambd, else 1)", "0 at the steps, |x| = lambd."
)


@elementwise
def softshrink(x, lambd=0.5):
    """Soft shrinkage, 0 where |x| <= lambd, else x moved by lambd towards 0.

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    lambd : float or 1-D array_like
        The threshold: a number, or one a channel along `axis`; not negative.
    axis : int, optional
        The channel axis of `x`, for a `lambd` with one element a channel.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Raises
    ------
    ValueError
        If `lambd` is negative.

    Notes
    -----
    Backward keeps `x` alone. Correctly rounded. The slope at the kinks, `lambd` and -`lambd`, is 0.

    References
    ----------
    Donoho, Johnstone, "Ideal spatial adaptation by wavelet shrinkage", Biometrika 81, 1994.

    Examples
    --------
    >>> fastgrad.softshrink(np.array([-2.0, -0.5, 0.1, 0.75]))
    array([-1.5 ,  0.  ,  0.  ,  0.25])
    >>> fastgrad.softshrink_grad(np.ones(4), np.array([-2.0, -0.5, 0.1, 0.75]))
    array([1., 0., 0., 1.])
    """
    return m.where(m.abs(x) <= lambd, 0.0, m.where(x > 0, x - lambd, x + lambd))


softshrink.require(lambda lambd: lambd >= 0, "lambd of softshrink must not be negative, got {}")
softshrink_grad = gradient_of(
    softshrink, "(0 where |x| <= lambd, else 1)", "0 at the kinks, |x| = lambd."
)
