"""PyTorch's own operator database: its samples through the functions of `fastgrad.torch`."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import fastgrad.torch as ft

NAMES = [
    "batch_norm", "binary_cross_entropy_with_logits", "celu", "elu", "gelu", "glu", "group_norm",
    "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "instance_norm", "kl_div",
    "layer_norm", "leaky_relu", "logsigmoid", "mish", "mse_loss", "prelu", "relu", "relu6", "rms_norm",
    "selu", "silu", "smooth_l1_loss", "softplus", "softshrink", "softsign", "tanhshrink",
]  # fmt: skip
DATABASE = {
    info.name.removeprefix("nn.functional."): info for info in op_db if not info.variant_test_name
}


def test_the_database_has_them_all():
    assert set(NAMES) <= set(DATABASE)


def differentiable(tensors):
    return [t for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]


def leaf(value, dtype):
    if not isinstance(value, torch.Tensor):
        return value
    own = value.detach().clone()
    return (own.to(dtype) if own.is_floating_point() else own).requires_grad_(value.requires_grad)


def outcome(function, sample, dtype):
    """Value and gradients, or what is raised."""
    copied = [
        [leaf(value, dtype) for value in group]
        for group in ([sample.input, *sample.args], sample.kwargs.values())
    ]
    keywords = dict(zip(sample.kwargs, copied[1], strict=True))
    keywords = {k: v for k, v in keywords.items() if k not in ("size_average", "reduce")}
    y = function(*copied[0], **keywords)
    leaves = differentiable([*copied[0], *keywords.values()])
    if not y.requires_grad or not leaves:
        return y.detach(), []
    dy = torch.linspace(-1, 1, max(y.numel(), 1), dtype=y.dtype)[: y.numel()].reshape(y.shape)
    return y.detach(), list(torch.autograd.grad(y, leaves, dy, allow_unused=True))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_samples(name, dtype):
    info, own = DATABASE[name], getattr(ft, name)
    count = 0
    for sample in info.sample_inputs("cpu", dtype, requires_grad=True):
        if sample.kwargs.get("size_average") is not None or sample.kwargs.get("reduce") is not None:
            continue  # PyTorch has deprecated them
        if sample.kwargs.get("eps", 0) < 0:
            with pytest.raises(ValueError, match="eps must be a number of at least 0"):
                outcome(own, sample, dtype)
            continue  # a root of what may be negative
        y, gradients = outcome(own, sample, dtype)
        stock, expected = outcome(info.op, sample, torch.float64)
        close(y, stock, name)
        for a, b in zip(gradients, expected, strict=True):
            if b is not None:
                close(a, b, name)
        count += 1
    assert count


def close(a, b, name):
    # PyTorch's slope of hardsigmoid in float64 is 1/6 rounded to float32.
    tolerance = 1e-5 if a.dtype is torch.float32 else 1e-7 if name == "hardsigmoid" else 1e-9
    torch.testing.assert_close(a.double(), b, atol=tolerance, rtol=tolerance, equal_nan=True)
