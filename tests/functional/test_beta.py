"""Swish's slope: one a channel, and its gradient, the same bits for everything that must not matter."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad
import references as ref
from checking import BLOCK_SIZES, THREADS, layouts, same_bits, settings
from rounding import DTYPES, error_in_ulp


def arrays(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, shape).astype(dtype), rng.normal(0, 3, shape).astype(dtype)


def exact_dbeta(dy, x, beta, axis):
    dy, x = dy.astype(np.float64), x.astype(np.float64)
    shape = [1] * x.ndim
    shape[axis] = -1
    terms = dy * ref.swish_beta_slope(x, np.asarray(beta, np.float64).reshape(shape))
    others = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    return terms.sum(others), np.abs(terms).sum(others)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((2, 5, 7, 9), 1),
        ((2, 7, 9, 5), -1),
        ((6,), 0),
        ((3000, 3), 1),
        ((3, 3000), 0),
        ((70000, 2), 1),
    ],
)
def test_one_beta_a_channel(dtype, shape, axis):
    dy, x = arrays(shape, dtype)
    beta = np.linspace(0.5, 1.5, shape[axis], dtype=np.float32)
    spread = np.moveaxis(np.broadcast_to(beta, (*np.delete(shape, axis), shape[axis])), -1, axis)
    exact_x = x.astype(np.float64)
    allowed = 1 if np.dtype(dtype).itemsize == 2 else 60
    y = fastgrad.swish(x, beta, axis=axis)
    assert error_in_ulp(y, ref.swish(exact_x, spread), dtype).max() <= allowed
    dx, dbeta = fastgrad.swish_grad(dy, x, beta, axis=axis, beta_grad=True)
    assert same_bits(dx, fastgrad.swish_grad(dy, x, beta, axis=axis))
    exact, size = exact_dbeta(dy, x, beta, axis)
    assert dbeta.dtype == np.float32
    assert dbeta.shape == beta.shape
    assert (np.abs(dbeta - exact) <= 1e-6 * size).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_beta_gradient_has_the_kind_of_beta(dtype):
    dy, x = arrays((3, 4), dtype)
    for beta in (1.5, 2, np.float64(1.5)):
        dbeta = fastgrad.swish_grad(dy, x, beta, beta_grad=True)[1]
        assert type(dbeta) is (np.float64 if isinstance(beta, np.float64) else float)
    dbeta = fastgrad.swish_grad(dy, x, np.float32(1.5), beta_grad=True)[1]
    assert type(dbeta) is np.float32
    dbeta = fastgrad.swish_grad(dy, x, np.array(1.5, np.float32), beta_grad=True)[1]
    assert dbeta.dtype == np.float32
    assert dbeta.shape == ()
    dbeta = fastgrad.swish_grad(dy, x, np.array([1.5], np.float32), beta_grad=True)[1]
    assert dbeta.shape == (1,)
    exact, size = exact_dbeta(dy.ravel(), x.ravel(), [1.5] * 12, 0)
    assert abs(float(dbeta[0]) - exact.sum()) <= 1e-6 * size.sum()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_sums_do_not_depend_on_layout_threads_or_blocks(dtype):
    dy, x = arrays((7, 11, 1999), dtype)
    beta = np.linspace(0.5, 1.5, 11, dtype=np.float32)
    for own_beta, axis in ((1.25, None), (beta, 1)):
        dx, dbeta = fastgrad.swish_grad(dy, x, own_beta, axis=axis, beta_grad=True)
        for threads in THREADS:
            for block_size in BLOCK_SIZES:
                with settings(threads, block_size):
                    got = fastgrad.swish_grad(dy, x, own_beta, axis=axis, beta_grad=True)
                assert same_bits(got[0], dx)
                assert np.array_equal(got[1], dbeta), (threads, block_size)
        for name, own_x in layouts(x).items():
            for other, own_dy in layouts(dy).items():
                got = fastgrad.swish_grad(own_dy, own_x, own_beta, axis=axis, beta_grad=True)
                assert same_bits(got[0], dx), (name, other)
                assert np.array_equal(got[1], dbeta), (name, other)


def test_only_the_gradient_of_beta():
    dy, x = arrays((5, 6), np.float32)
    (dbeta,) = fastgrad.swish.grad(dy, x, 1.5, wrt="beta")
    assert dbeta == fastgrad.swish_grad(dy, x, 1.5, beta_grad=True)[1]
    assert fastgrad.swish.grad(dy, x, 1.5)[1] == dbeta
    assert fastgrad.swish.grad(dy, x, 1.5, wrt=("beta", "x"))[0] == dbeta


def test_empty_arrays():
    empty = np.zeros((0, 4), np.float32)
    dx, dbeta = fastgrad.swish_grad(empty, empty, np.ones(4, np.float32), axis=1, beta_grad=True)
    assert dx.shape == (0, 4)
    assert np.array_equal(dbeta, np.zeros(4))
    assert fastgrad.swish_grad(empty, empty, beta_grad=True)[1] == 0.0


def test_vjp():
    dy, x = arrays((5, 6), np.float32)
    y, pullback = fastgrad.vjp(fastgrad.gelu, x, "tanh")
    assert same_bits(y, fastgrad.gelu(x, "tanh"))
    (dx,) = pullback(dy)
    assert same_bits(dx, fastgrad.gelu_grad(dy, x, "tanh"))
    assert pullback.kept == (x,) or pullback.kept[0] is x
    beta = np.ones(6, np.float32)
    _, pullback = fastgrad.vjp(fastgrad.swish, x, beta, axis=1)
    dx, dbeta = pullback(dy)
    assert dbeta.shape == (6,)
    assert len(fastgrad.vjp(fastgrad.swish, x, 1.5)[1](dy)) == 1
    with pytest.raises(TypeError, match="vjp takes an operator"):
        fastgrad.vjp(np.exp, x)
