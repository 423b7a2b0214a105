"""Norms with the signatures of `torch.nn.functional`.

All of them: float16, bfloat16, float32, float64; weights of the input's dtype or another one; the result
has the input's dtype, under autocast too, and its order in memory: channels that are last stay so. Sums are
in float64, in an order that depends on the shape alone. Backward keeps the input and the statistics. A second
derivative is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from ..functional import _normalization as n
from ._rows import AddNorm, BatchNormInference, Rows

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "batch_norm",
    "group_norm",
    "group_norm_swish",
    "instance_norm",
    "layer_norm",
    "rms_norm",
]

_AXES = ("int axes", "float eps")


def _by_axes(axes: int, eps: float) -> dict:
    return {"axes": axes, "eps": eps}


def _other_axes(shape: tuple, axes: int, eps: float) -> tuple:
    return shape[: len(shape) - axes]


_GROUP_NORM = Rows(
    n.group_norm,
    ("int num_groups", "float eps"),
    lambda num_groups, eps: {"num_groups": num_groups, "eps": eps},
    lambda shape, num_groups, eps: (shape[0], num_groups),
    by_format=True,
)
_GROUP_NORM_SWISH = Rows(
    n.group_norm_swish,
    ("int num_groups", "float eps", "float swish_beta"),
    lambda num_groups, eps, beta: {"num_groups": num_groups, "eps": eps, "swish_beta": beta},
    lambda shape, num_groups, eps, beta: (shape[0], num_groups),
    by_format=True,
)
_LAYER_NORM = Rows(n.layer_norm, _AXES, _by_axes, _other_axes)
_RMS_NORM = Rows(n.rms_norm, _AXES, _by_axes, _other_axes)
_ADD_LAYER_NORM = AddNorm(n.add_layer_norm, n.add_layer_norm_grad, _AXES, _by_axes, _other_axes)
_ADD_RMS_NORM = AddNorm(n.add_rms_norm, n.add_rms_norm_grad, _AXES, _by_axes, _other_axes)
_INSTANCE_NORM = Rows(
    n.instance_norm,
    ("float eps",),
    lambda eps: {"eps": eps},
    lambda shape, eps: shape[:2],
    by_format=True,
    shows_kept=True,
)
_BATCH_NORM = Rows(
    n.batch_norm_in_training,
    ("float eps",),
    lambda eps: {"eps": eps},
    lambda shape, eps: (shape[1],),
    by_format=True,
    name="batch_norm",
    shows_kept=True,
)
_BATCH_NORM_INFERENCE = BatchNormInference()


_GROUP_NORM.stock = lambda x, w, b, groups, eps: F.group_norm(x, groups, w, b, eps)
_GROUP_NORM_SWISH.stock = lambda x, w, b, groups, eps, beta: _swish(
    F.group_norm(x, groups, w, b, eps), beta
)
_LAYER_NORM.stock = lambda x, w, b, axes, eps: F.layer_norm(x, x.shape[-axes:], w, b, eps)
_RMS_NORM.stock = lambda x, w, axes, eps: F.rms_norm(x, x.shape[-axes:], w, eps)
_ADD_LAYER_NORM.stock = lambda x, r, w, b, axes, eps: (
    F.layer_norm(x + r, x.shape[-axes:], w, b, eps),
    x + r,
)
_ADD_RMS_NORM.stock = lambda x, r, w, axes, eps: (F.rms_norm(x + r, x.shape[-axes:], w, eps), x + r)


def _swish(x: torch.Tensor, beta: float) -> torch.Tensor:
    return x * torch.sigmoid(beta * x)


def group_norm(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Group normalisation, as `torch.nn.functional.group_norm`.

    Parameters
    ----------
    input : Tensor
        (N, C, …), dense or channels_last, which is walked as it lies.
    num_groups : int
        Divides C.
    weight, bias : Tensor, optional
        (C,).
    eps : float
    """
    _check_groups(input, num_groups)
    return _GROUP_NORM((input, weight, bias), (num_groups, float(eps)))


def group_norm_swish(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    swish_beta: float = 1.0,
) -> torch.Tensor:
    """``silu(group_norm(…))`` in one, with half of what the two keep for backward."""
    _check_groups(input, num_groups)
    return _GROUP_NORM_SWISH((input, weight, bias), (num_groups, float(eps), float(swish_beta)))


def _check_groups(input: torch.Tensor, num_groups: int) -> None:
    if input.dim() < 2:
        raise RuntimeError(f"input must have at least 2 dimensions, got {tuple(input.shape)}")
    if num_groups < 1 or input.shape[1] % num_groups:
        raise RuntimeError(
            f"num_groups must divide the channels, {input.shape[1]} in input of shape "
            f"{tuple(input.shape)}, got {num_groups}"
        )


def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Layer normalisation over the last axes, as `torch.nn.functional.layer_norm`."""
    axes = _axes(input, normalized_shape)
    return _LAYER_NORM((input, weight, bias), (axes, float(eps)))


def rms_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) · weight over the last axes, as `torch.nn.functional.rms_norm`.

    Parameters
    ----------
    input : Tensor
    normalized_shape : sequence of int
        The last axes of `input`.
    weight : Tensor, optional
        Of that shape.
    eps : float, optional
        By default that of the dtype that is computed in: 2^-52 for float64, else 2^-23.
    """
    axes = _axes(input, normalized_shape)
    return _RMS_NORM((input, weight), (axes, _rms_eps(input, eps)))


def _rms_eps(input: torch.Tensor, eps: float | None) -> float:
    if eps is not None:
        return float(eps)
    return torch.finfo(torch.float64 if input.dtype is torch.float64 else torch.float32).eps


def add_layer_norm(
    input: torch.Tensor,
    residual: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``(layer_norm(input + residual, …), input + residual)`` in one; backward keeps the sum alone."""
    axes = _axes(input, normalized_shape)
    return _ADD_LAYER_NORM((input, residual, weight, bias), (axes, float(eps)))


def add_rms_norm(
    input: torch.Tensor,
    residual: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``(rms_norm(input + residual, …), input + residual)`` in one; backward keeps the sum alone."""
    axes = _axes(input, normalized_shape)
    return _ADD_RMS_NORM((input, residual, weight), (axes, _rms_eps(input, eps)))


def _axes(input: torch.Tensor, normalized_shape: Sequence[int]) -> int:
    axes = len(normalized_shape)
    if axes == 0 or tuple(input.shape[input.dim() - axes :]) != tuple(normalized_shape):
        raise RuntimeError(
            f"normalized_shape must be the last axes of input of shape {tuple(input.shape)}, "
            f"got {list(normalized_shape)}"
        )
    return axes


def batch_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Batch normalisation, as `torch.nn.functional.batch_norm`.

    Parameters
    ----------
    input : Tensor
        (N, C, …).
    running_mean, running_var : Tensor, optional
        (C,); updated in place in training, used otherwise.
    weight, bias : Tensor, optional
        (C,).
    training : bool
        Whether the statistics are the batch's.
    momentum : float
        The weight of this batch in the averages.
    eps : float

    Raises
    ------
    ValueError
        In training with one value a channel.
    RuntimeError
        Without running statistics where `training` is False.
    """
    if (
        input.numel() == 0
    ):  # there is nothing to compute: PyTorch knows what becomes of the averages
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return _with_running_statistics(input, running_mean, running_var, weight, bias, eps)
    count = input.numel() // max(input.shape[1], 1)
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.size()}"
        )
    y, mean, rstd = _BATCH_NORM((input, weight, bias), (float(eps),))
    _update(running_mean, running_var, mean, rstd, eps, momentum, count)
    return y


def instance_norm(
    input: torch.Tensor,
    running_mean: torch.Tensor | None = None,
    running_var: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Instance normalisation, as `torch.nn.functional.instance_norm`: each channel of each item."""
    if not use_input_stats:
        return _with_running_statistics(input, running_mean, running_var, weight, bias, eps)
    if input.dim() < 3:
        raise ValueError(f"input must have a spatial axis, got shape {tuple(input.shape)}")
    count = input.shape[2:].numel()
    if count == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.size()}"
        )
    y, mean, rstd = _INSTANCE_NORM((input, weight, bias), (float(eps),))
    _update(running_mean, running_var, mean, rstd, eps, momentum, count)
    return y


def _with_running_statistics(
    input: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    if running_mean is None or running_var is None:
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when training=False"
        )
    return _BATCH_NORM_INFERENCE((input, running_mean, running_var, weight, bias), (float(eps),))


@torch.no_grad()
def _update(
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    eps: float,
    momentum: float,
    count: int,
) -> None:
    """The averages after this batch, where there are any; the variance in them is the unbiased one."""
    if running_mean is None or running_var is None:
        return
    variance = (rstd.double() ** -2 - eps).clamp(min=0) * (count / (count - 1))
    for running, new in ((running_mean, mean.double()), (running_var, variance)):
        batch = new.mean(0) if new.dim() > 1 else new
        running.copy_(torch.lerp(running.double(), batch, momentum))
