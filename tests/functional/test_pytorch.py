"""Agreement with PyTorch on the CPU; the articles ask for an error below 1e-3 in float16."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F

import fastgrad

TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-6, "float64": 1e-14}
#: Arguments that PyTorch's operator database has no sample of.
ARGUMENTS = {
    "leaky_relu": {"negative_slope": 0.25},
    "elu": {"alpha": 1.75},
    "celu": {"alpha": 0.5},
    "softplus": {"beta": 2.0, "threshold": 3.0},
    "hardtanh": {"min_val": -2.0, "max_val": 0.5},
    "hardshrink": {"lambd": 1.5},
    "softshrink": {"lambd": 1.25},
}


def _with_arguments():
    """Of each its forward, PyTorch's, and the arguments, which have the same names."""
    return {
        name: (
            functools.partial(getattr(fastgrad, name), **arguments),
            functools.partial(getattr(F, name), **arguments),
            arguments,
        )
        for name, arguments in ARGUMENTS.items()
    }


OPERATORS = {
    "silu": (fastgrad.silu, F.silu, {}),
    "swish": (
        lambda x: fastgrad.swish(x, 1.5),
        lambda x: x * torch.sigmoid(1.5 * x),
        {"beta": 1.5},
    ),
    "gelu": (fastgrad.gelu, F.gelu, {}),
    "gelu-tanh": (
        lambda x: fastgrad.gelu(x, "tanh"),
        lambda x: F.gelu(x, approximate="tanh"),
        {"approximate": "tanh"},
    ),
    **_with_arguments(),
    "mish": (fastgrad.mish, torch.nn.functional.mish, {}),
    "quick_gelu": (fastgrad.quick_gelu, lambda x: x * torch.sigmoid(1.702 * x), {}),
    "squared_relu": (fastgrad.squared_relu, lambda x: F.relu(x) ** 2, {}),
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", OPERATORS)
def test_agrees_with_pytorch(name, dtype):
    forward, peer, arguments = OPERATORS[name]
    rng = np.random.default_rng(0)
    own = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = rng.uniform(-8, 8, (4, 16, 9, 7)).astype(np.float32).astype(own)
    dy = rng.uniform(-1, 1, x.shape).astype(np.float32).astype(own)
    # Composed in float32 where PyTorch composes: its own rounding is none of our business.
    work = torch.float64 if dtype == "float64" else torch.float32
    tensor = torch.tensor(x.astype(np.float64), dtype=work, requires_grad=True)
    y = peer(tensor)
    y.backward(torch.tensor(dy.astype(np.float64), dtype=work))
    assert tensor.grad is not None
    operator = getattr(fastgrad, name.partition("-")[0])
    (dx,) = operator.grad(dy, x, wrt="x", **arguments)
    for got, expected in ((forward(x), y.detach()), (dx, tensor.grad)):
        error = np.abs(got.astype(np.float64) - expected.to(torch.float64).numpy())
        scale = np.maximum(np.abs(expected.to(torch.float64).numpy()), 1)
        assert (error / scale).max() < TOLERANCE[dtype]
