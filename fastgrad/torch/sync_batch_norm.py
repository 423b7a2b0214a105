"""Batch normalisation over all processes of a group, on the CPU: `SyncBatchNorm`.

PyTorch's refuses CPU tensors. Here every process takes mean and variance of its own part and all combine
them, in the same order and in float64, so that all have the same bits; backward likewise sums over the
group what a whole batch would sum over itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

import fastgrad
from fastgrad.torch import functional
from fastgrad.torch._tensors import array_of, tensor_of

__all__ = ["SyncBatchNorm"]

# Added to a variance that is wanted itself: small enough to vanish in it, and its inverse root is finite.
_NO_EPS = 1e-30


@fastgrad.elementwise
def _affine(x, mean=0.0, weight=1.0, bias=0.0):
    return (x - mean) * weight + bias


@fastgrad.elementwise
def _input_gradient(incoming, x, mean=0.0, scale=1.0, slope=0.0, offset=0.0):
    return incoming * scale + (x - mean) * slope + offset


class SyncBatchNorm(_BatchNorm):
    """`torch.nn.SyncBatchNorm` for CPU tensors, over gloo or any other backend.

    It takes the arguments and has the state of `torch.nn.SyncBatchNorm`, and gives tensors on other devices
    to that. It is no subclass: DistributedDataParallel refuses every CPU model that holds one. Processes
    may have batches of different sizes, or none.

    Examples
    --------
    >>> model = fastgrad.torch.SyncBatchNorm.convert_sync_batchnorm(model)
    >>> model = torch.nn.parallel.DistributedDataParallel(model)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    @classmethod
    def convert_sync_batchnorm(cls, module: nn.Module, process_group: Any = None) -> nn.Module:
        """Convert all batch norms of a model, stock ones and fastgrad's, to layers of this class.

        Parameters
        ----------
        module : torch.nn.Module
            A model, which is changed, or a single batch norm.
        process_group : optional
            Who shares statistics; everyone by default.

        Returns
        -------
        torch.nn.Module
            `module`, or the new layer where it is a batch norm itself.
        """
        converted = module
        if isinstance(module, _BatchNorm):
            if process_group is None:
                process_group = getattr(module, "process_group", None)
            converted = cls._like(module, process_group)
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted

    @classmethod
    def _like(cls, norm: Any, process_group: Any) -> SyncBatchNorm:
        """A layer with the parameters and the state of `norm`, the very same tensors."""
        settings = norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats
        made = cls(*settings, process_group=process_group)
        for name in ("weight", "bias"):
            setattr(made, name, getattr(norm, name))
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            setattr(made, name, getattr(norm, name))
        made.training = norm.training
        return made

    def forward(self, input: Tensor) -> Tensor:
        """Normalise a batch: over the group in training, by the running statistics otherwise."""
        if input.device.type != "cpu":
            of_pytorch: Any = nn.SyncBatchNorm
            return of_pytorch.forward(self, input)
        self._check_input_dim(input)
        group = self._group()
        momentum = self._next_momentum()
        tracked = not self.training or self.track_running_stats
        averages = (self.running_mean, self.running_var) if tracked else (None, None)
        if group is None:
            of_batch = self.training or self.running_mean is None
            return functional.batch_norm(
                input, *averages, self.weight, self.bias, of_batch, momentum, self.eps
            )
        return _synchronised(
            input, self.weight, self.bias, _Averages(*averages, momentum), self.eps, group
        )

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2 or input.shape[1] == 0:
            raise ValueError(
                f"SyncBatchNorm needs an input of (N, C, …) with a channel or more, got "
                f"{tuple(input.shape)}"
            )

    # What `torch.nn.SyncBatchNorm.forward` calls besides.
    _check_non_zero_input_channels = _check_input_dim

    def _group(self) -> Any:
        """Who shares the statistics of this call; None where there is nobody else."""
        if not (self.training and dist.is_available() and dist.is_initialized()):
            return None
        group = self.process_group or dist.group.WORLD
        return group if dist.get_world_size(group) > 1 else None

    def _next_momentum(self) -> float:
        """The weight of this batch in the running statistics."""
        if not (self.training and self.track_running_stats):
            return self.momentum or 0.0
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        if self.momentum is None:  # the mean of all batches
            return 1.0 / self.num_batches_tracked.item()
        return self.momentum


class _Averages(NamedTuple):
    """Running statistics, which a call in training writes into, and the weight of its batch."""

    mean: Tensor | None
    variance: Tensor | None
    momentum: float

    def update(self, total: _Moments) -> None:
        """Move towards the batch, by its unbiased variance."""
        variance = total.squares / (total.count - 1)
        for average, value in ((self.mean, total.mean), (self.variance, variance)):
            if average is not None:
                moved = average.double().lerp(tensor_of(value), self.momentum)
                average.copy_(moved)


@dataclass(frozen=True)
class _Moments:
    """Of each channel, in float64: mean and sum of squared distances from it; and of how many."""

    mean: np.ndarray
    squares: np.ndarray
    count: float

    @classmethod
    def of(cls, x: _Channels, scratch: np.ndarray) -> _Moments:
        """Of one process's part; `scratch` is written over."""
        if x.count < 2:  # which has no variance
            mean = x.array.astype(np.float64).sum(axis=x.others)
            return cls(mean, np.zeros_like(mean), x.count)
        _, mean, rstd = fastgrad.batch_norm(
            x.array, eps=_NO_EPS, data_format=x.data_format, return_stats=True, out=scratch
        )
        variance = np.maximum(rstd.astype(np.float64) ** -2 - _NO_EPS, 0.0)
        return cls(mean.astype(np.float64), variance * x.count, x.count)

    def over(self, group: Any) -> _Moments:
        """Of all parts together: the same bits in every process."""
        own = torch.from_numpy(np.concatenate([self.mean, self.squares, [self.count]]))
        parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, own, group)
        table = torch.stack(parts).numpy()
        means, squares = np.split(table[:, :-1], 2, axis=1)
        counts = table[:, -1:]
        count = float(counts.sum())
        if count < 2:
            raise ValueError(
                f"SyncBatchNorm needs more than one value a channel in training, all processes "
                f"together have {count:.0f}"
            )
        mean = (counts * means).sum(axis=0) / count
        away = means - mean
        return _Moments(mean, (squares + counts * away * away).sum(axis=0), count)


class _Channels:
    """A tensor as fastgrad takes it: an array, and where its channels are."""

    def __init__(self, tensor: Tensor) -> None:
        last = _is_channels_last(tensor)
        self.axis = -1 if last else 1
        self.data_format = "NHWC" if last else "NCHW"
        self.array = array_of(tensor.movedim(1, -1) if last else tensor.contiguous())
        self.others = tuple(i for i in range(tensor.ndim) if i != self.axis % tensor.ndim)
        self.count = tensor.numel() // tensor.shape[1]

    def tensor(self, array: np.ndarray) -> Tensor:
        """A result like `array`, in the order of axes of the tensor."""
        made = tensor_of(array)
        return made.movedim(-1, 1) if self.axis == -1 else made


def _is_channels_last(tensor: Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return (
        tensor.ndim in formats
        and not tensor.is_contiguous()
        and tensor.is_contiguous(memory_format=formats[tensor.ndim])
    )


def _like(tensor: Tensor, like: _Channels) -> np.ndarray:
    """`tensor` as an array whose axes lie as those of `like`."""
    if like.axis == -1:
        return array_of(tensor.movedim(1, -1).contiguous())
    return array_of(tensor.contiguous())


def _parameter(tensor: Tensor | None, default: float, x: _Channels) -> np.ndarray:
    """One number a channel, float64."""
    if tensor is None:
        return np.full(x.array.shape[x.axis], default)
    return array_of(tensor.double())


@torch.compiler.disable  # a graph would hold neither the arrays nor the other processes
def _synchronised(*arguments: Any) -> Tensor:
    return _SyncBatchNorm.apply(*arguments)


class _SyncBatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        averages: _Averages,
        eps: float,
        group: Any,
    ) -> Tensor:
        x = _Channels(input)
        y = np.empty_like(x.array)
        total = _Moments.of(x, scratch=y).over(group)
        averages.update(total)
        rstd = 1 / np.sqrt(total.squares / total.count + eps)
        # What it is computed with is what is kept: the narrower of both would differ from it.
        mean, rstd = _narrow(x, total.mean), _narrow(x, rstd)
        ctx.group, ctx.count = group, total.count
        ctx.save_for_backward(input, weight, tensor_of(mean), tensor_of(rstd))
        if x.array.size:
            scale = _narrow(x, _parameter(weight, 1.0, x) * rstd)
            offset = _narrow(x, _parameter(bias, 0.0, x))
            _affine(x.array, mean, scale, offset, axis=x.axis, out=y)
        return x.tensor(y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple:
        input, weight, mean, rstd = ctx.saved_tensors
        x = _Channels(input)
        dy = _like(grad_output, x)
        mean, rstd = array_of(mean), array_of(rstd)
        sums = _sums(dy, x, mean, rstd)
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        dx = None
        if needs_input:
            total = torch.from_numpy(np.stack(sums))
            dist.all_reduce(total, group=ctx.group)
            dx = _dx(dy, x, mean, rstd, weight, total.numpy() / ctx.count)
        of_xhat, of_dy = sums
        dweight = tensor_of(of_xhat).to(weight.dtype) if needs_weight else None
        dbias = tensor_of(of_dy).to(weight.dtype) if needs_bias else None
        return dx, dweight, dbias, None, None, None


def _sums(
    dy: np.ndarray, x: _Channels, mean: np.ndarray, rstd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of each channel, in this process: the sums of dy·xhat and of dy."""
    if not x.array.size:
        return np.zeros(mean.shape), np.zeros(mean.shape)
    ones, zeros = np.ones_like(mean), np.zeros_like(mean)
    dweight, dbias = _affine.grad(
        dy, x.array, mean, ones, zeros, wrt=("weight", "bias"), axis=x.axis
    )
    return dweight.astype(np.float64) * rstd, dbias.astype(np.float64)


def _dx(
    dy: np.ndarray,
    x: _Channels,
    mean: np.ndarray,
    rstd: np.ndarray,
    weight: Tensor | None,
    means: np.ndarray,
) -> Tensor:
    """weight·rstd·(dy - mean of dy - xhat·mean of dy·xhat), the means over all processes."""
    if not x.array.size:
        return x.tensor(np.empty_like(x.array))
    of_xhat, of_dy = means
    scale = _parameter(weight, 1.0, x) * rstd
    slope, offset = -scale * rstd * of_xhat, -scale * of_dy
    parameters = (mean, *(_narrow(x, one) for one in (scale, slope, offset)))
    return x.tensor(_input_gradient(dy, x.array, *parameters, axis=x.axis))


def _narrow(x: _Channels, values: np.ndarray) -> np.ndarray:
    """In the dtype that the kernels of `x` compute in."""
    return values.astype(np.float64 if x.array.dtype == np.float64 else np.float32)
