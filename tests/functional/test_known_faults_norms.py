"""Inputs on which known libraries got norms wrong, by the id in tests/data/known_faults.jsonl.

Each test is named by its id; the numbers are those of the file.
"""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import fastgrad
from checking import BLOCK_SIZES, THREADS, same_bits, settings
from rounding import DTYPES, as_float64, rounded

FAULTS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/known_faults.jsonl").read_text().splitlines()
]
Y4 = [-1.34163541997, -0.447211806656, 0.447211806656, 1.34163541997]
ONE4 = np.ones(4, np.float32)
ZERO4 = np.zeros(4, np.float32)
FIRST4 = np.array([[1, 0, 0, 0]], np.float32)


def close(got, expected, rtol=1e-5, atol=0.0):
    got = as_float64(got)
    np.testing.assert_allclose(got, np.reshape(expected, got.shape), rtol=rtol, atol=atol)


def test_every_named_fault_is_in_the_file():
    named = {name.split("_")[1] for name in globals() if name.startswith("test_B")}
    assert named == {
        fault["id"]
        for fault in FAULTS
        if fault["area"].startswith("norm/") or fault["area"] == "aliasing/grad_out overwritten"
    }


@pytest.mark.parametrize("start", [40_000, 100_000])
def test_B18_large_mean(start):
    x = start + np.arange(4, dtype=np.float32)[None]
    dx = [0.268330303893, -0.357768372025, -0.089443434631, 0.178881502763]
    y, *stats = fastgrad.layer_norm(x, ONE4, ZERO4, return_stats=True)
    close(y, Y4)
    close(fastgrad.layer_norm_grad(FIRST4, x, ONE4, *stats)[0], dx)
    close(fastgrad.layer_norm_grad(FIRST4, x, ONE4)[0], dx)
    # One group of four channels, and one channel with four places.
    close(fastgrad.group_norm(x, 1, ONE4, ZERO4), Y4)
    close(fastgrad.group_norm_grad(FIRST4, x, 1, ONE4)[0], dx)
    places, dy = x.reshape(1, 1, 4), FIRST4.reshape(1, 1, 4)
    close(fastgrad.group_norm(places, 1, ONE4[:1], ZERO4[:1]), Y4)
    close(fastgrad.instance_norm(places, ONE4[:1], ZERO4[:1]), Y4)
    close(fastgrad.instance_norm_grad(dy, places, ONE4[:1])[0], dx)


def test_B19_constant_row():
    x = np.full((1, 256), 1234, np.float32)
    y = fastgrad.layer_norm(x, np.ones(256, np.float32), np.full(256, 0.25, np.float32), eps=1e-5)
    assert (y == 0.25).all()
    x = x[:, :4].copy()
    dx, dgamma, dbeta = fastgrad.layer_norm_grad(FIRST4, x, ONE4)
    close(dx, [237.170824513, -79.0569415042, -79.0569415042, -79.0569415042])
    assert not dgamma.any()
    assert np.array_equal(dbeta, FIRST4[0])


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_B20_one_element_a_group(dtype):
    x, dy = np.array([[1e6]], dtype), np.ones((1, 1), dtype)
    gamma, beta = np.array([2], dtype), np.array([3], dtype)
    y, *stats = fastgrad.layer_norm(x, gamma, beta, return_stats=True)
    assert float(y[0, 0]) == 3
    for given in (stats, ()):
        dx, dgamma, dbeta = fastgrad.layer_norm_grad(dy, x, gamma, *given)
        assert float(dgamma[0]) == 0 and float(dx[0, 0]) == 0 and float(dbeta[0]) == 1


def test_B22_float32_variance_overflow():
    x = np.array([[1e30, 2e30, 3e30, 4e30]], np.float32)
    y, *stats = fastgrad.layer_norm(x, ONE4, ZERO4, return_stats=True)
    close(y, [-1.3416408, -0.4472136, 0.4472135, 1.3416408])
    for given in (stats, ()):
        dx = fastgrad.layer_norm_grad(FIRST4, x, ONE4, *given)[0]
        close(dx, [2.6832817e-31, -3.5777087e-31, -8.944275e-32, 1.7888545e-31])
    x = np.full((1, 4), 1e25, np.float32)
    close(fastgrad.rms_norm(x, ONE4), [1, 1, 1, 1])
    dx = fastgrad.rms_norm_grad(FIRST4, x, ONE4)[0]
    close(dx, [7.5000003e-26, -2.5000001e-26, -2.5000001e-26, -2.5000001e-26])


def test_B23_half_overflow():
    """Rounded once to half: the file's nine digits lie far from every tie."""
    half = np.float16
    one, dy = ONE4.astype(half), FIRST4.astype(half)

    def exactly(got, expected):
        assert same_bits(got.reshape(-1), rounded(np.array(expected), half))

    x = np.array([[300, -600, 900, 1200]], half)
    exactly(
        fastgrad.rms_norm(x, one, return_stats=True)[0],
        [0.36514837, -0.73029674, 1.09544512, 1.46059349],
    )
    dx = fastgrad.rms_norm_grad(dy, x, one)[0]
    exactly(dx, [1.1765892e-3, 8.114408e-5, -1.2171612e-4, -1.6228817e-4])
    x = np.array([[60000, 60032, 60064, 60096]], half)
    y = fastgrad.layer_norm(x, one, 0 * one, return_stats=True)[0]
    exactly(y, [-1.34164078, -0.44721359, 0.44721359, 1.34164078])
    dx = fastgrad.layer_norm_grad(dy, x, one)[0]
    exactly(dx, [8.3852550e-3, -1.1180340e-2, -2.7950850e-3, 5.5901698e-3])


def test_B25_eps_is_the_same_for_every_dtype():
    b = 0.050048828125
    signs = np.array([[1, -1, 1, -1]])
    for eps, expected in (({"eps": 2**-23}, 0.99997621), ({}, 0.99980045)):
        for dtype in (np.float32, ml_dtypes.bfloat16):
            x = (b * signs).astype(dtype)
            assert (as_float64(np.abs(x)) == b).all()
            y = fastgrad.rms_norm(x, ONE4.astype(dtype), **eps, return_stats=True)[0]
            if dtype is np.float32:
                close(y, expected * signs, rtol=2e-8 + 6e-8)
            else:
                assert np.array_equal(as_float64(y), signs)


def test_B27_backward_cancellation():
    x = np.array([[-1.84, -1.83]], np.float32)
    one, zero = np.ones(2, np.float32), np.zeros(2, np.float32)
    y = [-0.845154024, 0.845154024]
    close(fastgrad.layer_norm(x, one, zero), y, 1e-6)
    dx, dgamma, _ = fastgrad.layer_norm_grad(np.ones_like(x), x, one)
    assert np.abs(dx).max() < 1e-2
    close(dgamma, y, 1e-6)
    dx = fastgrad.layer_norm_grad(np.array([[1, 0]], np.float32), x, one)[0]
    close(dx, [24.14731377, -24.14731377], 1e-6)
    wide = x.astype(np.float64)
    dx = fastgrad.layer_norm_grad(np.ones_like(wide), wide, np.ones(2))[0]
    assert np.abs(dx).max() < 1e-10


def test_B28_group_norm_backward_shape():
    x = np.arange(24.0).reshape(1, 4, 2, 3)
    gamma, dy = np.array([1.0, 2, 3, 4]), np.zeros((1, 4, 2, 3))
    dy[0, 0, 0, 0] = 1
    dx, dgamma, dbeta = fastgrad.group_norm_grad(dy, x, 2, gamma)
    first = [
        *(0.204263429004, -0.0742775497744, -0.0631359203469, -0.0519942909193),
        *(-0.0408526614918, -0.0297110320643, -0.0185694026367, -0.0074277732092),
        *(0.00371385621834, 0.0148554856459, 0.0259971150734, 0.0371387445009),
    ]
    close(dx[0, :2].reshape(-1), first, 1e-10)
    assert not dx[0, 2:].any()
    close(dgamma, [-1.59325434513, 0, 0, 0], 1e-10)
    assert np.array_equal(dbeta, [1, 0, 0, 0])
    # The same elements with a third spatial axis: as two items of a (1, 4, 2, 3, 2).
    deep = np.stack([x, x], axis=-1)
    dy_deep = np.zeros_like(deep)
    dy_deep[0, 0, 0, 0] = 1
    dx, dgamma, dbeta = fastgrad.group_norm_grad(dy_deep, deep, 2, gamma)
    close(dgamma, [-2 * 1.59325434513, 0, 0, 0], 1e-10)
    assert np.array_equal(dbeta, [2, 0, 0, 0]) and not dx[0, 2:].any()
    close(dx[0, :2, ..., 0].reshape(-1), first, 1e-10)
    assert np.array_equal(dx[..., 0], dx[..., 1])


@pytest.mark.parametrize("rows", [1025, 1023, 1024, 2049, 63, 64, 65, 129, 999, 1000, 1001, 2001])
def test_B30_partial_reduction_buffer(rows):
    x = np.tile(np.arange(4, dtype=np.float32), (rows, 1))
    dy = np.zeros_like(x)
    dy[-1] = 1
    for threads in THREADS:
        for block_size in BLOCK_SIZES:
            with settings(threads, block_size):
                _, dgamma, dbeta = fastgrad.layer_norm_grad(dy, x, ONE4)
            close(dgamma, Y4, 1e-6)
            assert np.array_equal(dbeta, ONE4)


def test_B32_stride_0_dy():
    x, one = np.array([[3.0, 4.0]]), np.ones(2)
    dx = [0.0452548511928, -0.0339410987966]
    close(fastgrad.rms_norm(x, one, return_stats=True)[0], [0.848528103483, 1.13137080464], 1e-11)
    dy = np.broadcast_to(1.0, (1, 2))
    big = np.arange(10.0, 14.0).reshape(1, 4)
    big[..., ::2] = 1
    before = big.copy()
    for own in (dy, big[..., ::2]):
        close(fastgrad.rms_norm_grad(own, x, one)[0], dx, 1e-11)
        assert (own == 1).all()
    assert np.array_equal(big, before)


def test_B33_dy_is_not_written():
    x, dy, one = np.array([[3.0, 4.0]]), np.ones((1, 2)), np.ones(2)
    for _ in range(2):
        dx = fastgrad.rms_norm_grad(dy, x, one)[0]
        assert (dy == 1).all() and np.array_equal(x, [[3, 4]])
        assert not np.shares_memory(dx, dy) and not np.shares_memory(dx, x)
        close(dy + dx, [1.0452548511928, 0.9660589012034], 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_B35_mixed_dtypes(dtype):
    x = np.random.default_rng(0).normal(1, 2, (1, 4, 2)).astype(dtype)
    dy = x[..., ::-1].copy()
    gamma, beta = np.linspace(0.5, 2, 4, dtype=np.float32), np.linspace(-1, 1, 4, dtype=np.float32)
    y = fastgrad.group_norm(x, 2, gamma, beta, return_stats=True)[0]
    dx, dgamma, dbeta = fastgrad.group_norm_grad(dy, x, 2, gamma)
    assert y.dtype == dx.dtype == dtype
    assert dgamma.dtype == dbeta.dtype == np.float32
    exact = [as_float64(own) for own in (x, gamma, beta)]
    spread = 1e-6 if np.dtype(dtype).itemsize > 2 else float(ml_dtypes.finfo(dtype).eps)
    wide = fastgrad.group_norm(exact[0], 2, *exact[1:], return_stats=True)[0]
    close(y, wide, spread, spread)
    for wrong in (np.ones((1, 4, 2), np.int64), np.ones((1, 4, 2), np.int8)):
        with pytest.raises(TypeError, match=r"x must be .* got int"):
            fastgrad.group_norm(wrong, 2, gamma, beta)


def test_B37_arguments():
    x, six = np.arange(24.0).reshape(1, 6, 4), np.ones(6)
    message = r"num_groups must divide the channels, 6 in x of shape \(1, 6, 4\), got 4"
    with pytest.raises(ValueError, match=message):
        fastgrad.group_norm(x, 4, six, six)
    with pytest.raises(ValueError, match=message):
        fastgrad.group_norm_grad(x, x, 4, six)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="num_groups"):
            fastgrad.group_norm(x, wrong, six, six)
    for wrong in (2.0, True):
        with pytest.raises(TypeError, match="num_groups"):
            fastgrad.group_norm(x, wrong, six, six)
    with pytest.raises(ValueError, match=r"\(4, 8\)"):
        fastgrad.instance_norm(np.ones((4, 8)))
    with pytest.raises(ValueError, match=r"gamma must have the shape \(6,\).*\(5,\)"):
        fastgrad.group_norm(x, 2, np.ones(5), np.ones(5))


def test_B38_empty_batch(monkeypatch):
    """Also where new memory is full of NaN."""
    real = np.empty
    monkeypatch.setattr(np, "empty", lambda *args, **kw: _poisoned(real(*args, **kw)))
    x = np.zeros((0, 4, 2, 2), np.float32)
    last = np.zeros((0, 2, 2, 4), np.float32)
    zeros = np.zeros(4, np.float32)
    y = fastgrad.group_norm(x, 2, ONE4, ONE4)
    dx, dgamma, dbeta = fastgrad.group_norm_grad(x, x, 2, ONE4)
    assert y.shape == dx.shape == x.shape
    assert same_bits(dgamma, zeros) and same_bits(dbeta, zeros)
    assert fastgrad.layer_norm(last, ONE4, ONE4).shape == last.shape
    dx, dgamma, dbeta = fastgrad.layer_norm_grad(last, last, ONE4)
    assert dx.shape == last.shape and same_bits(dgamma, zeros) and same_bits(dbeta, zeros)
    assert fastgrad.rms_norm(last, ONE4).shape == last.shape
    dx, dgamma = fastgrad.rms_norm_grad(last, last, ONE4)
    assert dx.shape == last.shape and same_bits(dgamma, zeros)
    for wrong in (lambda: fastgrad.layer_norm(np.zeros((3, 0))),
                  lambda: fastgrad.rms_norm(np.zeros((2, 0))),
                  lambda: fastgrad.group_norm(np.zeros((2, 4, 0)), 2)):  # fmt: skip
        with pytest.raises(ValueError, match="no element to normalise over"):
            wrong()


def _poisoned(array):
    if array.dtype.kind == "f":
        array[...] = np.nan
    return array
