"""Normalisation: each a line of maths over rows.

y = (x - mean) · rstd · gamma + beta with rstd = 1 / sqrt(variance + eps) of a row; an RMS norm has no mean.
The gradients are derived. With z = (x - mean) · rstd and g = dy · gamma they come out as

    dx = rstd · (g - mean(g) - z · mean(g · z))      dgamma = Σ dy · z      dbeta = Σ dy

in two passes over a row: one that reduces, one that writes `dx`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..program import maths as m
from ._row_call import RowCall, not_negative
from ._row_operator import row_operator
from ._rows import RowKernels

__all__ = [
    "add_layer_norm",
    "add_layer_norm_grad",
    "add_rms_norm",
    "add_rms_norm_grad",
    "batch_norm",
    "batch_norm_grad",
    "group_norm",
    "group_norm_grad",
    "group_norm_swish",
    "group_norm_swish_grad",
    "instance_norm",
    "instance_norm_grad",
    "layer_norm",
    "layer_norm_grad",
    "rms_norm",
    "rms_norm_grad",
]

# --- The maths ------------------------------------------------------------------------------------


def _affine(z, gamma, beta=None):
    z = z if gamma is None else z * gamma
    return z if beta is None else z + beta


def _norm(x, gamma=None, beta=None, eps=1e-5):
    return _affine((x - m.mean(x)) * m.rsqrt(m.variance(x) + eps), gamma, beta)


def _rms_norm(x, gamma=None, eps=1e-6):
    return _affine(x * m.rsqrt(m.mean(x * x) + eps), gamma)


def _norm_swish(x, gamma=None, beta=None, eps=1e-5, swish_beta=1.0):
    z = _norm(x, gamma, beta, eps)
    return z * m.sigmoid(swish_beta * z)


def _add_norm(x, residual, gamma=None, beta=None, eps=1e-5):
    return _norm_and_sum(m.rounded(x + residual), gamma, beta, eps)


def _norm_and_sum(sum, gamma=None, beta=None, eps=1e-5):
    return _norm(sum, gamma, beta, eps), sum


def _add_rms_norm(x, residual, gamma=None, eps=1e-6):
    return _rms_norm_and_sum(m.rounded(x + residual), gamma, eps)


def _rms_norm_and_sum(sum, gamma=None, eps=1e-6):
    return _rms_norm(sum, gamma, eps), sum


def _given_norm(x, gamma, beta, mean, rstd):
    """With statistics that do not depend on x: a batch norm's at inference."""
    return _affine((x - mean) * rstd, gamma, beta)


_AFFINE, _STATS = ("gamma", "beta"), {"mean": "reduce_mean", "rstd": "rstd"}
_RSTD = {"rstd": "rstd"}
_NORM = RowKernels(_norm, "norm", ("x",), _AFFINE, ("eps",), _STATS)
_RMS = RowKernels(_rms_norm, "rms_norm", ("x",), ("gamma",), ("eps",), _RSTD)
_SWISH = RowKernels(
    _norm_swish,
    "norm_swish",
    ("x",),
    _AFFINE,
    ("eps", "swish_beta"),
    _STATS,
    usual={"swish_beta": 1.0},
)
_ADD = RowKernels(_add_norm, "add_norm", ("x", "residual"), _AFFINE, ("eps",), _STATS)
_SUM = RowKernels(_norm_and_sum, "norm_and_sum", ("sum",), _AFFINE, ("eps",), _STATS)
_ADD_RMS = RowKernels(_add_rms_norm, "add_rms_norm", ("x", "residual"), ("gamma",), ("eps",), _RSTD)
_RMS_SUM = RowKernels(_rms_norm_and_sum, "rms_norm_and_sum", ("sum",), ("gamma",), ("eps",), _RSTD)
_GIVEN = RowKernels(_given_norm, "given_norm", ("x",), _AFFINE, (), None, ("mean", "rstd"))


# --- Group norm -----------------------------------------------------------------------------------


@row_operator(_NORM, "runs")
def group_norm(
    x: Any,
    num_groups: int,
    gamma: Any = None,
    beta: Any = None,
    eps: float = 1e-5,
    *,
    data_format: str = "NCHW",
) -> RowCall:
    """Group normalisation: y = (x - mean) · rstd · gamma + beta over each group of channels.

    Parameters
    ----------
    x : array_like
        (N, C, ...) for ``"NCHW"``, (N, ..., C) for ``"NHWC"``, with any number of spatial axes, none
        included; any layout; float16, bfloat16, float32 or float64.
    num_groups : int
        Groups of channels; divides C.
    gamma, beta : array_like, optional
        (C,), of any float dtype.
    eps : float
        Added to the variance.
    data_format : {"NCHW", "NHWC"}
        Whether the channels are axis 1, or the last one.
    return_stats : bool
        Also return what backward needs besides `x`.
    out : ndarray, optional
        Where to write `y`; may be `x` itself.

    Returns
    -------
    y : ndarray
        Of the shape and dtype of `x`.
    mean, rstd : ndarray
        Only with `return_stats`: (N, num_groups), float64 for float32 and float64, else float32.

    Raises
    ------
    TypeError
        If `x`, `gamma` or `beta` has another dtype, or `num_groups` is no integer.
    ValueError
        If `num_groups` does not divide the channels, `gamma` or `beta` has another length, `eps` is
        negative, or `out` does not fit.

    Notes
    -----
    Two passes over a group, which stays in the cache between them. Mean and variance are taken tile by
    tile, each about a lane of its own, in float64: never as E[x²] - E[x]². 16-bit and float32 are computed
    in float32 and rounded once. x - mean takes the mean in two parts, so that a large one costs nothing.
    ``"NHWC"`` with 16 channels or more is walked line by line, all groups at once; its sums have an order of
    their own, so the two formats may differ in the last bit.
    Backward keeps `x` and the statistics, or `x` alone. Error: 16-bit within 1 ULP of the largest term of an
    element; float32 within 6 (5.0 measured, where PyTorch has 20.8), float64 within 64.

    References
    ----------
    Wu, He, "Group Normalization", arXiv:1803.08494.
    """
    eps = not_negative(eps, "eps")
    call = RowCall({"x": x}, {"gamma": gamma, "beta": beta}, eps=eps)
    return call.by_groups(num_groups, data_format)


def group_norm_grad(
    dy: Any,
    x: Any,
    num_groups: int,
    gamma: Any = None,
    mean: Any = None,
    rstd: Any = None,
    eps: float = 1e-5,
    *,
    data_format: str = "NCHW",
    out: Any = None,
) -> tuple:
    """The gradients of `group_norm`.

    Parameters
    ----------
    dy : array_like
        The gradient of the result, of the shape and dtype of `x`, in any layout.
    x, num_groups, gamma, eps, data_format
        As in the forward call.
    mean, rstd : array_like, optional
        (N, num_groups), as the forward call returned them; without them they are computed again. So
        they are where they have float32 and `x` is more exact.
    out : ndarray, optional
        Where to write `dx`; may be `dy` or `x` itself.

    Returns
    -------
    dx : ndarray
        Of the shape and dtype of `x`.
    dgamma, dbeta : ndarray or None
        (C,), of the dtype of `gamma`; None where `gamma` is.

    Raises
    ------
    TypeError, ValueError
        As `group_norm`; also if `dy`, `mean` or `rstd` does not fit `x`.

    Notes
    -----
    Pass 1 walks the tiles of a group and reduces Σ dy and Σ dy · (x - mean) of each channel; pass 2 walks
    the same tiles, still in the cache, and writes `dx`. Sums are taken in an order that depends on the
    shape alone. Source: the article on a GroupNorm backward operator in Ascend C.
    """
    call = _bound(x, gamma, eps).by_groups(num_groups, data_format)
    return _gradients(call, _NORM, {"dy": dy}, {"mean": mean, "rstd": rstd}, gamma, out)


@row_operator(_SWISH, "runs")
def group_norm_swish(
    x: Any,
    num_groups: int,
    gamma: Any = None,
    beta: Any = None,
    eps: float = 1e-5,
    *,
    swish_beta: float = 1.0,
    data_format: str = "NCHW",
) -> RowCall:
    """``swish(group_norm(x, …), swish_beta)`` in one: the pair of every diffusion U-Net.

    Parameters
    ----------
    x, num_groups, gamma, beta, eps, data_format, return_stats, out
        As in `group_norm`.
    swish_beta : float
        The slope of the swish.

    Returns
    -------
    y, or (y, mean, rstd)
        As `group_norm`.

    Raises
    ------
    TypeError, ValueError
        As `group_norm`.

    Notes
    -----
    Backward keeps `x` and the statistics, half of what the two operators keep; what stands between
    them is computed again, once: the gradient at the norm's result stays in the buffer between the two
    passes over a group (at most 4 bytes a lane).
    """
    eps = not_negative(eps, "eps")
    call = RowCall({"x": x}, {"gamma": gamma, "beta": beta}, eps=eps, swish_beta=swish_beta)
    return call.by_groups(num_groups, data_format)


def group_norm_swish_grad(
    dy: Any,
    x: Any,
    num_groups: int,
    gamma: Any = None,
    beta: Any = None,
    mean: Any = None,
    rstd: Any = None,
    eps: float = 1e-5,
    *,
    swish_beta: float = 1.0,
    data_format: str = "NCHW",
    out: Any = None,
) -> tuple:
    """The gradients of `group_norm_swish`, for `x`, `gamma` and `beta`.

    Parameters
    ----------
    dy, x, num_groups, gamma, mean, rstd, eps, data_format, out
        As in `group_norm_grad`.
    beta, swish_beta
        As in the forward call.

    Returns
    -------
    dx, dgamma, dbeta
        As `group_norm_grad`; the gradient of what was not given is None.

    Raises
    ------
    TypeError, ValueError
        As `group_norm_grad`.
    """
    call = RowCall(
        {"x": x},
        {"gamma": gamma, "beta": beta},
        eps=not_negative(eps, "eps"),
        swish_beta=swish_beta,
    ).by_groups(num_groups, data_format)
    given = [name for name, value in (("gamma", gamma), ("beta", beta)) if value is not None]
    wrt = ("x", *given)
    found = call.backward(_SWISH, {"dy": dy}, wrt, {"mean": mean, "rstd": rstd}, out)
    return tuple(found.get(name) for name in ("x", "gamma", "beta"))


@row_operator(_NORM, "runs")
def instance_norm(
    x: Any,
    gamma: Any = None,
    beta: Any = None,
    eps: float = 1e-5,
    *,
    data_format: str = "NCHW",
) -> RowCall:
    """Instance normalisation: a group norm with every channel a group of its own.

    Parameters
    ----------
    x, gamma, beta, eps, data_format, return_stats, out
        As in `group_norm`; the statistics have the shape (N, C).

    Returns
    -------
    y, or (y, mean, rstd)
        As `group_norm`.

    Raises
    ------
    TypeError, ValueError
        As `group_norm`.

    References
    ----------
    Ulyanov, Vedaldi, Lempitsky, "Instance Normalization", arXiv:1607.08022.
    """
    eps = not_negative(eps, "eps")
    call = RowCall({"x": x}, {"gamma": gamma, "beta": beta}, eps=eps)
    return call.by_each_channel(data_format)


def instance_norm_grad(
    dy: Any,
    x: Any,
    gamma: Any = None,
    mean: Any = None,
    rstd: Any = None,
    eps: float = 1e-5,
    *,
    data_format: str = "NCHW",
    out: Any = None,
) -> tuple:
    """The gradients of `instance_norm`: as `group_norm_grad`, every channel a group of its own.

    Parameters
    ----------
    dy, x, gamma, mean, rstd, eps, data_format, out
        As in `group_norm_grad`.

    Returns
    -------
    dx, dgamma, dbeta
        As `group_norm_grad`.

    Raises
    ------
    TypeError, ValueError
        As `group_norm_grad`.
    """
    call = _bound(x, gamma, eps).by_each_channel(data_format)
    return _gradients(call, _NORM, {"dy": dy}, {"mean": mean, "rstd": rstd}, gamma, out)


# --- Layer and RMS norm ---------------------------------------------------------------------------


@row_operator(_NORM)
def layer_norm(
    x: Any,
    gamma: Any = None,
    beta: Any = None,
    eps: float = 1e-5,
    *,
    axes: int = 1,
) -> RowCall:
    """Layer normalisation: y = (x - mean) · rstd · gamma + beta over the last axes.

    Parameters
    ----------
    x : array_like
        At least `axes` axes; any layout; float16, bfloat16, float32 or float64.
    gamma, beta : array_like, optional
        Of the shape of the last `axes` axes of `x`, of any float dtype.
    eps : float
        Added to the variance.
    axes : int
        How many trailing axes are normalised.
    return_stats, out
        As in `group_norm`; the statistics have the shape of the other axes.

    Returns
    -------
    y, or (y, mean, rstd)
        As `group_norm`.

    Raises
    ------
    TypeError, ValueError
        As `group_norm`.

    Notes
    -----
    As `group_norm`. The bits of a row depend on no other row.

    References
    ----------
    Ba, Kiros, Hinton, "Layer Normalization", arXiv:1607.06450.
    """
    eps = not_negative(eps, "eps")
    return RowCall({"x": x}, {"gamma": gamma, "beta": beta}, eps=eps).by_rows(axes)


def layer_norm_grad(
    dy: Any,
    x: Any,
    gamma: Any = None,
    mean: Any = None,
    rstd: Any = None,
    eps: float = 1e-5,
    *,
    axes: int = 1,
    out: Any = None,
) -> tuple:
    """The gradients of `layer_norm`.

    Parameters
    ----------
    dy, mean, rstd, out
        As in `group_norm_grad`; the statistics have the shape of the axes that are not normalised.
    x, gamma, eps, axes
        As in the forward call.

    Returns
    -------
    dx, dgamma, dbeta
        As `group_norm_grad`; the last two have the shape of `gamma`.

    Raises
    ------
    TypeError, ValueError
        As `group_norm_grad`.
    """
    call = _bound(x, gamma, eps).by_rows(axes)
    return _gradients(call, _NORM, {"dy": dy}, {"mean": mean, "rstd": rstd}, gamma, out)


@row_operator(_RMS)
def rms_norm(
    x: Any,
    gamma: Any = None,
    eps: float = 1e-6,
    *,
    axes: int = 1,
) -> RowCall:
    """RMS normalisation: y = x · rstd · gamma with rstd = 1 / sqrt(mean(x²) + eps), over the last axes.

    Parameters
    ----------
    x, gamma, axes, out
        As in `layer_norm`.
    eps : float
        Added to the mean square.
    return_stats : bool
        Also return `rstd`.

    Returns
    -------
    y, or (y, rstd)
        As `layer_norm`.

    Raises
    ------
    TypeError, ValueError
        As `layer_norm`.

    References
    ----------
    Zhang, Sennrich, "Root Mean Square Layer Normalization", arXiv:1910.07467.
    """
    eps = not_negative(eps, "eps")
    return RowCall({"x": x}, {"gamma": gamma}, eps=eps).by_rows(axes)


def rms_norm_grad(
    dy: Any,
    x: Any,
    gamma: Any = None,
    rstd: Any = None,
    eps: float = 1e-6,
    *,
    axes: int = 1,
    out: Any = None,
) -> tuple:
    """The gradients of `rms_norm`.

    Parameters
    ----------
    dy, x, gamma, rstd, eps, axes, out
        As in `layer_norm_grad`.

    Returns
    -------
    dx : ndarray
        Of the shape and dtype of `x`.
    dgamma : ndarray or None
        Of the shape and dtype of `gamma`; None where that is.

    Raises
    ------
    TypeError, ValueError
        As `layer_norm_grad`.
    """
    call = _bound(x, gamma, eps).by_rows(axes)
    return _gradients(call, _RMS, {"dy": dy}, {"rstd": rstd}, gamma, out)


# --- With a residual ------------------------------------------------------------------------------


@row_operator(_ADD)
def add_layer_norm(
    x: Any,
    residual: Any,
    gamma: Any = None,
    beta: Any = None,
    eps: float = 1e-5,
    *,
    axes: int = 1,
) -> RowCall:
    """``layer_norm(x + residual, …)`` and the sum itself, in one: the pair of every transformer.

    Parameters
    ----------
    x, residual : array_like
        Of one shape and dtype.
    gamma, beta, eps, axes, return_stats
        As in `layer_norm`.
    out : tuple of (ndarray or None), optional
        Where to write `y` and the sum; may be `x` and `residual` themselves.

    Returns
    -------
    y, sum : ndarray
        Of the shape and dtype of `x`. The sum is rounded to that before it is normalised.
    mean, rstd : ndarray
        Only with `return_stats`.

    Raises
    ------
    TypeError, ValueError
        As `layer_norm`; also if `residual` does not fit `x`.
    """
    eps = not_negative(eps, "eps")
    arrays = {"x": x, "residual": residual}
    return RowCall(arrays, {"gamma": gamma, "beta": beta}, eps=eps).by_rows(axes)


def add_layer_norm_grad(
    dy: Any,
    dsum: Any,
    sum: Any,
    gamma: Any = None,
    mean: Any = None,
    rstd: Any = None,
    eps: float = 1e-5,
    *,
    axes: int = 1,
    out: Any = None,
) -> tuple:
    """The gradients of `add_layer_norm`.

    Parameters
    ----------
    dy, dsum : array_like
        The gradients of the two results; `dsum` is what comes back along the residual.
    sum : array_like
        As the forward call returned it.
    gamma, mean, rstd, eps, axes, out
        As in `layer_norm_grad`.

    Returns
    -------
    dx : ndarray
        The gradient of `x` and of `residual`: they are the same.
    dgamma, dbeta
        As `layer_norm_grad`.

    Raises
    ------
    TypeError, ValueError
        As `layer_norm_grad`.
    """
    call = _bound(sum, gamma, eps, "sum").by_rows(axes)
    incoming = {"dy": dy, "dresult1": dsum}
    return _gradients(call, _SUM, incoming, {"mean": mean, "rstd": rstd}, gamma, out)


@row_operator(_ADD_RMS)
def add_rms_norm(
    x: Any,
    residual: Any,
    gamma: Any = None,
    eps: float = 1e-6,
    *,
    axes: int = 1,
) -> RowCall:
    """``rms_norm(x + residual, …)`` and the sum itself, in one.

    Parameters
    ----------
    x, residual, gamma, eps, axes, return_stats, out
        As in `add_layer_norm` and `rms_norm`.

    Returns
    -------
    y, sum, or y, sum, rstd
        As `add_layer_norm`.

    Raises
    ------
    TypeError, ValueError
        As `add_layer_norm`.
    """
    eps = not_negative(eps, "eps")
    arrays = {"x": x, "residual": residual}
    return RowCall(arrays, {"gamma": gamma}, eps=eps).by_rows(axes)


def add_rms_norm_grad(
    dy: Any,
    dsum: Any,
    sum: Any,
    gamma: Any = None,
    rstd: Any = None,
    eps: float = 1e-6,
    *,
    axes: int = 1,
    out: Any = None,
) -> tuple:
    """The gradients of `add_rms_norm`.

    Parameters
    ----------
    dy, dsum, sum, gamma, rstd, eps, axes, out
        As in `add_layer_norm_grad`.

    Returns
    -------
    dx, dgamma
        As `rms_norm_grad`; `dx` is the gradient of `x` and of `residual`.

    Raises
    ------
    TypeError, ValueError
        As `add_layer_norm_grad`.
    """
    call = _bound(sum, gamma, eps, "sum").by_rows(axes)
    incoming = {"dy": dy, "dresult1": dsum}
    return _gradients(call, _RMS_SUM, incoming, {"rstd": rstd}, gamma, out)


# --- Batch norm -----------------------------------------------------------------------------------


def batch_norm(
    x: Any,
    gamma: Any = None,
    beta: Any = None,
    running_mean: Any = None,
    running_var: Any = None,
    *,
    training: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    data_format: str = "NCHW",
    return_stats: bool = False,
    out: Any = None,
) -> Any:
    """Batch normalisation: y = (x - mean) · rstd · gamma + beta over the batch, for each channel.

    Parameters
    ----------
    x, gamma, beta, eps, data_format, return_stats, out
        As in `group_norm`; the statistics have the shape (C,).
    running_mean, running_var : array_like, optional
        (C,). In training they are the averages so far, which the call does not write into: it returns
        new ones. At inference they take the place of the batch's.
    training : bool
        Whether the statistics are the batch's.
    momentum : float
        The weight of this batch in the new averages; the variance in them is the unbiased one.

    Returns
    -------
    y : ndarray
        Of the shape and dtype of `x`.
    running_mean, running_var : ndarray
        Only in training, where they were given: the new averages, in their dtype.
    mean, rstd : ndarray
        Only with `return_stats`.

    Raises
    ------
    TypeError, ValueError
        As `group_norm`; also at inference without running statistics, and in training with one element
        a channel, which has no variance.

    References
    ----------
    Ioffe, Szegedy, "Batch Normalization", arXiv:1502.03167.
    """
    eps = not_negative(eps, "eps")
    arrays, channels = {"x": x}, {"gamma": gamma, "beta": beta}
    call = RowCall(arrays, channels, eps=eps).by_channels(data_format)
    running = (
        call.per_channel(running_mean, "running_mean"),
        call.per_channel(running_var, "running_var"),
    )
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must be given both, or none of them")
    if not training:
        mean, rstd = _running_statistics(running, eps)
        fixed = RowCall(arrays, channels).by_channels(data_format)
        (y,) = fixed.with_statistics(mean=mean, rstd=rstd).forward(_GIVEN, False, out).values()
        return (y, mean, rstd) if return_stats else y
    if call.view.rows.length == 1:
        raise ValueError(
            f"x has one element a channel, shape {call.x.shape}, in training: it has no variance"
        )
    y, mean, rstd = call.forward(_NORM, True, out).values()
    results = [y, *_new_averages(running, mean, rstd, eps, momentum, call.view.rows.length)]
    if return_stats:
        results += [call.as_stats(mean), call.as_stats(rstd)]
    return tuple(results) if len(results) > 1 else y


@row_operator(_NORM, "runs")
def batch_norm_in_training(
    x: Any,
    gamma: Any = None,
    beta: Any = None,
    eps: float = 1e-5,
    *,
    data_format: str = "NCHW",
) -> RowCall:
    """`batch_norm` with the statistics of the batch, and no averages: for adapters, which keep these."""
    eps = not_negative(eps, "eps")
    return RowCall({"x": x}, {"gamma": gamma, "beta": beta}, eps=eps).by_channels(data_format)


def _new_averages(
    running: Sequence[np.ndarray | None],
    mean: np.ndarray,
    rstd: np.ndarray,
    eps: float,
    momentum: float,
    count: int,
) -> list[np.ndarray]:
    """The running statistics after this batch; none if none were given."""
    with np.errstate(all="ignore"):
        variance = np.maximum(1 / (rstd * rstd) - eps, 0) * (count / max(count - 1, 1))
    return [
        _average(old, new, momentum)
        for old, new in zip(running, (mean, variance), strict=True)
        if old is not None
    ]


def _running_statistics(running: Sequence[Any], eps: float) -> tuple[np.ndarray, np.ndarray]:
    if running[0] is None or running[1] is None:
        raise ValueError("running_mean and running_var must be given where training is False")
    mean, variance = (np.asarray(value, np.float64) for value in running)
    with np.errstate(all="ignore"):
        return mean, 1 / np.sqrt(variance + eps)


def _average(old: np.ndarray, new: np.ndarray, momentum: float) -> np.ndarray:
    mixed = (1 - momentum) * old.astype(np.float64) + momentum * new
    return mixed.astype(old.dtype.newbyteorder("="))


def batch_norm_grad(
    dy: Any,
    x: Any,
    gamma: Any = None,
    mean: Any = None,
    rstd: Any = None,
    *,
    training: bool = True,
    eps: float = 1e-5,
    data_format: str = "NCHW",
    out: Any = None,
) -> tuple:
    """The gradients of `batch_norm`.

    Parameters
    ----------
    dy, x, gamma, mean, rstd, eps, data_format, out
        As in `group_norm_grad`; the statistics have the shape (C,).
    training : bool
        As in the forward call. Without it the statistics, which must be given, do not depend on `x`.

    Returns
    -------
    dx, dgamma, dbeta
        As `group_norm_grad`.

    Raises
    ------
    TypeError, ValueError
        As `group_norm_grad`.
    """
    call = _bound(x, gamma, eps).by_channels(data_format)
    if training:
        statistics = {"mean": mean, "rstd": rstd}
        return _gradients(call, _NORM, {"dy": dy}, statistics, gamma, out)
    if mean is None or rstd is None:
        raise ValueError("mean and rstd must be given where training is False")
    call = call.with_statistics(mean=mean, rstd=rstd)
    return _gradients(call, _GIVEN, {"dy": dy}, {}, gamma, out)


# --- Common to the gradients ----------------------------------------------------------------------


def _bound(x: Any, gamma: Any, eps: Any, name: str = "x") -> RowCall:
    return RowCall({name: x}, {"gamma": gamma}, eps=not_negative(eps, "eps"))


def _gradients(
    call: RowCall,
    kernels: RowKernels,
    incoming: dict[str, Any],
    statistics: dict[str, Any],
    gamma: Any,
    out: Any,
) -> tuple:
    """(dx, dgamma, …): of all parameters where there is a gamma; beta's does not depend on beta."""
    channels = () if gamma is None else kernels.channels
    wrt = (*kernels.arrays, *channels)
    found = call.backward(kernels, incoming, wrt, statistics, out, channels, {"dresult1": "dsum"})
    return tuple(found.get(name) for name in (*kernels.arrays, *kernels.channels))
