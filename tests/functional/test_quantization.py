"""fake_quantize: values and gradients against plain float64, beside PyTorch, one scale a channel."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fastgrad
from checking import BLOCK_SIZES, THREADS, layouts, same_bits, settings
from rounding import DTYPES, as_float64, error_in_ulp


def reference(x, scale, zero_point, low, high):
    """The value, the slope of x and the slope of scale."""
    ratio = x / scale
    q = np.rint(ratio) + zero_point
    inside = (q >= low) & (q <= high)
    slope = np.where(q < low, low - zero_point, high - zero_point)
    value = (np.clip(q, low, high) - zero_point) * scale
    return value, inside.astype(float), np.where(inside, np.rint(ratio) - ratio, slope)


RANGES = {"int8": (0.25, 3.0, -128.0, 127.0), "uint4": (0.5, 0.0, 0.0, 15.0)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RANGES)
def test_values_and_gradients(name, dtype):
    """Scales are powers of two, so that x / scale is exact in every precision."""
    rng = np.random.default_rng(0)
    x = (rng.normal(0, 1, (40, 50)) * 10.0 ** rng.uniform(-2, 2, (40, 50))).astype(dtype)
    dy = rng.normal(size=x.shape).astype(dtype)
    value, dx, dscale = reference(as_float64(x), *RANGES[name])
    assert error_in_ulp(fastgrad.fake_quantize(x, *RANGES[name]), value, dtype).max() <= 0.5
    got_dx, got_dscale = fastgrad.fake_quantize_grad(dy, x, *RANGES[name], scale_grad=True)
    np.testing.assert_array_equal(as_float64(got_dx), as_float64(dy) * dx)
    assert same_bits(got_dx, fastgrad.fake_quantize_grad(dy, x, *RANGES[name]))
    terms = as_float64(dy) * dscale
    assert type(got_dscale) is float
    assert abs(got_dscale - terms.sum()) <= 1e-6 * np.abs(terms).sum()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_scale_a_channel(axis):
    rng = np.random.default_rng(1)
    x, dy = rng.normal(0, 2, (2, 6, 5, 7))
    shape = [1, 1, 1]
    shape[axis] = x.shape[axis]
    scale = rng.uniform(0.1, 0.5, x.shape[axis])
    zero_point = rng.integers(-3, 4, x.shape[axis]).astype(float)
    wide = scale.reshape(shape), zero_point.reshape(shape)
    value, slope, dscale = reference(x, *wide, -4, 5)
    got = fastgrad.fake_quantize(x, scale, zero_point, -4, 5, axis=axis)
    np.testing.assert_allclose(got, value, rtol=1e-14)
    dx, got_dscale, dzero_point = fastgrad.fake_quantize.grad(
        dy, x, scale, zero_point, -4, 5, axis=axis, wrt=("x", "scale", "zero_point")
    )
    others = tuple(i for i in range(3) if i != axis % 3)
    np.testing.assert_array_equal(dx, dy * slope)
    np.testing.assert_allclose(got_dscale, (dy * dscale).sum(others), rtol=1e-11)
    np.testing.assert_allclose(
        dzero_point, (dy * -wide[0] * (1 - slope)).sum(others), rtol=1e-11, atol=1e-15
    )


def test_pytorch():
    """With scales that are powers of two; PyTorch multiplies with 1 / scale."""
    x = torch.randn(300, dtype=torch.float32, generator=torch.Generator().manual_seed(0)) * 20
    expected = torch.fake_quantize_per_tensor_affine(x, 0.125, 3, -128, 127)
    np.testing.assert_array_equal(fastgrad.fake_quantize(x.numpy(), 0.125, 3, -128, 127), expected)
    x = x.reshape(20, 15)
    scale = torch.tensor([2.0**k for k in range(-10, 5)])
    zero_point = torch.arange(15, dtype=torch.int32) - 7
    expected = torch.fake_quantize_per_channel_affine(x, scale, zero_point, 1, -128, 127)
    got = fastgrad.fake_quantize(
        x.numpy(), scale.numpy(), zero_point.numpy().astype(np.float32), -128, 127, axis=1
    )
    np.testing.assert_array_equal(got, expected)
    dy = np.ones((20, 15), np.float32)
    x.requires_grad_()
    y = torch.fake_quantize_per_channel_affine(x, scale, zero_point, 1, -128, 127)
    (dx,) = torch.autograd.grad(y, x, torch.tensor(dy))
    got = fastgrad.fake_quantize_grad(
        dy, x.detach().numpy(), scale.numpy(), zero_point.numpy().astype(np.float32), axis=1
    )
    np.testing.assert_array_equal(got, dx)


def test_learned_step_size_is_pytorchs():
    """The gradient of the scale beside PyTorch's own learnable operator."""
    rng = np.random.default_rng(2)
    x, dy = rng.normal(0, 3, (2, 400)).astype(np.float32)
    tensors = [torch.tensor(value, requires_grad=True) for value in (x, np.float32([0.25]))]
    y = torch._fake_quantize_learnable_per_tensor_affine(
        tensors[0], tensors[1], torch.zeros(1), -8, 7, 1.0
    )
    dx, dscale = torch.autograd.grad(y, tensors, torch.tensor(dy))
    got_dx, got_dscale = fastgrad.fake_quantize_grad(dy, x, 0.25, 0.0, -8.0, 7.0, scale_grad=True)
    np.testing.assert_array_equal(got_dx, dx)
    np.testing.assert_allclose(got_dscale, dscale.item(), rtol=1e-5)


def test_halves_go_to_the_even_integer():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    assert fastgrad.fake_quantize(x, 1.0).tolist() == [-2, -2, 0, 0, 2, 2]


def test_special_values():
    x = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)
    np.testing.assert_array_equal(fastgrad.fake_quantize(x, 0.5), [63.5, -64, np.nan, 0])
    dx = fastgrad.fake_quantize_grad(np.ones_like(x), x, 0.5)
    np.testing.assert_array_equal(dx, [0, 0, np.nan, 1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_same_bits_for_everything_that_must_not_matter(dtype):
    rng = np.random.default_rng(3)
    x = rng.normal(0, 2, (3, 5, 43)).astype(dtype)
    dy = rng.normal(size=x.shape).astype(dtype)
    scale = np.linspace(0.1, 0.5, 5, dtype=np.float32)

    def run(dy, x):
        y = fastgrad.fake_quantize(x, scale, axis=1)
        return [y, *fastgrad.fake_quantize_grad(dy, x, scale, axis=1, scale_grad=True)]

    expected = run(dy, x)
    for name in layouts(x):
        for got, right in zip(run(layouts(dy)[name], layouts(x)[name]), expected, strict=True):
            assert same_bits(got, right), name
    x, dy = np.tile(x, (60, 1, 9)), np.tile(dy, (60, 1, 9))
    expected = run(dy, x)
    for threads in THREADS:
        for block_size in BLOCK_SIZES:
            with settings(threads, block_size):
                for got, right in zip(run(dy, x), expected, strict=True):
                    assert same_bits(got, right), (threads, block_size)


def test_bad_parameters():
    x = np.ones(3)
    with pytest.raises(ValueError, match=r"scale of fake_quantize must be above 0"):
        fastgrad.fake_quantize(x, 0.0)
    with pytest.raises(ValueError, match=r"got scale=1.0, quant_min=3.0, quant_max=-3.0"):
        fastgrad.fake_quantize(x, 1.0, 0.0, 3.0, -3.0)
    with pytest.raises(ValueError, match=r"scale must have one element a channel, 3 along axis 0"):
        fastgrad.fake_quantize(x, np.ones(2), axis=0)
    with pytest.raises(ValueError, match=r"scale of fake_quantize must be above 0"):
        fastgrad.fake_quantize(x, np.array([1.0, -1.0, 1.0]), axis=0)
