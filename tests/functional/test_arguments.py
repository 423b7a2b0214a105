"""What is refused, what is said about it, and that nothing was written before."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fastgrad
from checking import same_bits

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.arange(3), r"x must be .*float32.* got int64: pass x.astype\(np.float32\)"),
        (np.array([True]), r"x must be .* got bool"),
        (np.ones(2, complex), r"x must be .* got complex128: pass x.real"),
        (np.array(["a"]), r"x must be .* got <U1"),
        (np.array([None]), r"x must be .* got object"),
        (np.ones(2, np.longdouble), r"x must be .* got (float128|longdouble)"),
        (3, r"x must be .* got int64"),
        (np.ma.masked_array([1.0]), r"x is a masked array.*x.filled"),
    ],
)
def test_wrong_x(x, message):
    for operator in (fastgrad.silu, fastgrad.swish, fastgrad.gelu):
        with pytest.raises(TypeError, match=message):
            operator(x)


@pytest.mark.parametrize(
    ("dy", "error", "message"),
    [
        (
            np.ones((4, 3), np.float32),
            ValueError,
            r"dy must have the shape of x, \(3, 4\), got \(4, 3\)",
        ),
        (np.ones((1, 4), np.float32), ValueError, r"dy must have the shape of x"),
        (
            np.ones((3, 4)),
            TypeError,
            r"dy must have the dtype of x, float32, got float64: pass dy.astype",
        ),
        (np.ones((3, 4), ml_dtypes.bfloat16), TypeError, r"dy must have the dtype of x"),
        (np.ones((3, 4), int), TypeError, r"dy must be "),
    ],
)
def test_wrong_dy(dy, error, message):
    out = np.full_like(X, np.nan)
    for grad in (fastgrad.silu_grad, fastgrad.swish_grad, fastgrad.gelu_grad):
        with pytest.raises(error, match=message):
            grad(dy, X, out=out)
    assert np.isnan(out).all()


@pytest.mark.parametrize("approximate", ["erf", "Tanh", None, True, 1, ["none"]])
def test_unknown_approximate(approximate):
    out = np.full_like(X, np.nan)
    message = "approximate must be one of 'none', 'tanh', got"
    with pytest.raises(ValueError, match=message):
        fastgrad.gelu(X, approximate, out=out)
    with pytest.raises(ValueError, match=message):
        fastgrad.gelu_grad(X, X, approximate, out=out)
    assert np.isnan(out).all()


@pytest.mark.parametrize(
    ("beta", "axis", "error", "message"),
    [
        (
            np.ones(5, np.float32),
            1,
            ValueError,
            r"beta must have one element a channel, 4 along axis 1",
        ),
        (
            np.ones(4, np.float32),
            0,
            ValueError,
            r"beta must have one element a channel, 3 along axis 0",
        ),
        (np.ones(4, np.float32), None, ValueError, r"beta has 4 elements.*axis=1"),
        (np.ones((2, 2), np.float32), 1, ValueError, r"a number or a 1-D array.*\(2, 2\)"),
        (np.ones(4, np.float32), 2, ValueError, r"axis must be in \[-2, 2\)"),
        (1.0, 7, ValueError, r"axis must be in \[-2, 2\)"),
        (1.0, 0.5, TypeError, r"axis must be an integer, got float"),
        (np.ones(4, int), 1, TypeError, r"beta must be .* got int64"),
        (np.ones(4, complex), 1, TypeError, r"beta must be a real number or an array"),
        (1j, None, TypeError, r"beta must be a number.*got complex"),
        ("1", None, TypeError, r"beta must be a number.*got str"),
        (None, None, TypeError, r"beta must be a number.*got NoneType"),
    ],
)
def test_wrong_beta(beta, axis, error, message):
    out = np.full_like(X, np.nan)
    with pytest.raises(error, match=message):
        fastgrad.swish(X, beta, axis=axis, out=out)
    with pytest.raises(error, match=message):
        fastgrad.swish_grad(X, X, beta, axis=axis, out=out)
    assert np.isnan(out).all()


def test_wrong_out():
    x = X.copy()
    before = x.copy()
    buffer = np.zeros(30, np.float32)
    for out, error, message in [
        (
            np.zeros((4, 3), np.float32),
            ValueError,
            r"out must have the shape of x, \(3, 4\), got \(4, 3\)",
        ),
        (
            np.zeros((3, 4)),
            ValueError,
            r"out must have the native dtype of x, float32, got float64",
        ),
        (np.zeros((3, 4), ">f4"), ValueError, r"out must have the native dtype of x"),
        (np.broadcast_to(np.float32(0), (3, 4)), ValueError, r"out is read-only"),
        ([0.0], TypeError, r"out must be a numpy.ndarray, got list"),
        (
            np.lib.stride_tricks.as_strided(buffer, (3, 4), (4, 4)),
            ValueError,
            r"elements that share",
        ),
    ]:
        with pytest.raises(error, match=message):
            fastgrad.silu(x, out=out)
        with pytest.raises(error, match=message):
            fastgrad.silu_grad(x, x, out=out)
    view = buffer[:24].reshape(6, 4)[::2]
    other = buffer[1:25].reshape(6, 4)[::2]
    with pytest.raises(ValueError, match=r"out overlaps dy in part: pass exactly dy"):
        fastgrad.silu_grad(view, x, out=other)
    with pytest.raises(ValueError, match=r"out overlaps x in part"):
        fastgrad.silu(x, out=x[::-1])
    with pytest.raises(ValueError, match=r"out overlaps beta in part"):
        fastgrad.swish(x, buffer[:4], axis=1, out=buffer[:12].reshape(3, 4))
    assert np.array_equal(x, before)
    assert not buffer.any()


@pytest.mark.parametrize("size", [100, 40_000])
@pytest.mark.parametrize("distance", [-99, -1, 1, 99])
def test_out_overlapping_plain_arrays(size, distance):
    """On the short way too, which leaves the check to the kernel, and in both directions."""
    memory = np.linspace(-2, 2, size + 300).astype(np.float32)
    fastgrad.silu(memory)  # so that the kernel is there
    before = memory.copy()
    x, out = memory[100 : 100 + size], memory[100 + distance : 100 + distance + size]
    with pytest.raises(ValueError, match="out overlaps x in part"):
        fastgrad.silu(x, out=out)
    with pytest.raises(ValueError, match="out overlaps x in part"):
        fastgrad.silu_grad(np.ones(size, np.float32), x, out=out)
    assert same_bits(memory, before)


def test_out_may_be_a_memory_map(tmp_path):
    x = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=(3, 4))
    x[...] = X
    assert fastgrad.silu(x, out=x) is x
    assert same_bits(np.asarray(x), fastgrad.silu(X))


def test_vjp_keeps_its_operands():
    x = X.copy()
    with pytest.raises(ValueError, match="out overlaps an operand"):
        fastgrad.vjp(fastgrad.silu, x, out=x)
    out = np.empty_like(X)
    y, pullback = fastgrad.vjp(fastgrad.silu, X, out=out)
    assert y is out
    assert same_bits(pullback(X)[0], fastgrad.silu_grad(X, X))


def test_out_interleaved_with_an_operand_is_no_overlap():
    memory = np.zeros((3, 4, 2), np.float32)
    memory[..., 0] = X
    assert same_bits(fastgrad.silu(memory[..., 0], out=memory[..., 1]), fastgrad.silu(X))
    assert np.array_equal(memory[..., 0], X)


def test_wrong_wrt_and_arguments():
    with pytest.raises(
        ValueError, match=r"wrt must name operands of swish, \('x', 'beta'\), each once, got 'z'"
    ):
        fastgrad.swish.grad(X, X, wrt="z")
    for wrong in (("x", "x"), (), 5, ("x", "z")):
        with pytest.raises(ValueError, match="wrt must name operands of swish"):
            fastgrad.swish.grad(X, X, wrt=wrong)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        fastgrad.silu()
    with pytest.raises(TypeError, match="unexpected keyword argument 'alpha'"):
        fastgrad.silu(X, alpha=1)
    with pytest.raises(ValueError, match=r"out has 2 arrays, there are 1 results"):
        fastgrad.silu.grad(X, X, out=(None, None))


@pytest.mark.parametrize(
    ("setter", "name"),
    [(fastgrad.set_num_threads, "num_threads"), (fastgrad.set_block_size, "block_size")],
)
def test_wrong_settings(setter, name):
    for value in (0, -1):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got {value}"):
            setter(value)
    with pytest.raises((ValueError, OverflowError)):
        fastgrad.set_block_size(1 << 40)
    for value in (1.5, "2", None, True):
        with pytest.raises(TypeError, match=f"{name} must be an integer"):
            setter(value)


def test_no_input_is_written():
    x, dy, beta = X.copy(), X[::-1].copy(), np.linspace(0.5, 2, 4, dtype=np.float32)
    kept = x.copy(), dy.copy(), beta.copy()
    fastgrad.swish(x, beta, axis=1)
    dx, dbeta = fastgrad.swish_grad(dy, x, beta, axis=1, beta_grad=True)
    for now, before in zip((x, dy, beta), kept, strict=True):
        assert same_bits(now, before)
        assert not np.shares_memory(dx, now)
        assert not np.shares_memory(dbeta, now)
