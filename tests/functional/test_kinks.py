"""Activations at kinks, infinities and NaN: the same in all precisions and on every path."""

from __future__ import annotations

import inspect
import pickle

import ml_dtypes
import numpy as np
import pytest

import fastgrad
from checking import layouts, same_bits
from processes import COMPUTE, run_python
from rounding import DTYPES

INF, NAN = np.inf, np.nan
_SCALE, _ALPHA = 1.0507009873554804934, 1.6732632423543772848

#: Slopes at kinks: of least absolute value, or the one from below, as PyTorch's.
KINKS = {
    "relu": {0.0: 0},
    "relu6": {0.0: 0, 6.0: 0},
    "leaky_relu": {0.0: 0.01},
    "prelu": {0.0: 0.25},
    "elu": {0.0: 1},
    "selu": {0.0: _SCALE * _ALPHA},
    "celu": {0.0: 1},
    "squared_relu": {0.0: 0},
    "hardtanh": {-1.0: 0, 1.0: 0},
    "hardsigmoid": {-3.0: 0, 3.0: 0},
    "hardswish": {-3.0: 0, 3.0: 1},
    "hardshrink": {-0.5: 0, 0.5: 0},
    "softshrink": {-0.5: 0, 0.5: 0},
    "softsign": {0.0: 1},
    "softplus": {20.0: 1 / (1 + np.exp(-20.0))},
}
#: Values and slopes at -inf and inf.
LIMITS = {
    "relu": ([0, INF], [0, 1]),
    "relu6": ([0, 6], [0, 0]),
    "leaky_relu": ([-INF, INF], [0.01, 1]),
    "prelu": ([-INF, INF], [0.25, 1]),
    "elu": ([-1, INF], [0, 1]),
    "selu": ([-_SCALE * _ALPHA, INF], [0, _SCALE]),
    "celu": ([-1, INF], [0, 1]),
    "squared_relu": ([0, INF], [0, INF]),
    "hardtanh": ([-1, 1], [0, 0]),
    "hardsigmoid": ([0, 1], [0, 0]),
    "hardswish": ([0, INF], [0, 1]),
    "hardshrink": ([-INF, INF], [1, 1]),
    "softshrink": ([-INF, INF], [1, 1]),
    "sigmoid": ([0, 1], [0, 0]),
    "logsigmoid": ([-INF, 0], [1, 0]),
    "tanh": ([-1, 1], [0, 0]),
    "tanhshrink": ([-INF, INF], [1, 1]),
    "softplus": ([0, INF], [0, 1]),
    "softsign": ([-1, 1], [0, 0]),
    "swish": ([0, INF], [0, 1]),
    "silu": ([0, INF], [0, 1]),
    "gelu": ([0, INF], [0, 1]),
    "mish": ([0, INF], [0, 1]),
    "quick_gelu": ([0, INF], [0, 1]),
}
OPERATORS = tuple(LIMITS)


def grad(name, dy, x):
    """`name_grad`, of x alone."""
    result = getattr(fastgrad, f"{name}_grad")(dy, x)
    return result[0] if isinstance(result, tuple) else result


def test_every_activation_is_here():
    from fastgrad.functional import _activations, _clipped, _rectifiers, _sigmoids

    public = {
        name
        for module in (_activations, _clipped, _rectifiers, _sigmoids)
        for name in module.__all__
    }
    assert {name for name in public if not name.endswith("_grad")} == set(OPERATORS)
    assert public == {*OPERATORS, *(f"{name}_grad" for name in OPERATORS)}
    assert public <= set(fastgrad.__all__)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KINKS)
def test_slope_at_kinks(name, dtype):
    """In the body and the tail of a loop, from `name_grad`, `grad` and `vjp`, in any layout, in place."""
    for at, slope in KINKS[name].items():
        x, one = np.full((3, 5, 7), at, dtype), np.ones((3, 5, 7), dtype)
        expected = np.full_like(x, np.float32(slope) if x.itemsize < 8 else slope)
        dx = grad(name, one, x)
        np.testing.assert_allclose(dx.astype(float), expected.astype(float), rtol=1e-6)
        operator = getattr(fastgrad, name)
        assert same_bits(operator.grad(one, x, wrt="x")[0], dx)
        assert same_bits(fastgrad.vjp(operator, x)[1](one)[0], dx)
        for own_x in layouts(x).values():
            assert same_bits(grad(name, one, own_x), dx)
        for size in (1, 4, 17):
            got = grad(name, one.reshape(-1)[:size].copy(), x.reshape(-1)[:size].copy())
            assert same_bits(got, dx.reshape(-1)[:size])
        operator.grad(one, x, wrt="x", out=one)
        assert same_bits(one, dx)


@pytest.mark.parametrize("name", KINKS)
def test_kinks_are_documented(name):
    text = (getattr(fastgrad, name).__doc__ + getattr(fastgrad, f"{name}_grad").__doc__).lower()
    assert "kink" in text or "steps" in text or "slope is that of the smooth" in text


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATORS)
def test_limits_and_nan(name, dtype):
    """B68: NaN in, NaN out, of value and slope, at that element only."""
    values, slopes = LIMITS[name]
    for length in (4, 8, 67):
        x = np.resize(np.array([NAN, INF, -INF, 1.0], dtype), length)
        y, dx = getattr(fastgrad, name)(x), grad(name, np.ones_like(x), x)
        for got, (low, high) in ((y, values), (dx, slopes)):
            assert np.array_equal(np.isnan(got), np.isnan(x))
            rtol = 1e-6 if x.itemsize > 2 else 4e-3
            np.testing.assert_allclose(got[2::4].astype(float), low, rtol=rtol)
            np.testing.assert_allclose(got[1::4].astype(float), high, rtol=rtol)


@pytest.mark.parametrize("name", OPERATORS)
def test_parameters_never_change_the_dtype(name):
    """B56."""
    operator = getattr(fastgrad, name)
    for dtype in (np.float16, np.float32):
        for x in (np.ones(3, dtype), np.array(1, dtype)):
            for value in (1.7, np.float32(1.7), np.float64(1.7), np.array(1.7), 2):
                given = dict.fromkeys(operator.parameters, value)
                y = operator(x, **given)
                assert y.dtype == dtype and y.shape == x.shape
                dx = operator.grad(x, x, wrt="x", **given)[0]
                assert dx.dtype == dtype and dx.shape == x.shape
    assert operator(np.float32(1.0)).dtype == np.float32
    assert operator(1.0).dtype == np.float64 and operator(1.0).shape == ()


@pytest.mark.parametrize("name", OPERATORS)
def test_grad_is_a_function_as_any_other(name):
    function, operator = getattr(fastgrad, f"{name}_grad"), getattr(fastgrad, name)
    assert inspect.isfunction(function)
    assert function.__name__ == function.__qualname__ == f"{name}_grad"
    assert function.__module__ == operator.__module__
    assert pickle.loads(pickle.dumps(function)) is function
    assert pickle.loads(pickle.dumps(operator)) is operator
    expected = ["dy", *operator.arguments, *(["axis"] if operator.parameters else []), "out"]
    arguments = inspect.signature(function).parameters
    assert [a for a in arguments if a != "beta_grad"] == expected
    own = inspect.signature(operator).parameters
    assert all(arguments[name].default == own[name].default for name in operator.arguments)
    for part in (f"of `{name}`", "Parameters\n", "Returns\n", "Raises\n", "Notes\n"):
        assert part in inspect.getdoc(function)
    for part in ("Parameters\n", "Returns\n", "Notes\n", "Backward keeps `x`", "Examples\n"):
        assert part in inspect.getdoc(operator)


@pytest.mark.parametrize("name", OPERATORS)
def test_vjp_and_warmup(name):
    operator = getattr(fastgrad, name)
    x = np.linspace(-4, 4, 50, dtype=np.float32)
    y, pullback = fastgrad.vjp(operator, x)
    (dx,) = pullback(x)
    assert same_bits(y, operator(x)) and same_bits(dx, grad(name, x, x))
    assert len(pullback.kept) == 1 and pullback.kept[0] is x
    kernels = len(operator.specialisations(everything=False))
    assert fastgrad.warmup(f"{name}_grad", progress=False) == kernels


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "celu", "softshrink", "softplus"])
def test_one_parameter_a_channel(name):
    """As a call for each channel; an exact tail takes an array in where it multiplies by a number."""
    operator = getattr(fastgrad, name)
    rng = np.random.default_rng(0)
    x, dy = rng.normal(0, 2, (2, 4, 3, 5)).astype(np.float32)
    values = np.array([0.25, 0.5, 1.0, 1.5], np.float32)
    parameter = operator.parameters[0]
    given = {parameter: values[:3], "axis": 1}
    y, (dx, dvalues) = operator(x, **given), operator.grad(dy, x, wrt=("x", parameter), **given)
    for channel, value in enumerate(values[:3]):
        own = {parameter: float(value)}
        own_x, own_dy = x[:, channel], dy[:, channel]
        own_dx, own_sum = operator.grad(own_dy, own_x, wrt=("x", parameter), **own)
        assert same_bits(y[:, channel], operator(own_x, **own))
        np.testing.assert_allclose(dx[:, channel], own_dx, rtol=5e-7)
        np.testing.assert_allclose(dvalues[channel], own_sum, rtol=1e-5, atol=1e-6)


def test_prelu_has_pytorchs_channel_axis():
    rng = np.random.default_rng(0)
    x, dy = rng.normal(0, 2, (2, 4, 3, 5))
    weight = np.array([0.1, 0.2, 0.3])
    y = fastgrad.prelu(x, weight)
    np.testing.assert_array_equal(y, np.where(x > 0, x, weight[:, None] * x))
    assert same_bits(y, fastgrad.prelu(x, weight, axis=1))
    dx, dweight = fastgrad.prelu_grad(dy, x, weight)
    np.testing.assert_array_equal(dx, dy * np.where(x > 0, 1, weight[:, None]))
    np.testing.assert_allclose(dweight, (dy * np.where(x > 0, 0, x)).sum((0, 2)), rtol=1e-12)
    for one in (np.array([0.5]), np.array(0.5), np.float32(0.5), 0.5):
        assert same_bits(fastgrad.prelu(x, one), fastgrad.prelu(x, 0.5))
        got = fastgrad.prelu_grad(dy, x, one)[1]
        assert np.shape(got) == np.shape(one)
        np.testing.assert_allclose(got, (dy * np.where(x > 0, 0, x)).sum(), rtol=1e-6)
    assert fastgrad.prelu(x[0, :, 0], weight, axis=0).shape == (3,)
    with pytest.raises(ValueError, match="weight has 3 elements, one a channel: say along which"):
        fastgrad.prelu(x[0, 0, :], weight)
    with pytest.raises(ValueError, match="weight must have one element a channel, 3 along axis 1"):
        fastgrad.prelu(x, np.ones(5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: fastgrad.celu(x, 0), "alpha of celu must not be 0, got 0.0"),
        (lambda x: fastgrad.celu_grad(x, x, 0.0), "alpha of celu must not be 0"),
        (
            lambda x: fastgrad.softshrink(x, -1.0),
            "lambd of softshrink must not be negative, got -1",
        ),
        (
            lambda x: fastgrad.softshrink(x, NAN),
            "lambd of softshrink must not be negative, got nan",
        ),
        (lambda x: fastgrad.softshrink_grad(x, x, -1.0), "lambd of softshrink"),
        (
            lambda x: fastgrad.hardtanh(x, 2.0),
            "min_val of hardtanh must be at most max_val, got 2.0, 1",
        ),
        (lambda x: fastgrad.hardtanh.grad(x, x, 2, 1), "min_val of hardtanh must be at most"),
        (lambda x: fastgrad.softplus(x, 0.0), "beta of softplus must not be 0"),
        (
            lambda x: fastgrad.softshrink(x, np.array([1.0, -1.0]), axis=1),
            r"lambd of softshrink must not be negative, got \[ 1. -1.\]",
        ),
    ],
)
def test_what_parameters_may_be(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.ones((3, 2)))


@pytest.mark.parametrize("name", ["lambd", "x"])
def test_wrong_kinds_come_first(name):
    with pytest.raises(TypeError, match=f"{name} must be"):
        fastgrad.softshrink(**{"x": np.ones(2), "lambd": 0.5, name: "0.5"})


def test_out_is_written_in_place():
    x = np.linspace(-4, 4, 5000).astype(ml_dtypes.bfloat16)
    dx = fastgrad.hardswish_grad(x, x)
    out = x.copy()
    assert fastgrad.hardswish_grad(out, x, out=out) is out
    assert same_bits(out, dx)


def test_a_second_process_compiles_nothing(tmp_path):
    calls = "fastgrad.hardswish_grad(dy, x), fastgrad.prelu_grad(dy, x)"
    second = f"""
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    {calls}
assert not recorder.buffer, recorder.buffer
"""
    for code in (calls, second):
        run_python(COMPUTE + code, FASTGRAD_CACHE_DIR=str(tmp_path))
