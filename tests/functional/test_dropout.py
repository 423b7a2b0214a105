"""Dropout: the same mask in every layout, precision and number of threads; Philox by its known answers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fastgrad
from checking import BLOCK_SIZES, THREADS, layouts, same_bits, settings
from fastgrad import maths as m
from rounding import DTYPES


@fastgrad.seeded
def noise(x):
    return x * m.random()


def philox(counter: int, seed: int) -> list[int]:
    """Four words of Philox4x32-10, as the paper writes it."""
    a, b, c, d = counter & 0xFFFFFFFF, counter >> 32, 0, 0
    key_0, key_1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        product_0, product_1 = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (
            (product_1 >> 32) ^ b ^ key_0,
            product_1 & 0xFFFFFFFF,
            (product_0 >> 32) ^ d ^ key_1,
            product_0 & 0xFFFFFFFF,
        )
        key_0, key_1 = (key_0 + 0x9E3779B9) & 0xFFFFFFFF, (key_1 + 0xBB67AE85) & 0xFFFFFFFF
    return [a, b, c, d]


def random_numbers(size: int, seed: int) -> np.ndarray:
    """Groups of 64 elements: 16 counters, four words each, the first words of all first."""
    groups = [
        [philox(group * 16 + i, seed)[word] for word in range(4) for i in range(16)]
        for group in range(-(-size // 64))
    ]
    return (np.array(groups, np.uint64).reshape(-1)[:size] >> np.uint64(8)) * 2.0**-24


def test_known_answer():
    """Of the authors' Random123: counter and key 0."""
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**63 + 5, 2**64 - 1])
def test_numbers_are_philox(seed):
    got = noise(np.ones(1000), seed)
    np.testing.assert_array_equal(got, random_numbers(1000, seed))


def test_numbers_are_uniform():
    numbers = np.sort(noise(np.ones(1_000_000), 3))
    expected = np.arange(1_000_000) / 1_000_000
    assert np.abs(numbers - expected).max() < 1.95 / 1000  # Kolmogorov-Smirnov, 0.1 %
    assert numbers[0] >= 0 and numbers[-1] < 1
    a, b = noise(np.ones(100_000), 1), noise(np.ones(100_000), 2)
    for one, other in ((a, b), (a[1:], a[:-1]), (a[16:], a[:-16]), (a[64:], a[:-64])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.013


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_gradient(p, dtype):
    x = np.random.default_rng(0).normal(0, 2, (7, 300)).astype(dtype)
    dropped = (random_numbers(x.size, 11) < np.float32(p)).reshape(x.shape)
    y = fastgrad.dropout(x, p, 11)
    assert y.dtype == dtype
    with np.errstate(divide="ignore"):
        scale = np.float64(1) / (1 - np.float64(p))
    kept = (x.astype(np.float64)[~dropped] * scale).astype(dtype)
    assert (y[dropped] == 0).all()
    # 1 - p is made of p in the compute dtype.
    unit = 2.0**-23 * (1 + p / (1 - p) if p < 1 else 1) if np.dtype(dtype).itemsize > 2 else 2.0**-8
    np.testing.assert_allclose(y[~dropped].astype(float), kept.astype(float), rtol=2 * unit)
    for given in (None, x):  # 0 · -1 is -0
        dx = fastgrad.dropout_grad(x, given, p, 11)
        np.testing.assert_array_equal(dx.astype(float), y.astype(float))


def test_the_mean_stays():
    y = fastgrad.dropout(np.ones(1_000_000, np.float32), 0.25, 4)
    assert abs(y.mean() - 1) < 3e-3
    assert abs((y == 0).mean() - 0.25) < 2e-3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_same_elements_whatever_the_layout(dtype):
    x = np.random.default_rng(0).normal(0, 2, (3, 5, 43)).astype(dtype)
    y = fastgrad.dropout(x, 0.3, 9)
    for name, own in layouts(x).items():
        got = fastgrad.dropout(own, 0.3, 9)
        assert same_bits(got, y), name
        assert got.strides == np.empty_like(own, dtype=dtype).strides
        np.testing.assert_array_equal(fastgrad.dropout_grad(own, None, 0.3, 9), y)
    own = x.copy()
    assert fastgrad.dropout(own, 0.3, 9, out=own) is own
    assert same_bits(own, y)
    for n in (0, 1, 63, 64, 65):
        assert same_bits(fastgrad.dropout(x.reshape(-1)[:n], 0.3, 9), y.reshape(-1)[:n])


@pytest.mark.parametrize("size", [100_003, 9_000_001])
def test_the_same_elements_on_any_number_of_threads(size):
    """The larger one goes past the cache, in tiles that do not begin where a group does."""
    x = np.ones(size, np.float32)
    y = fastgrad.dropout(x, 0.3, 9)
    assert same_bits(y[: 1 << 16], fastgrad.dropout(x[: 1 << 16], 0.3, 9))
    for threads in THREADS:
        for block_size in BLOCK_SIZES[:: 1 if size < 1 << 20 else 2]:
            with settings(threads, block_size):
                out = np.empty(size + 3, np.float32)[3:]
                assert same_bits(fastgrad.dropout(x, 0.3, 9, out=out), y), (threads, block_size)


def test_add_dropout():
    rng = np.random.default_rng(0)
    x, residual, dy = rng.normal(size=(3, 40, 50))
    y = fastgrad.add_dropout(x, residual, 0.4, 2)
    np.testing.assert_allclose(y, residual + fastgrad.dropout(x, 0.4, 2), rtol=1e-15)
    dx, dresidual = fastgrad.add_dropout_grad(dy, x, residual, 0.4, 2)
    np.testing.assert_array_equal(dx, fastgrad.dropout_grad(dy, None, 0.4, 2))
    assert same_bits(dresidual, dy) and not np.shares_memory(dresidual, dy)
    row = residual[0]
    y = fastgrad.add_dropout(x, row, 0.4, 2)
    np.testing.assert_allclose(y, row + fastgrad.dropout(x, 0.4, 2), rtol=1e-15)
    _, drow = fastgrad.add_dropout_grad(dy, x, row, 0.4, 2)
    np.testing.assert_allclose(drow, dy.sum(0), rtol=1e-12)


def test_special_values():
    x = np.full(1000, np.nan, np.float32)
    assert np.isnan(fastgrad.dropout(x, 0.5, 1)).all()
    y = fastgrad.dropout(np.full(1000, np.inf, np.float32), 0.5, 1)
    assert set(y.tolist()) == {0.0, np.inf}
    dx = fastgrad.dropout_grad(np.ones(1000, np.float32), x, 0.5, 1)
    assert set(dx.tolist()) == {0.0, 2.0}


def test_an_operator_of_a_users_with_random_numbers():
    @fastgrad.seeded
    def jitter(x, size=0.1):
        return x * (1.0 + size * (m.random() - 0.5))

    x = np.random.default_rng(0).normal(size=500)
    numbers = random_numbers(500, 3)
    np.testing.assert_allclose(jitter(x, 0.2, seed=3), x * (1 + 0.2 * (numbers - 0.5)), rtol=1e-14)
    dx, dsize = jitter.grad(np.ones(500), x, 0.2, 3, wrt=("x", "size"))
    np.testing.assert_allclose(dx, 1 + 0.2 * (numbers - 0.5), rtol=1e-14)
    np.testing.assert_allclose(dsize, (x * (numbers - 0.5)).sum(), rtol=1e-12)


def test_random_numbers_need_a_seed():
    @fastgrad.elementwise
    def unseeded(x):
        return x * m.random()

    with pytest.raises(TypeError, match=r"make it with @fastgrad.seeded"):
        unseeded(np.ones(3))


def test_random_numbers_are_not_for_rows():
    def random_rows(x):
        return (x - m.mean(x)) * m.random()

    with pytest.raises(TypeError, match=r"random numbers are for @fastgrad.seeded"):
        fastgrad.rowwise(random_rows)


def test_vjp_and_pickle():
    x = np.random.default_rng(0).normal(size=(5, 60))
    y, pullback = fastgrad.vjp(fastgrad.dropout, x, 0.3, 7)
    (dx,) = pullback(np.ones_like(x))
    assert same_bits(dx, fastgrad.dropout_grad(np.ones_like(x), x, 0.3, 7))
    assert same_bits(y, fastgrad.dropout(x, p=0.3, seed=7))
    assert pickle.loads(pickle.dumps(fastgrad.dropout)) is fastgrad.dropout


def test_bad_arguments():
    x = np.ones(3, np.float32)
    with pytest.raises(ValueError, match=r"p must be a probability from 0 to 1, got 1.5"):
        fastgrad.dropout(x, 1.5, 0)
    with pytest.raises(ValueError, match="p must be a probability"):
        fastgrad.dropout(x, np.nan, 0)
    with pytest.raises(TypeError, match="needs a seed, its last argument"):
        fastgrad.dropout(x, 0.5)
    with pytest.raises(TypeError, match="seed must be an integer, got float"):
        fastgrad.dropout(x, 0.5, 1.0)
    with pytest.raises(ValueError, match=r"seed must be from 0 to 2\*\*64 - 1, got -1"):
        fastgrad.dropout(x, 0.5, -1)
    with pytest.raises(ValueError, match="dy must have the shape of x"):
        fastgrad.dropout_grad(x, np.ones(4, np.float32), 0.5, 1)


def test_the_mask_stays_where_a_sum_turns_the_axes():
    """A residual whose summed axes do not follow each other has a launch of its own."""
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=(2, 2, 3, 4, 5))
    for shape in ((3, 1, 5), (2, 1, 4, 1), (2, 1, 1, 5), (4, 5), (3, 1, 1)):
        residual = rng.normal(size=shape)
        dx, dresidual = fastgrad.add_dropout_grad(dy, x, residual, 0.4, 2)
        np.testing.assert_array_equal(dx, fastgrad.dropout_grad(dy, None, 0.4, 2))
        aligned = (1,) * (4 - len(shape)) + shape
        axes = tuple(axis for axis in range(4) if aligned[axis] == 1)
        expected = dy.sum(axes, keepdims=True).reshape(shape)
        np.testing.assert_allclose(dresidual, expected, rtol=1e-12)


def test_a_random_sum_in_another_order_is_refused():
    @fastgrad.seeded
    def scaled(x, y):
        return x * y * m.random()

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 4)), rng.normal(size=(4,))
    numbers = random_numbers(24, 5).reshape(x.shape)
    _, dy = scaled.grad(np.ones_like(x), x, y, 5)
    np.testing.assert_allclose(dy, (x * numbers).sum((0, 1)), rtol=1e-12)
    with pytest.raises(
        ValueError, match=r"the gradient of y is a sum over axes that do not follow"
    ):
        scaled.grad(np.ones_like(x), x, rng.normal(size=(2, 1, 4)), 5)
