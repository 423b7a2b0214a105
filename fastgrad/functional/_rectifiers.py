"""Rectifiers: x above 0, and something smaller, or smaller in size, below."""

from __future__ import annotations

from typing import Any

from ..program import maths as m
from ._gradient import gradient_of
from ._operator import elementwise

__all__ = [
    "celu",
    "celu_grad",
    "elu",
    "elu_grad",
    "leaky_relu",
    "leaky_relu_grad",
    "prelu",
    "prelu_grad",
    "relu",
    "relu_grad",
    "selu",
    "selu_grad",
    "squared_relu",
    "squared_relu_grad",
]


@elementwise
def relu(x):
    """ReLU, max(x, 0).

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
    Backward keeps `x` alone. Exact. The slope at the kink, 0, is 0. NaN stays NaN.

    References
    ----------
    Nair, Hinton, "Rectified Linear Units Improve Restricted Boltzmann Machines", ICML 2010.

    Examples
    --------
    >>> fastgrad.relu(np.float32([-1, 0, 2]))
    array([0., 0., 2.], dtype=float32)
    >>> fastgrad.relu_grad(np.ones(3), np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 1.])
    """
    return m.where(x <= 0, 0.0, x)


relu_grad = gradient_of(relu, "(0 where x <= 0, else 1)", "0 at the kink, x = 0.")


@elementwise
def leaky_relu(x, negative_slope=0.01):
    """Leaky ReLU, x where x > 0, else negative_slope · x.

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    negative_slope : float or 1-D array_like
        The slope below 0: a number, or one a channel along `axis`.
    axis : int, optional
        The channel axis of `x`, for a `negative_slope` with one element a channel.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Notes
    -----
    Backward keeps `x` alone. Error at most 1.5 ULP. The slope at the kink, 0, is `negative_slope`. With one
    of 0, -inf gives NaN: that is `relu`.

    References
    ----------
    Maas, Hannun, Ng, "Rectifier Nonlinearities Improve Neural Network Acoustic Models", ICML 2013.

    Examples
    --------
    >>> fastgrad.leaky_relu(np.array([-1.0, 0.0, 2.0]), 0.25)
    array([-0.25,  0.  ,  2.  ])
    >>> fastgrad.leaky_relu_grad(np.ones(3), np.array([-1.0, 0.0, 2.0]), 0.25)
    array([0.25, 0.25, 1.  ])
    """
    return m.where(x > 0, x, negative_slope * x)


leaky_relu_grad = gradient_of(
    leaky_relu, "(1 where x > 0, else negative_slope)", "`negative_slope` at the kink, x = 0."
)


@elementwise(channel_axis=1)
def prelu(x, weight=0.25):
    """PReLU, x where x > 0, else weight · x, with a trainable weight.

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    weight : float or 1-D array_like
        The slope below 0: a number, or one a channel along `axis`.
    axis : int, optional
        The channel axis of `x`, for a `weight` with more than one element; 1 by default, as PyTorch's.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Raises
    ------
    TypeError
        If `x` has another dtype, or `weight` is neither a number nor an array of floats.
    ValueError
        If `weight` has not one element a channel, or `out` does not fit or overlaps `x` in part.

    Notes
    -----
    Backward keeps `x` and `weight`. Error at most 1 ULP. The slope at the kink, 0, is `weight`.

    References
    ----------
    He, Zhang, Ren, Sun, "Delving Deep into Rectifiers", arXiv:1502.01852.

    Examples
    --------
    >>> fastgrad.prelu(np.array([[-1.0, -1.0], [1.0, -2.0]]), np.array([0.25, 0.5]))
    array([[-0.25, -0.5 ],
           [ 1.  , -1.  ]])
    """
    return m.where(x > 0, x, weight * x)


def prelu_grad(
    dy: Any, x: Any, weight: Any = 0.25, *, axis: int | None = None, out: Any = None
) -> tuple:
    """The gradients of `prelu`: of `x`, dy · (1 where x > 0, else weight), and of `weight`.

    Parameters
    ----------
    dy : array_like
        The gradient of the result, of the shape and dtype of `x`, in any layout.
    x, weight, axis
        As in the forward call.
    out : ndarray, optional
        Where to write `dx`; may be `dy` or `x` itself.

    Returns
    -------
    dx : ndarray
        Of the shape and dtype of `x`.
    dweight : float or ndarray
        The sum of dy · (0 where x > 0, else x), over everything or over each channel: a float for a
        number, else of the shape and dtype of `weight`. Summed in float64 in a fixed order: the same
        bits for any layout and number of threads.

    Raises
    ------
    TypeError, ValueError
        As `prelu`; also if `dy` has another shape or dtype than `x`.

    Notes
    -----
    Both in one pass over `dy` and `x`. The slope at the kink, x = 0, is `weight`.

    Examples
    --------
    >>> dx, dweight = fastgrad.prelu_grad(np.ones(3), np.array([-1.0, -3.0, 2.0]), 0.25)
    >>> dx, dweight
    (array([0.25, 0.25, 1.  ]), -4.0)
    """
    return prelu.grad(dy, x, weight, wrt=("x", "weight"), axis=axis, out=out)


@elementwise
def elu(x, alpha=1.0):
    """ELU, x where x > 0, else alpha · (exp(x) - 1).

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    alpha : float or 1-D array_like
        What it tends to below, with the sign turned: a number, or one a channel along `axis`.
    axis : int, optional
        The channel axis of `x`, for an `alpha` with one element a channel.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Notes
    -----
    Backward keeps `x` alone. Error at most 3 ULP: exp(x) - 1 does not cancel near 0. For another `alpha`
    than 1 there is a kink at 0, where the slope is `alpha`, that from below, as PyTorch's.

    References
    ----------
    Clevert, Unterthiner, Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear
    Units", arXiv:1511.07289.

    Examples
    --------
    >>> fastgrad.elu(np.array([-np.inf, 0.0, 2.0]))
    array([-1.,  0.,  2.])
    >>> fastgrad.elu_grad(np.ones(3), np.array([-np.inf, 0.0, 2.0]))
    array([0., 1., 1.])
    """
    return m.where(x > 0, x, alpha * m.expm1(x))


elu_grad = gradient_of(
    elu, "(1 where x > 0, else alpha · exp(x))", "`alpha`, the slope from below, at x = 0."
)

#: Those for which mean 0 and variance 1 are a fixed point of a layer.
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


@elementwise
def selu(x):
    """SELU, scale · elu(x, alpha) with scale = 1.0507… and alpha = 1.6733….

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
    Backward keeps `x` alone. Error at most 3 ULP. The slope at the kink, 0, is scale · alpha, that from
    below, as PyTorch's.

    References
    ----------
    Klambauer, Unterthiner, Mayr, Hochreiter, "Self-Normalizing Neural Networks", arXiv:1706.02515.

    Examples
    --------
    >>> fastgrad.selu(np.array([-np.inf, 0.0, 1.0])).round(6)
    array([-1.758099,  0.      ,  1.050701])
    """
    return m.where(x > 0, _SELU_SCALE * x, (_SELU_SCALE * _SELU_ALPHA) * m.expm1(x))


selu_grad = gradient_of(
    selu,
    "scale · (1 where x > 0, else alpha · exp(x))",
    "scale · alpha, the slope from below, at x = 0.",
)


@elementwise
def celu(x, alpha=1.0):
    """CELU, x where x > 0, else alpha · (exp(x / alpha) - 1).

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    alpha : float or 1-D array_like
        What it tends to below, with the sign turned: a number, or one a channel along `axis`. Not 0.
    axis : int, optional
        The channel axis of `x`, for an `alpha` with one element a channel.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. 16-bit input is computed in float32 and rounded once.

    Raises
    ------
    ValueError
        If `alpha` is 0.

    Notes
    -----
    Backward keeps `x` alone. Error at most 4 ULP; of the slope |x/alpha| ULP more, as x/alpha is rounded. It
    has no kink.

    References
    ----------
    Barron, "Continuously Differentiable Exponential Linear Units", arXiv:1704.07483.

    Examples
    --------
    >>> fastgrad.celu(np.array([-np.inf, 0.0, 2.0]), 0.5)
    array([-0.5,  0. ,  2. ])
    >>> fastgrad.celu_grad(np.ones(3), np.array([-np.inf, 0.0, 2.0]), 0.5)
    array([0., 1., 1.])
    """
    return m.where(x > 0, x, alpha * m.expm1(x / alpha))


celu.require(lambda alpha: alpha != 0, "alpha of celu must not be 0, got {}")
celu_grad = gradient_of(celu, "(1 where x > 0, else exp(x / alpha))")


@elementwise
def squared_relu(x):
    """Squared ReLU, max(x, 0)².

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
    Backward keeps `x` alone. Correctly rounded. It has no kink: the slope at 0 is 0.

    References
    ----------
    So, Mańke, Liu, Dai, Shazeer, Le, "Primer: Searching for Efficient Transformers", arXiv:2109.08668.

    Examples
    --------
    >>> fastgrad.squared_relu(np.array([-1.0, 0.0, 3.0]))
    array([0., 0., 9.])
    >>> fastgrad.squared_relu_grad(np.ones(3), np.array([-1.0, 0.0, 3.0]))
    array([0., 0., 6.])
    """
    return m.where(x <= 0, 0.0, x * x)


squared_relu_grad = gradient_of(squared_relu, "2 max(x, 0)")
