"""Group norm, a residual and ReLU in one: beside the operators one by one."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad
from checking import BLOCK_SIZES, THREADS, settings
from rounding import DTYPES, as_float64

SHAPES = {"NCHW": (3, 32, 5, 7), "NHWC": (3, 5, 7, 32)}
#: Of the largest gradient: float32's sums, 16-bit's one rounding.
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14}


def operands(dtype, data_format, seed=0):
    rng = np.random.default_rng(seed)
    shape = SHAPES[data_format]
    arrays = [rng.normal(size=shape).astype(dtype) for _ in range(3)]
    gamma, beta = rng.normal(size=32), rng.normal(size=32)
    return *arrays, gamma.astype(np.float32), beta.astype(np.float32)


def near(got, expected, dtype, data_format):
    scale = np.abs(as_float64(expected)).max()
    tolerance = TOLERANCE.get(dtype, 2.0 ** (-7 if dtype not in (np.float16,) else -10))
    np.testing.assert_allclose(
        as_float64(got), as_float64(expected), rtol=0, atol=tolerance * scale
    )


@pytest.mark.parametrize("data_format", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_norm_and_relu(dtype, data_format):
    x, dy, _, gamma, beta = operands(dtype, data_format)
    arguments = {"data_format": data_format}
    y, mean, rstd = fastgrad.group_norm_relu(x, 4, gamma, beta, return_stats=True, **arguments)
    z = fastgrad.group_norm(x, 4, gamma, beta, **arguments)
    np.testing.assert_array_equal(as_float64(y), np.maximum(as_float64(z), 0))
    below = np.where(as_float64(z) > 0, dy, np.zeros_like(dy))
    statistics = {"mean": mean, "rstd": rstd}
    expected = fastgrad.group_norm_grad(below, x, 4, gamma, **statistics, **arguments)
    for given in (statistics, {}):
        found = fastgrad.group_norm_relu_grad(dy, x, 4, gamma, beta, **given, **arguments)
        for got, own in zip(found, expected, strict=True):
            near(got, own, dtype, data_format)


@pytest.mark.parametrize("data_format", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_norm_residual_and_relu(dtype, data_format):
    x, dy, residual, gamma, beta = operands(dtype, data_format)
    arguments = {"data_format": data_format}
    y, mean, rstd = fastgrad.group_norm_add_relu(
        x, residual, 4, gamma, beta, return_stats=True, **arguments
    )
    # Nothing is rounded between the two: in 16-bit the sum is that of the float32 values.
    wide = np.float32 if np.dtype(dtype).itemsize == 2 else dtype
    z = fastgrad.group_norm(x.astype(wide), 4, gamma, beta, **arguments) + residual.astype(wide)
    near(y, np.maximum(z, 0).astype(dtype), dtype, data_format)
    below = np.where(as_float64(y) > 0, dy, np.zeros_like(dy))
    found = fastgrad.group_norm_add_relu_grad(
        dy, x, residual, 4, gamma, beta, mean=mean, rstd=rstd, **arguments
    )
    dx, dgamma, dbeta = fastgrad.group_norm_grad(below, x, 4, gamma, mean, rstd, **arguments)
    for got, own in zip(found, (dx, below, dgamma, dbeta), strict=True):
        near(got, own, dtype, data_format)


@pytest.mark.parametrize("data_format", SHAPES)
def test_bits_depend_on_neither_threads_nor_block_size(data_format):
    x, dy, residual, gamma, beta = operands(np.float32, data_format)
    found = set()
    for threads in THREADS:
        for block_size in BLOCK_SIZES:
            with settings(threads, block_size):
                arguments = (x, residual, 4, gamma, beta)
                y = fastgrad.group_norm_add_relu(*arguments, data_format=data_format)
                gradients = fastgrad.group_norm_add_relu_grad(
                    dy, *arguments, data_format=data_format
                )
                found.add(b"".join(own.tobytes() for own in (y, *gradients)))
    assert len(found) == 1


def test_in_place_and_without_parameters():
    x, dy, residual, _, _ = operands(np.float32, "NCHW")
    y = fastgrad.group_norm_add_relu(x, residual, 4)
    work = x.copy()
    assert fastgrad.group_norm_add_relu(work, residual, 4, out=work) is work
    np.testing.assert_array_equal(work, y)
    dx, dresidual, dgamma, dbeta = fastgrad.group_norm_add_relu_grad(dy, x, residual, 4)
    assert dgamma is None and dbeta is None
    out = (dy.copy(), np.empty_like(x))
    own = fastgrad.group_norm_add_relu_grad(out[0], x, residual, 4, out=out)
    np.testing.assert_array_equal(own[0], dx)
    np.testing.assert_array_equal(own[1], dresidual)


def test_a_nan_reaches_its_group_alone_and_the_kink_has_slope_0():
    x = np.zeros((1, 4, 3), np.float32)
    x[0, 0, 0] = np.nan
    y = fastgrad.group_norm_relu(x, 2)
    assert np.isnan(y[0, :2]).all()
    assert (y[0, 2:] == 0).all()
    one = np.ones_like(x)
    _, dresidual, _, _ = fastgrad.group_norm_add_relu_grad(one, np.zeros_like(x), 0 * one, 2)
    assert (dresidual == 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: fastgrad.group_norm_relu(x, 3), "num_groups must divide"),
        (lambda x: fastgrad.group_norm_relu(x, 2, eps=-1.0), "eps must be"),
        (lambda x: fastgrad.group_norm_add_relu(x, x[:, :2], 2), "residual must have the shape"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.ones((2, 4, 3), np.float32))
