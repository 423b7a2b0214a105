"""Activations with the signatures of `torch.nn.functional`.

All of them: any shape and strides, float16, bfloat16, float32, float64; the result has the dtype of the
input, under autocast too, its order in memory, and never shares its memory. Backward keeps the input alone.
Gradients can be differentiated as often as you like. Formula and accuracy stand at the operator of the same
name in `fastgrad`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ..functional import _activations, _clipped, _rectifiers, _sigmoids
from ..functional._derived import with_arrays
from ._elementwise import Elementwise
from ._in_place import in_place

__all__ = [
    "celu",
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "quick_gelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "squared_relu",
    "swish",
    "tanh",
    "tanhshrink",
]


def _adapter(operator: Any, stock: Any) -> Elementwise:
    adapter = Elementwise(operator)
    adapter.stock = stock
    return adapter


_RELU = _adapter(_rectifiers.relu, F.relu)
_RELU6 = _adapter(_clipped.relu6, F.relu6)
_LEAKY_RELU = _adapter(_rectifiers.leaky_relu, F.leaky_relu)
_PRELU = _adapter(with_arrays(_rectifiers.prelu, ["weight"]), lambda x, w: x.where(x > 0, w * x))
_ELU = _adapter(_rectifiers.elu, F.elu)
_SELU = _adapter(_rectifiers.selu, F.selu)
_CELU = _adapter(_rectifiers.celu, F.celu)
_SQUARED_RELU = _adapter(_rectifiers.squared_relu, lambda x: F.relu(x) ** 2)
_SILU = _adapter(_activations.silu, F.silu)
_SWISH = _adapter(_activations.swish, lambda x, beta: x * torch.sigmoid(beta * x))
_SWISH_OF_BETA = _adapter(
    with_arrays(_activations.swish, ["beta"]), lambda x, beta: x * torch.sigmoid(beta * x)
)
_GELU = _adapter(_activations.gelu, lambda x, approximate: F.gelu(x, approximate=approximate))
_QUICK_GELU = _adapter(_activations.quick_gelu, lambda x: x * torch.sigmoid(1.702 * x))
_MISH = _adapter(_activations.mish, F.mish)
_SIGMOID = _adapter(_sigmoids.sigmoid, torch.sigmoid)
_LOGSIGMOID = _adapter(_sigmoids.logsigmoid, F.logsigmoid)
_TANH = _adapter(_sigmoids.tanh, torch.tanh)
_TANHSHRINK = _adapter(_sigmoids.tanhshrink, F.tanhshrink)
_SOFTPLUS = _adapter(_sigmoids.softplus, F.softplus)
_SOFTSIGN = _adapter(_sigmoids.softsign, F.softsign)
_HARDTANH = _adapter(_clipped.hardtanh, F.hardtanh)
_HARDSIGMOID = _adapter(_clipped.hardsigmoid, F.hardsigmoid)
_HARDSWISH = _adapter(_clipped.hardswish, F.hardswish)
_HARDSHRINK = _adapter(_clipped.hardshrink, F.hardshrink)
_SOFTSHRINK = _adapter(_clipped.softshrink, F.softshrink)


def _computed(
    adapter: Elementwise,
    input: torch.Tensor,
    options: tuple,
    inplace: bool,
    from_result: bool = False,
) -> torch.Tensor:
    """The value, written over the input where that is asked for."""
    if not inplace:
        return adapter((input,), options)
    return in_place(adapter, input, options, from_result)


def relu(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """max(x, 0), as `torch.nn.functional.relu`; the slope at 0 is 0."""
    return _computed(_RELU, input, (), inplace, from_result=True)


def relu6(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """min(max(x, 0), 6), as `torch.nn.functional.relu6`."""
    return _computed(_RELU6, input, (), inplace, from_result=True)


def leaky_relu(
    input: torch.Tensor, negative_slope: float = 0.01, inplace: bool = False
) -> torch.Tensor:
    """x where x > 0, else negative_slope · x, as `torch.nn.functional.leaky_relu`."""
    options = (float(negative_slope),)
    return _computed(_LEAKY_RELU, input, options, inplace, from_result=negative_slope > 0)


def prelu(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x where x > 0, else weight · x, as `torch.nn.functional.prelu`.

    Parameters
    ----------
    input : Tensor
        (N, C, …), or of one axis.
    weight : Tensor
        Of one element, or one a channel, of any float dtype.

    Raises
    ------
    RuntimeError
        If the number of weights is another one.
    """
    if weight.numel() != 1:
        channels = input.shape[1] if input.dim() > 1 else 1
        if weight.dim() != 1 or input.dim() == 0 or weight.shape[0] != channels:
            raise RuntimeError(
                f"weight must have 1 element, or one a channel, {channels} in input of shape "
                f"{tuple(input.shape)}, got shape {tuple(weight.shape)}"
            )
    if input.dim() > 1 and weight.numel() != 1:
        weight = weight.view(-1, *(1,) * (input.dim() - 2))
    elif weight.dim() > input.dim():
        weight = weight.view(())
    return _PRELU((input, weight))


def elu(input: torch.Tensor, alpha: float = 1.0, inplace: bool = False) -> torch.Tensor:
    """x where x > 0, else alpha · (exp(x) - 1), as `torch.nn.functional.elu`."""
    return _computed(_ELU, input, (float(alpha),), inplace)


def selu(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """scale · elu(x, alpha) with its two fixed numbers, as `torch.nn.functional.selu`."""
    return _computed(_SELU, input, (), inplace)


def celu(input: torch.Tensor, alpha: float = 1.0, inplace: bool = False) -> torch.Tensor:
    """max(x, 0) + min(alpha · (exp(x / alpha) - 1), 0), as `torch.nn.functional.celu`."""
    return _computed(_CELU, input, (float(alpha),), inplace)


def squared_relu(input: torch.Tensor) -> torch.Tensor:
    """max(x, 0)²."""
    return _SQUARED_RELU((input,))


def silu(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """x · sigmoid(x), as `torch.nn.functional.silu`."""
    if not inplace:
        return _SILU((input,))
    return _computed(_SILU, input, (), True)


def swish(input: torch.Tensor, beta: Any = 1.0) -> torch.Tensor:
    """x · sigmoid(beta · x).

    Parameters
    ----------
    input : Tensor
    beta : float or Tensor
        A tensor is broadcast, and has a gradient: ``beta[:, None, None]`` is one number a channel.
    """
    if isinstance(beta, torch.Tensor):
        return _SWISH_OF_BETA((input, beta))
    return _SWISH((input,), (float(beta),))


def gelu(input: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """x · Φ(x), or its approximation by tanh, as `torch.nn.functional.gelu`.

    Parameters
    ----------
    input : Tensor
    approximate : {"none", "tanh"}

    Raises
    ------
    RuntimeError
        If `approximate` is something else.
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return _GELU((input,), (approximate,))


def quick_gelu(input: torch.Tensor) -> torch.Tensor:
    """x · sigmoid(1.702 x)."""
    return _QUICK_GELU((input,))


def mish(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """x · tanh(softplus(x)), as `torch.nn.functional.mish`."""
    return _computed(_MISH, input, (), inplace)


def sigmoid(input: torch.Tensor) -> torch.Tensor:
    """1 / (1 + exp(-x)), as `torch.sigmoid`."""
    return _SIGMOID((input,))


def logsigmoid(input: torch.Tensor) -> torch.Tensor:
    """log(sigmoid(x)), as `torch.nn.functional.logsigmoid`."""
    return _LOGSIGMOID((input,))


def tanh(input: torch.Tensor) -> torch.Tensor:
    """tanh(x), as `torch.tanh`."""
    return _TANH((input,))


def tanhshrink(input: torch.Tensor) -> torch.Tensor:
    """x - tanh(x), as `torch.nn.functional.tanhshrink`."""
    return _TANHSHRINK((input,))


def softplus(input: torch.Tensor, beta: float = 1.0, threshold: float = 20.0) -> torch.Tensor:
    """log(1 + exp(beta · x)) / beta, x where beta · x > threshold, as `torch.nn.functional.softplus`."""
    return _SOFTPLUS((input,), (float(beta), float(threshold)))


def softsign(input: torch.Tensor) -> torch.Tensor:
    """x / (1 + |x|), as `torch.nn.functional.softsign`."""
    return _SOFTSIGN((input,))


def hardtanh(
    input: torch.Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> torch.Tensor:
    """min(max(x, min_val), max_val), as `torch.nn.functional.hardtanh`."""
    options = (float(min_val), float(max_val))
    return _computed(_HARDTANH, input, options, inplace, from_result=True)


def hardsigmoid(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """min(max(x / 6 + 1/2, 0), 1), as `torch.nn.functional.hardsigmoid`."""
    return _computed(_HARDSIGMOID, input, (), inplace)


def hardswish(input: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    """x · hardsigmoid(x), as `torch.nn.functional.hardswish`."""
    return _computed(_HARDSWISH, input, (), inplace)


def hardshrink(input: torch.Tensor, lambd: float = 0.5) -> torch.Tensor:
    """x where |x| > lambd, else 0, as `torch.nn.functional.hardshrink`."""
    return _HARDSHRINK((input,), (float(lambd),))


def softshrink(input: torch.Tensor, lambd: float = 0.5) -> torch.Tensor:
    """x - lambd, 0 or x + lambd, as `torch.nn.functional.softshrink`."""
    return _SOFTSHRINK((input,), (float(lambd),))
