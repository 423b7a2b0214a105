"""PyTorch's own operator database: its sample inputs of every activation, value and gradient."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db

import fastgrad
from fastgrad.functional import _activations, _clipped, _rectifiers, _sigmoids

NAMES = sorted(
    name
    for module in (_activations, _clipped, _rectifiers, _sigmoids)
    for name in module.__all__
    if not name.endswith("_grad")
)
#: What PyTorch has no operator of, or none of that name.
ELSEWHERE = {"swish": "silu", "quick_gelu": None, "squared_relu": None}
DATABASE = {
    info.name.removeprefix("nn.functional."): info
    for info in op_db
    if not info.variant_test_name and info.name.removeprefix("nn.functional.") in NAMES
}
#: Of the larger of 1 and the value: PyTorch's own kernels are some ULP off, a 16-bit one rounds once.
TOLERANCE = {"float16": 5e-4, "bfloat16": 4e-3, "float32": 2e-6, "float64": 1e-14}

_NAN_SLOPE = {("slope", "nan")}
_INFINITE_SLOPES = {("slope", "-inf"), ("slope", "inf")}
#: Where PyTorch 2.13 has another value than the limit, or loses a NaN: what is asked of it, and at which x.
WRONG = {
    # A comparison sends NaN to a branch whose slope is a constant.
    **dict.fromkeys(("relu", "relu6", "leaky_relu", "prelu", "elu", "selu", "celu"), _NAN_SLOPE),
    **dict.fromkeys(("hardtanh", "hardsigmoid", "hardshrink", "softshrink"), _NAN_SLOPE),
    # -inf·0, and ±inf·0 in the slope.
    "hardswish": _NAN_SLOPE | {("value", "-inf")},
    "silu": _INFINITE_SLOPES | {("value", "-inf")},
    "gelu": _INFINITE_SLOPES | {("value", "-inf"), ("value", "inf")},
    "mish": _INFINITE_SLOPES | {("value", "-inf")},
    # inf / inf.
    "softsign": _INFINITE_SLOPES | {("value", "-inf"), ("value", "inf")},
}


def tolerance(name: str, dtype: str) -> float:
    """PyTorch's slope of hardsigmoid in float64 is 1/6 rounded to float32."""
    return 1e-8 if (name, dtype) == ("hardsigmoid", "float64") else TOLERANCE[dtype]


def test_every_activation_that_pytorch_has_is_here():
    assert set(NAMES) - set(DATABASE) == set(ELSEWHERE)


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    array = tensor.detach()
    if array.dtype == torch.bfloat16:
        return array.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return array.numpy()


def samples(name: str, dtype: torch.dtype):
    """(input, further arguments, their names): those with one dtype and real arguments."""
    for sample in DATABASE[name].sample_inputs("cpu", dtype, requires_grad=False):
        keywords = dict(sample.kwargs)
        keywords.pop("inplace", None)
        yield sample.input, tuple(sample.args), keywords


def own(value):
    return as_numpy(value) if isinstance(value, torch.Tensor) else value


def compare(got, expected: torch.Tensor, allowed: float) -> None:
    exact = expected.detach().to(torch.float64).numpy()
    assert np.shape(got) == exact.shape
    error = np.abs(np.asarray(got).astype(np.float64) - exact)
    assert np.all(error <= allowed * np.maximum(np.abs(exact), 1))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", DATABASE)
def test_samples(name, dtype):
    """In 16 bits PyTorch runs in float32: what it rounds in between is none of our business."""
    operator, kind = getattr(fastgrad, name), getattr(torch, dtype)
    peer = getattr(F, name, None) or getattr(torch, name)
    work = torch.float64 if dtype == "float64" else torch.float32
    allowed, count = tolerance(name, dtype), 0
    for x, arguments, keywords in samples(name, kind):
        count += 1
        wide = x.to(work).clone().requires_grad_()
        given = [
            value.to(work).clone().requires_grad_() if isinstance(value, torch.Tensor) else value
            for value in arguments
        ]
        named = {
            key: value.to(work).clone().requires_grad_()
            if isinstance(value, torch.Tensor)
            else value
            for key, value in keywords.items()
        }
        y = peer(wide, *given, **named)
        dy = torch.testing.make_tensor(x.shape, dtype=kind, device="cpu", low=-1, high=1)
        weights = [value for value in (*given, *named.values()) if isinstance(value, torch.Tensor)]
        gradients = torch.autograd.grad(y, [wide, *weights], dy.to(work))
        own_given = [own(value) for value in arguments]
        own_named = {key: own(value) for key, value in keywords.items()}
        compare(operator(as_numpy(x), *own_given, **own_named), y, allowed)
        gradient = getattr(fastgrad, f"{name}_grad")
        got = gradient(as_numpy(dy), as_numpy(x), *own_given, **own_named)
        compare(got[0] if isinstance(got, tuple) else got, gradients[0], allowed)
        for weight, dweight in zip(weights, gradients[1:], strict=True):
            assert got[1].dtype == as_numpy(x).dtype
            size = max(1.0, float((dy.to(work) * wide.detach()).abs().sum()) / weight.numel())
            compare(got[1] / size, dweight / size, allowed)
    assert count


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", DATABASE)
def test_special_values(name, dtype):
    """Where PyTorch is not what the maths says, it is stated in `WRONG`, and still so."""
    operator, kind = getattr(fastgrad, name), getattr(torch, dtype)
    peer = getattr(F, name, None) or getattr(torch, name)
    values = [-np.inf, -6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, np.inf, np.nan]
    x = torch.tensor(values * 5, dtype=kind, requires_grad=True)
    extra = (torch.tensor([0.25], dtype=kind),) if name == "prelu" else ()
    y = peer(x, *extra)
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(x))
    own_y = operator(as_numpy(x))
    own_dx = operator.grad(np.ones_like(own_y), as_numpy(x), wrt="x")[0]
    found = set()
    for what, got, expected in (("value", own_y, y), ("slope", own_dx, dx)):
        got, exact = got.astype(np.float64), expected.detach().to(torch.float64).numpy()
        with np.errstate(invalid="ignore"):
            close = np.abs(got - exact) <= 10 * tolerance(name, dtype) * np.maximum(
                np.abs(exact), 1
            )
        same = close | (got == exact) | (np.isnan(got) & np.isnan(exact))
        found |= {(what, repr(values[i % len(values)])) for i in np.flatnonzero(~same)}
    assert found <= WRONG.get(name, set()), found
