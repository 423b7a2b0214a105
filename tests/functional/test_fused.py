"""An addition and an activation in one pass, by the one helper; the gradient of a bias."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastgrad
import references as ref
from checking import same_bits, settings
from pair_checking import PairCase, check_pair


def _of_sum(value, terms):
    """Reference of f(x + bias); the error of the sum, half a unit of the larger one, passes through."""

    def slopes(x, bias):
        slope, size = sum(terms(x + bias)), sum(map(np.abs, terms(x + bias)))
        own = slope, size + np.abs(x) + np.abs(bias)
        return own, own

    return lambda x, bias: value(x + bias), slopes


def _scale(x, bias):
    return np.abs(x) + np.abs(bias)


def _relu(x):
    return np.maximum(x, 0)


CASES = {
    "add_gelu": PairCase(fastgrad.add_gelu, *_of_sum(ref.gelu, ref.gelu_terms), scale=_scale),
    "add_gelu-tanh": PairCase(
        fastgrad.add_gelu,
        *_of_sum(ref.gelu_tanh, ref.gelu_tanh_terms),
        arguments={"approximate": "tanh"},
        scale=_scale,
    ),
    "add_swish": PairCase(fastgrad.add_swish, *_of_sum(ref.swish, ref.swish_terms), scale=_scale),
    "add_relu": PairCase(
        fastgrad.add_relu, *_of_sum(_relu, lambda x: [np.where(x > 0, 1.0, 0.0)]), scale=_scale
    ),
}
GRADIENTS = {
    "add_gelu": fastgrad.add_gelu_grad,
    "add_swish": fastgrad.add_swish_grad,
    "add_relu": fastgrad.add_relu_grad,
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name):
    check_pair(CASES[name])


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_gradient_of_a_bias_is_a_sum_in_float64(name):
    """B63: 10,007 rows of 3, the same bits for any number of threads, near the exact sum."""
    rng = np.random.default_rng(0)
    x, dy = rng.uniform(-1, 1, (2, 10007, 3)).astype(np.float32)
    bias = rng.uniform(-1, 1, 3).astype(np.float32)
    dx, dbias = GRADIENTS[name](dy, x, bias)
    exact = [math.fsum(column) for column in dx.T.astype(np.float64)]
    sizes = np.abs(dx).astype(np.float64).sum(0)
    assert (np.abs(dbias - exact) <= 1e-6 * sizes).all()
    for threads in (1, 2, 3, 8):
        with settings(threads, fastgrad.BLOCK_SIZE):
            for _ in range(5):
                again = GRADIENTS[name](dy, x, bias)
                assert same_bits(again[1], dbias) and same_bits(again[0], dx)
    first = GRADIENTS[name](dy[:1], x[:1], bias)[0]
    assert same_bits(first, dx[:1])


def test_a_residual_of_full_shape():
    x, y = np.random.default_rng(0).normal(size=(2, 50, 60))
    dy = np.ones_like(x)
    np.testing.assert_allclose(fastgrad.add_swish(x, y), ref.swish(x + y), rtol=1e-13)
    dx, dbias = fastgrad.add_swish_grad(dy, x, y)
    assert same_bits(dx, dbias) and not np.shares_memory(dx, dbias)


def test_add_swish_has_a_trainable_slope():
    x, bias, dy = np.random.default_rng(0).normal(size=(3, 20, 20))
    (dbeta,) = fastgrad.add_swish.grad(dy, x, bias[0], 1.5, wrt="beta")
    z = x + bias[0]
    np.testing.assert_allclose(dbeta, (dy * ref.swish_beta_slope(z, 1.5)).sum(), rtol=1e-12)
    beta = np.linspace(0.5, 2, 20)
    (dbeta,) = fastgrad.add_swish.grad(dy, x, bias[0], beta, axis=1, wrt="beta")
    np.testing.assert_allclose(dbeta, (dy * ref.swish_beta_slope(z, beta)).sum(0), rtol=1e-12)


def test_nan_stays_where_it_is_but_for_sums():
    x = np.zeros((3, 4), np.float32)
    x[1, 2] = np.nan
    bias = np.ones(4, np.float32)
    for name, gradient in GRADIENTS.items():
        assert np.isnan(getattr(fastgrad, name)(x, bias)).sum() == 1, name
        dx, dbias = gradient(np.ones_like(x), x, bias)
        assert np.isnan(dx).sum() <= 1, name
        assert np.isnan(dbias).tolist() == [False, False, bool(np.isnan(dx).any()), False]


def test_warmup_compiles_the_usual_call():
    listed = fastgrad.add_gelu.specialisations(everything=False)
    assert [own.channels for own in listed] == [("bias",)] * len(listed)


def test_bad_bias():
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match=r"got shapes x \(2, 3\), bias \(2,\)"):
        fastgrad.add_gelu(x, np.ones(2))
    with pytest.raises(ValueError, match="approximate must be one of"):
        fastgrad.add_gelu(x, np.ones(3), "erf")
