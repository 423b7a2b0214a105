"""Quantisation-aware training: rounding to what an integer can say, with a straight-through gradient."""

from __future__ import annotations

from typing import Any

from ..program import maths as m
from ._operator import elementwise

__all__ = ["fake_quantize", "fake_quantize_grad"]


@elementwise
def fake_quantize(x, scale=1.0, zero_point=0.0, quant_min=-128.0, quant_max=127.0):
    """The value of `x` as an integer: (q - zero_point) · scale, q = clip(round(x / scale) + zero_point).

    Parameters
    ----------
    x : array_like
        Any shape and layout; float16, bfloat16, float32 or float64.
    scale : float or 1-D array_like
        The step between neighbouring values, above 0: a number, or one a channel along `axis`. Trainable.
    zero_point : float or 1-D array_like
        The integer that stands for 0: a number, or one a channel.
    quant_min, quant_max : float
        The least and the largest integer.
    axis : int, optional
        The channel axis of `x`.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        Of the shape and dtype of `x`. Halves are rounded to the even integer; NaN stays.

    Raises
    ------
    TypeError
        If `x` has another dtype, or a parameter is neither a number nor an array of floats.
    ValueError
        If `scale` is not above 0, `quant_min` is above `quant_max`, a parameter has not one element a
        channel, or `out` does not fit or overlaps `x` in part.

    Notes
    -----
    Backward keeps `x` alone; see `fake_quantize_grad`. x / scale is a division, rounded once: PyTorch
    multiplies with 1 / scale, so a value half-way between two steps may go the other way there.

    References
    ----------
    Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
    Inference", arXiv:1712.05877.

    Examples
    --------
    >>> fastgrad.fake_quantize(np.array([-0.31, 0.04, 0.26, 99.0]), 0.1)
    array([-0.3,  0. ,  0.3, 12.7])
    """
    q = m.round(x / scale) + zero_point
    return (_clipped(q, quant_min, quant_max) - zero_point) * scale


def _clipped(q, quant_min, quant_max):
    return m.where(q < quant_min, quant_min, m.where(q > quant_max, quant_max, q))


# By hand: the derivative of a rounding is 0 wherever there is one. These are the estimates of the papers.
@fake_quantize.backward
def _straight_through(x, scale, zero_point, quant_min, quant_max):
    ratio = x / scale
    steps = m.round(ratio)
    q = steps + zero_point

    def by_side(below, between, above):
        return m.where(q < quant_min, below, m.where(q > quant_max, above, between))

    one = m.where(q == q, 1.0, q)  # a NaN stays
    return (
        by_side(0.0, one, 0.0),
        by_side(quant_min - zero_point, steps - ratio, quant_max - zero_point),
        by_side(-scale, 0.0, -scale),
        by_side(scale, 0.0, 0.0),
        by_side(0.0, 0.0, scale),
    )


fake_quantize.require(
    lambda scale, zero_point, quant_min, quant_max: (scale > 0) & (quant_min <= quant_max),
    "scale of fake_quantize must be above 0 and quant_min at most quant_max, "
    "got scale={0}, quant_min={2}, quant_max={3}",
)


def fake_quantize_grad(
    dy: Any,
    x: Any,
    scale: Any = 1.0,
    zero_point: Any = 0.0,
    quant_min: Any = -128.0,
    quant_max: Any = 127.0,
    *,
    axis: int | None = None,
    scale_grad: bool = False,
    out: Any = None,
) -> Any:
    """The straight-through gradient of `fake_quantize`: dy where x is within the range, else 0.

    Parameters
    ----------
    dy : array_like
        The gradient of the result, of the shape and dtype of `x`, in any layout.
    x, scale, zero_point, quant_min, quant_max, axis
        As in the forward call.
    scale_grad : bool
        Also compute the gradient of `scale`, in the same pass: the sum of dy · (round(x/scale) - x/scale)
        within the range, of dy · (quant_min - zero_point) below and of dy · (quant_max - zero_point) above.
    out : ndarray, optional
        Where to write `dx`; may be `dy` or `x` itself.

    Returns
    -------
    dx : ndarray
        Of the shape and dtype of `x`.
    dscale : float or ndarray
        Only with `scale_grad`: a float for a number, else of the shape and dtype of `scale`. LSQ divides it
        by sqrt(elements · quant_max) before a step.

    Raises
    ------
    TypeError, ValueError
        As `fake_quantize`; also if `dy` has another shape or dtype than `x`.

    Notes
    -----
    For the gradients of the other parameters, -dy · scale of `zero_point` outside of the range for one, see
    ``fake_quantize.grad``.

    References
    ----------
    Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons", arXiv:1308.3432; Esser et
    al., "Learned Step Size Quantization", arXiv:1902.08153.
    """
    parameters = (scale, zero_point, quant_min, quant_max)
    if scale_grad:
        return fake_quantize.grad(dy, x, *parameters, wrt=("x", "scale"), axis=axis, out=out)
    return fake_quantize.input_grad(dy, (x,), parameters, (), axis, out)
