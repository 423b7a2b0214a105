"""Modules that are drop-in for `torch.nn`'s: subclasses that compute with fastgrad's kernels.

Constructors, parameters, `state_dict` are those of the base class: nothing but `forward` is new.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from . import functional as F

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Dropout",
    "GroupNorm",
    "GroupNormSiLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HuberLoss",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "KLDivLoss",
    "LayerNorm",
    "LeakyReLU",
    "LogSigmoid",
    "MSELoss",
    "Mish",
    "PReLU",
    "RMSNorm",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
]


# --- Activations ----------------------------------------------------------------------------------


class ReLU(nn.ReLU):
    """`torch.nn.ReLU`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """max(x, 0)."""
        return F.relu(input, self.inplace)


class ReLU6(nn.ReLU6):
    """`torch.nn.ReLU6`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """min(max(x, 0), 6)."""
        return F.relu6(input, self.inplace)


class LeakyReLU(nn.LeakyReLU):
    """`torch.nn.LeakyReLU`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x where x > 0, else negative_slope · x."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(nn.PReLU):
    """`torch.nn.PReLU`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x where x > 0, else weight · x."""
        return F.prelu(input, self.weight)


class ELU(nn.ELU):
    """`torch.nn.ELU`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x where x > 0, else alpha · (exp(x) - 1)."""
        return F.elu(input, self.alpha, self.inplace)


class SELU(nn.SELU):
    """`torch.nn.SELU`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """scale · elu(x, alpha)."""
        return F.selu(input, self.inplace)


class CELU(nn.CELU):
    """`torch.nn.CELU`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x where x > 0, else alpha · (exp(x / alpha) - 1)."""
        return F.celu(input, self.alpha, self.inplace)


class SiLU(nn.SiLU):
    """`torch.nn.SiLU`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x · sigmoid(x)."""
        return F.silu(input, self.inplace)


class GELU(nn.GELU):
    """`torch.nn.GELU`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x · Φ(x)."""
        return F.gelu(input, self.approximate)


class Mish(nn.Mish):
    """`torch.nn.Mish`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x · tanh(softplus(x))."""
        return F.mish(input, self.inplace)


class Sigmoid(nn.Sigmoid):
    """`torch.nn.Sigmoid`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """1 / (1 + exp(-x))."""
        return F.sigmoid(input)


class LogSigmoid(nn.LogSigmoid):
    """`torch.nn.LogSigmoid`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """log(sigmoid(x))."""
        return F.logsigmoid(input)


class Tanh(nn.Tanh):
    """`torch.nn.Tanh`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """tanh(x)."""
        return F.tanh(input)


class Tanhshrink(nn.Tanhshrink):
    """`torch.nn.Tanhshrink`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x - tanh(x)."""
        return F.tanhshrink(input)


class Softplus(nn.Softplus):
    """`torch.nn.Softplus`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """log(1 + exp(beta · x)) / beta."""
        return F.softplus(input, self.beta, self.threshold)


class Softsign(nn.Softsign):
    """`torch.nn.Softsign`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x / (1 + |x|)."""
        return F.softsign(input)


class Hardtanh(nn.Hardtanh):
    """`torch.nn.Hardtanh`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """min(max(x, min_val), max_val)."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class Hardsigmoid(nn.Hardsigmoid):
    """`torch.nn.Hardsigmoid`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """min(max(x / 6 + 1/2, 0), 1)."""
        return F.hardsigmoid(input, self.inplace)


class Hardswish(nn.Hardswish):
    """`torch.nn.Hardswish`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x · hardsigmoid(x)."""
        return F.hardswish(input, self.inplace)


class Hardshrink(nn.Hardshrink):
    """`torch.nn.Hardshrink`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x where |x| > lambd, else 0."""
        return F.hardshrink(input, self.lambd)


class Softshrink(nn.Softshrink):
    """`torch.nn.Softshrink`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """x - lambd, 0 or x + lambd."""
        return F.softshrink(input, self.lambd)


class GLU(nn.GLU):
    """`torch.nn.GLU`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """a · sigmoid(b) of the halves a and b."""
        return F.glu(input, self.dim)


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`, which keeps a seed for backward, and no mask."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """0 with probability p, else x / (1 - p)."""
        return F.dropout(input, self.p, self.training, self.inplace)


# --- Norms ----------------------------------------------------------------------------------------


class GroupNorm(nn.GroupNorm):
    """`torch.nn.GroupNorm`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The norm over each group of channels."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class GroupNormSiLU(nn.GroupNorm):
    """``Sequential(GroupNorm(…), SiLU())`` as one module, with the parameters of the norm."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """silu(group_norm(x))."""
        return F.group_norm_swish(input, self.num_groups, self.weight, self.bias, self.eps)


class LayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The norm over the last axes."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """`torch.nn.RMSNorm`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x / sqrt(mean(x²) + eps) · weight."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class _BatchNorm:
    """The forward of a batch norm: what `torch.nn` does, by another kernel."""

    def forward(self: Any, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the average over all batches so far
                momentum = 1.0 / float(self.num_batches_tracked)
        from_batch = self.training or (self.running_mean is None and self.running_var is None)
        keeps = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            from_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm, nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d`."""


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d`."""


class BatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    """`torch.nn.BatchNorm3d`."""


class _InstanceNorm:
    """The forward of an instance norm; an input without a batch gets one for the call."""

    def _apply_instance_norm(self: Any, input: torch.Tensor) -> torch.Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """`torch.nn.InstanceNorm1d`."""


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """`torch.nn.InstanceNorm2d`."""


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """`torch.nn.InstanceNorm3d`."""


# --- Losses ---------------------------------------------------------------------------------------


class MSELoss(nn.MSELoss):
    """`torch.nn.MSELoss`."""

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """(x - target)²."""
        return F.mse_loss(input, target, self.reduction)


class HuberLoss(nn.HuberLoss):
    """`torch.nn.HuberLoss`."""

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A square near the target, a line beyond `delta`."""
        return F.huber_loss(input, target, self.reduction, self.delta)


class SmoothL1Loss(nn.SmoothL1Loss):
    """`torch.nn.SmoothL1Loss`."""

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A square near the target, a line beyond `beta`."""
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)


class BCEWithLogitsLoss(nn.BCEWithLogitsLoss):
    """`torch.nn.BCEWithLogitsLoss`."""

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """softplus(x) - x · target."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, self.reduction, self.pos_weight
        )


class KLDivLoss(nn.KLDivLoss):
    """`torch.nn.KLDivLoss`."""

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """target · (log(target) - x)."""
        return F.kl_div(input, target, self.reduction, self.log_target)
