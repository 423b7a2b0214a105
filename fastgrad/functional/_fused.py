"""An addition and an activation in one pass: the bias of a projection, a residual.

The gradient of what is broadcast is reduced to its own shape in the pass that writes `dx`.
"""

from __future__ import annotations

from typing import Any

from ._activations import gelu, swish
from ._operator import elementwise
from ._rectifiers import relu

__all__ = [
    "add_gelu",
    "add_gelu_grad",
    "add_relu",
    "add_relu_grad",
    "add_swish",
    "add_swish_grad",
]


@elementwise(approximate=("none", "tanh"))
def add_gelu(x, bias, approximate="none"):
    """gelu(x + bias), where either is broadcast.

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    bias : array_like
        Broadcast with `x` as NumPy does; then it may have a dtype of its own: a float32 bias for
        16-bit `x` is added in float32.
    approximate : {"none", "tanh"}
        As for `gelu`.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the dtype of `x`. The sum is not rounded in between; 16-bit input is rounded once.

    Raises
    ------
    TypeError
        If an operand has another dtype, or `bias` has the shape of `x` and not its dtype.
    ValueError
        If the two do not broadcast, or `out` does not fit or overlaps an operand in part.

    Notes
    -----
    Backward keeps `x` and `bias` alone: the sum is computed again, tile by tile.
    """
    return gelu(x + bias, approximate)


@elementwise
def add_swish(x, bias, beta=1.0):
    """swish(x + bias, beta), where `x` or `bias` is broadcast.

    Parameters
    ----------
    x, bias, out
        As for `add_gelu`.
    beta : float or 1-D array_like
        As for `swish`.
    axis : int, optional
        The channel axis, for a `beta` with one element a channel.

    Returns
    -------
    ndarray
        Of the dtype of `x`.

    Notes
    -----
    Backward keeps `x` and `bias` alone.
    """
    return swish(x + bias, beta)


@elementwise
def add_relu(x, bias):
    """max(x + bias, 0), where either is broadcast; the slope at 0 is 0.

    Parameters
    ----------
    x, bias, out
        As for `add_gelu`.

    Returns
    -------
    ndarray
        Of the dtype of `x`.

    Notes
    -----
    Backward keeps `x` and `bias` alone.
    """
    return relu(x + bias)


# Compiled ahead by `warmup`: the usual call adds one row to all.
for _operator in (add_gelu, add_swish, add_relu):
    _operator.usually_spread = ("bias",)


def add_gelu_grad(
    dy: Any, x: Any, bias: Any, approximate: str = "none", *, out: Any = None
) -> tuple:
    """The gradients of `add_gelu`: dx = dy · gelu'(x + bias), dbias = dx summed to the shape of `bias`.

    Parameters
    ----------
    dy : array_like
        The gradient of the result, of its shape and dtype.
    x, bias, approximate
        As in the forward call.
    out : ndarray or tuple of (ndarray or None), optional
        Where to write `dx`, or (dx, dbias); `dx` may be `dy` or `x` itself.

    Returns
    -------
    dx, dbias : ndarray
        Each of the shape and dtype of its operand. Sums are in float64, in an order that depends on
        the shape alone: the same bits for any layout and number of threads.

    Raises
    ------
    TypeError, ValueError
        As `add_gelu`; also if `dy` has another shape or dtype than the result.
    """
    return add_gelu.grad(dy, x, bias, approximate, wrt=("x", "bias"), out=out)


def add_swish_grad(
    dy: Any, x: Any, bias: Any, beta: Any = 1.0, *, axis: int | None = None, out: Any = None
) -> tuple:
    """The gradients of `add_swish`: dx = dy · swish'(x + bias), dbias = dx summed to the shape of `bias`.

    Parameters
    ----------
    dy, x, bias, out
        As for `add_gelu_grad`.
    beta, axis
        As in the forward call; for the gradient of `beta` see ``add_swish.grad``.

    Returns
    -------
    dx, dbias : ndarray
        Each of the shape and dtype of its operand.
    """
    return add_swish.grad(dy, x, bias, beta, wrt=("x", "bias"), axis=axis, out=out)


def add_relu_grad(dy: Any, x: Any, bias: Any, *, out: Any = None) -> tuple:
    """The gradients of `add_relu`: dx = dy where x + bias > 0, else 0; dbias = dx summed to its shape.

    Parameters
    ----------
    dy, x, bias, out
        As for `add_gelu_grad`.

    Returns
    -------
    dx, dbias : ndarray
        Each of the shape and dtype of its operand.
    """
    return add_relu.grad(dy, x, bias, wrt=("x", "bias"), out=out)
