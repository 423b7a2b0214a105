"""Operators over rows that a user writes: values, gradients, bits, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import fastgrad
from checking import THREADS, layouts, same_bits, settings
from fastgrad import maths as m
from fastgrad.kernels.row_walk import Rows
from fastgrad.program.interpret_rows import interpret_rows
from fastgrad.program.maths import TraceError
from rounding import error_in_ulp

# --- Operators, and the same in NumPy -------------------------------------------------------------


@fastgrad.rowwise
def l2_normalize(x, scale=None, eps=1e-12):
    y = x * m.rsqrt(m.sum(x * x) + eps)
    return y if scale is None else y * scale


@fastgrad.rowwise
def power_norm(x, p=3.0):
    return x * m.exp(-m.log(m.sum(m.exp(p * m.log(abs(x))))) / p)


@fastgrad.rowwise
def plain_softmax(x):
    return m.exp(x) / m.sum(m.exp(x))


@fastgrad.rowwise
def hand_layer_norm(x, gamma=None, beta=None, eps=1e-3):
    z = (x - m.mean(x)) / m.sqrt(m.variance(x) + eps)
    z = z if gamma is None else z * gamma
    return z if beta is None else z + beta


@fastgrad.rowwise
def twice_reduced(x, eps=1e-3):
    return (x - m.mean(x)) * m.rsqrt(m.mean((x - m.mean(x)) * (x - m.mean(x))) + eps)


@fastgrad.rowwise
def normalised_gate(x, eps=1e-3, slope=1.0):
    z = (x - m.mean(x)) * m.rsqrt(m.variance(x) + eps)
    return z * m.sigmoid(slope * z)


@fastgrad.rowwise
def rejected(x, z, k=1.0):
    """What of x is orthogonal to z."""
    return x - k * z * (m.sum(x * z) / (m.sum(z * z) + 1.0))


@fastgrad.rowwise
def parted(x, gamma=None):
    centred = x - m.mean(x)
    scaled = x * m.rsqrt(m.mean(x * x) + 1e-6)
    return (scaled if gamma is None else scaled * gamma), centred


@fastgrad.rowwise
def tempered(x, t=1.0, shift=0.5):
    return m.exp(x / t - shift) / (1.0 + m.sum(m.exp(x / t - shift)))


def _sum(x):
    return x.sum(axis=-1, keepdims=True)


def _mean(x):
    return x.mean(axis=-1, keepdims=True)


def _numpy_l2(x, scale=1.0, eps=1e-12):
    return x / np.sqrt(_sum(x * x) + eps) * scale


def _numpy_power(x, p=3.0):
    return x / _sum(np.abs(x) ** p) ** (1 / p)


def _numpy_softmax(x):
    return np.exp(x) / _sum(np.exp(x))


def _numpy_layer_norm(x, gamma=1.0, beta=0.0, eps=1e-3):
    return (x - _mean(x)) / np.sqrt(_mean((x - _mean(x)) ** 2) + eps) * gamma + beta


def _numpy_standard(x, eps=1e-3):
    return _numpy_layer_norm(x, eps=eps)


def _numpy_gate(x, eps=1e-3, slope=1.0):
    z = _numpy_layer_norm(x, eps=eps)
    return z / (1 + np.exp(-slope * z))


def _numpy_rejected(x, z, k=1.0):
    return x - k * z * _sum(x * z) / (_sum(z * z) + 1)


def _numpy_parted(x, gamma=1.0):
    return x / np.sqrt(_mean(x * x) + 1e-6) * gamma, x - _mean(x)


def _numpy_tempered(x, t=1.0, shift=0.5):
    e = np.exp(x / t - shift)
    return e / (1 + _sum(e))


#: By name: the operator, the same in NumPy, its parameters of one element a lane that are given, numbers.
CASES: dict[str, tuple[fastgrad.RowOperator, Callable, tuple[str, ...], dict[str, float]]] = {
    "l2_normalize": (l2_normalize, _numpy_l2, (), {"eps": 0.25}),
    "l2_normalize-scale": (l2_normalize, _numpy_l2, ("scale",), {"eps": 0.25}),
    "power_norm": (power_norm, _numpy_power, (), {"p": 2.5}),
    "plain_softmax": (plain_softmax, _numpy_softmax, (), {}),
    "hand_layer_norm": (hand_layer_norm, _numpy_layer_norm, ("gamma", "beta"), {"eps": 0.125}),
    "twice_reduced": (twice_reduced, _numpy_standard, (), {"eps": 0.125}),
    "normalised_gate": (normalised_gate, _numpy_gate, (), {"eps": 0.125, "slope": 1.5}),
    "rejected": (rejected, _numpy_rejected, (), {"k": 0.75}),
    "parted": (parted, _numpy_parted, ("gamma",), {}),
    "tempered": (tempered, _numpy_tempered, (), {"t": 1.25, "shift": 0.25}),
}


def _operands(name: str, shape: tuple[int, ...], dtype=np.float64, axes: int = 1) -> dict:
    """Operands by name; float32 and 16-bit values, so that all dtypes can hold them."""
    operator, _, channels, numbers = CASES[name]
    rng = np.random.default_rng(len(name))
    sizes = dict.fromkeys(operator.kernels.arrays, shape)
    sizes |= {own: shape[len(shape) - axes :] for own in channels}
    # Away from 0, where the logarithm in power_norm has its pole.
    found = {own: rng.uniform(0.25, 2, size) * rng.choice([-1, 1], size)
             for own, size in sizes.items()}  # fmt: skip
    return {own: value.astype(np.float16).astype(dtype) for own, value in found.items()} | numbers


def _incoming(name: str, shape: tuple[int, ...], dtype=np.float64):
    rng = np.random.default_rng(5)
    several = [rng.normal(0, 1, shape).astype(np.float16).astype(dtype) for _ in range(2)]
    return tuple(several) if name == "parted" else several[0]


def _as_tuple(value) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def _exact(operands: dict) -> dict:
    return {own: np.asarray(value, np.float64) for own, value in operands.items()}


# --- Values and gradients -------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    """float64 against plain NumPy, every gradient against central differences."""
    operator, reference, _, _ = CASES[name]
    operands, dy = _operands(name, (3, 7)), _incoming(name, (3, 7))
    values = _as_tuple(operator(**operands))
    for got, exact in zip(values, _as_tuple(reference(**_exact(operands))), strict=True):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, exact, rtol=1e-14, atol=1e-14)
    gradients = operator.grad(dy, **operands)
    for own, gradient in zip(operands, gradients, strict=True):
        numeric = _central(reference, _exact(operands), own, dy)
        assert np.shape(gradient) == np.shape(operands[own])
        np.testing.assert_allclose(gradient, numeric, rtol=1e-8, atol=1e-8, err_msg=own)


def _central(reference: Callable, operands: dict, own: str, dy, h: float = 1e-5) -> np.ndarray:
    """The slope of Σ dy·y by each element of the operand `own`."""
    found = np.zeros(operands[own].shape)
    for index in np.ndindex(found.shape):
        sides = []
        for step in (h, -h):
            moved = operands[own].copy()
            moved[index] += step
            values = _as_tuple(reference(**{**operands, own: moved}))
            sides.append(sum((a * b).sum() for a, b in zip(values, _as_tuple(dy), strict=True)))
        found[index] = (sides[0] - sides[1]) / (2 * h)
    return found


#: Those of which float32 is tested: with a parameter, two reductions in a row, two results.
FEW = ["l2_normalize-scale", "plain_softmax", "twice_reduced", "parted"]


@pytest.mark.parametrize("name", FEW)
def test_float32(name):
    """Within a few ULP of float64 on the same values, or of the largest that is added up."""
    operator, reference, _, _ = CASES[name]
    shape = (5, 67)
    narrow, wide = _operands(name, shape, np.float32), _operands(name, shape)
    exact = _as_tuple(reference(**_exact(wide)))
    for got, right in zip(_as_tuple(operator(**narrow)), exact, strict=True):
        assert got.dtype == np.float32
        assert error_in_ulp(got, right, np.float32, np.abs(right).max()).max() <= 2
    found = operator.grad(_incoming(name, shape, np.float32), **narrow)
    exact = operator.grad(_incoming(name, shape), **wide)
    for own, got, right in zip(narrow, found, exact, strict=True):
        if isinstance(got, float):
            np.testing.assert_allclose(got, right, rtol=1e-5, err_msg=own)
            continue
        assert got.dtype == np.float32
        assert error_in_ulp(got, right, np.float32, np.abs(right).max()).max() <= 4, own


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit(dtype):
    """Computed in float32 and rounded once: within 1 ULP."""
    operands = _operands("plain_softmax", (5, 67), np.float64)
    x = operands["x"].astype(dtype)
    exact = _numpy_softmax(x.astype(np.float64))
    got = plain_softmax(x)
    assert got.dtype == dtype
    assert error_in_ulp(got, exact, dtype).max() <= 1


def test_a_missing_parameter_is_left_out():
    """As if it were 1; its gradient is none of those that come back."""
    own, dy = _operands("l2_normalize-scale", (3, 7)), _incoming("", (3, 7))
    x, ones = own["x"], np.ones(7)
    np.testing.assert_allclose(l2_normalize(x), l2_normalize(x, ones), rtol=1e-15)
    dx, deps = l2_normalize.grad(dy, x)
    whole = l2_normalize.grad(dy, x, ones)
    np.testing.assert_allclose(dx, whole[0], rtol=1e-13, atol=1e-15)
    assert isinstance(deps, float)
    np.testing.assert_allclose(deps, whole[2], rtol=1e-12)


# --- Shapes, layouts, threads ---------------------------------------------------------------------


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_axes(axes):
    """The last axes as one: the same bits as of a reshaped array, and of row by row."""
    shape = (4, 3, 5)
    own = _operands("l2_normalize-scale", shape, np.float32, axes)
    x, scale, dy = own["x"], own["scale"], _incoming("", shape, np.float32)
    length = int(np.prod(shape[3 - axes :]))
    flat, flat_dy = x.reshape(-1, length), dy.reshape(-1, length)
    y = l2_normalize(x, scale, 0.25, axes=axes)
    assert same_bits(y, l2_normalize(flat, scale.reshape(-1), 0.25).reshape(shape))
    dx, dscale, deps = l2_normalize.grad(dy, x, scale, 0.25, axes=axes)
    assert dscale.shape == scale.shape
    expected = l2_normalize.grad(flat_dy, flat, scale.reshape(-1), 0.25)
    assert same_bits(dx, expected[0].reshape(shape))
    assert same_bits(dscale.reshape(-1), expected[1])
    assert deps == expected[2]
    for row, whole in zip(flat, y.reshape(-1, length), strict=True):
        assert same_bits(l2_normalize(row, scale.reshape(-1), 0.25), whole)


def test_empty_and_single():
    for shape in ((0, 3), (2, 0, 3), (1, 1), (1,)):
        x = np.ones(shape)
        assert plain_softmax(x).shape == plain_softmax.grad(x, x)[0].shape == shape
    assert (plain_softmax(np.ones((5, 1))) == 1).all()
    x = np.ones((0, 3))
    _, dscale, deps = l2_normalize.grad(x, x, np.ones(3))
    np.testing.assert_array_equal(dscale, np.zeros(3))
    assert deps == 0
    with pytest.raises(ValueError, match=r"x of shape \(3, 0\) has no element to normalise over"):
        plain_softmax(np.ones((3, 0)))


@pytest.mark.parametrize("axes", [1, 2])
def test_layouts(axes):
    shape = (3, 5, 43)
    own = _operands("l2_normalize-scale", shape, np.float32, axes)
    x, scale, dy = own["x"], own["scale"], _incoming("", shape, np.float32)
    y = l2_normalize(x, scale, axes=axes)
    gradients = l2_normalize.grad(dy, x, scale, axes=axes)
    for name, own_x in layouts(x).items():
        before = own_x.tobytes()
        got = l2_normalize(own_x, scale[..., ::-1].copy()[..., ::-1], axes=axes)
        assert same_bits(got, y), name
        assert got.flags.owndata
        assert got.flags.writeable
        for other, own_dy in layouts(dy).items():
            found = l2_normalize.grad(own_dy, own_x, scale, axes=axes)
            assert same_bits(found[0], gradients[0]), (name, other)
            assert same_bits(found[1], gradients[1]), (name, other)
            assert found[2] == gradients[2], (name, other)
        assert own_x.tobytes() == before, name


@pytest.mark.parametrize(
    "shape", [(3001, 37), (1, 200_001), (7, 70_001)], ids=["short rows", "one row", "few long rows"]
)
def test_any_number_of_threads(shape):
    own = _operands("l2_normalize-scale", shape, np.float32)
    dy = _incoming("", shape, np.float32)
    y = l2_normalize(**own)
    gradients = l2_normalize.grad(dy, **own)
    for threads in THREADS:
        for block_size in (64, fastgrad.BLOCK_SIZE):
            with settings(threads, block_size):
                assert same_bits(l2_normalize(**own), y), threads
                found = l2_normalize.grad(dy, **own)
            assert same_bits(found[0], gradients[0]), threads
            assert same_bits(found[1], gradients[1]), threads
            assert found[2] == gradients[2], threads


@pytest.mark.parametrize("name", ["twice_reduced", "plain_softmax"])
def test_long_rows(name):
    """Alone a row is split into pieces, among 40 it is not: the same bits, and the right ones."""
    operator, reference, _, _ = CASES[name]
    shape = (40, 65_536 * 2 + 77)
    own, dy = _operands(name, shape, np.float32), _incoming("", shape, np.float32)
    y, dx = operator(**own), operator.grad(dy, **own)[0]
    for row in (0, 17, 39):
        alone = {**own, "x": own["x"][row]}
        assert same_bits(operator(**alone), y[row]), row
        assert same_bits(operator.grad(dy[row], **alone)[0], dx[row]), row
        exact = reference(**_exact(alone))
        assert error_in_ulp(y[row], exact, np.float32, np.abs(exact).max()).max() <= 2


def test_gradients_of_parameters_of_long_rows():
    """Rows are split, and their sums put together: as float64 NumPy has it."""
    shape = (33, 70_001)
    own, dy = _operands("l2_normalize-scale", shape, np.float32), _incoming("", shape, np.float32)
    _, dscale, deps = l2_normalize.grad(dy, **own)
    wide = _exact(own)
    rstd = 1 / np.sqrt(_sum(wide["x"] ** 2) + wide["eps"])
    exact = (dy * wide["x"] * rstd).sum(axis=0)
    scale = np.abs(dy * wide["x"] * rstd).sum(axis=0)
    assert error_in_ulp(dscale, exact, np.float32, scale).max() <= 4
    exact = (-0.5 * dy * wide["x"] * wide["scale"] * rstd**3).sum()
    np.testing.assert_allclose(deps, exact, rtol=1e-4)


# --- Arguments of a call --------------------------------------------------------------------------


def test_out():
    """Memory of its own or exactly an operand, in any layout; of some results only."""
    shape = (3, 5, 43)
    own = _operands("l2_normalize-scale", shape, np.float32)
    x, scale, dy = own["x"], own["scale"], _incoming("", shape, np.float32)
    y, dx = l2_normalize(x, scale), l2_normalize.grad(dy, x, scale, wrt="x")[0]
    for name, out in layouts(np.full_like(x, np.nan)).items():
        if not out.flags.writeable or not out.dtype.isnative:
            continue
        assert l2_normalize(x, scale, out=out) is out
        assert same_bits(out, y), name
        assert l2_normalize.grad(dy, x, scale, wrt="x", out=out)[0] is out
        assert same_bits(out, dx), name
    in_place = x.copy()
    assert l2_normalize(in_place, scale, out=in_place) is in_place
    assert same_bits(in_place, y)
    for place in (0, 1):
        operands = [dy.copy(), x.copy()]
        l2_normalize.grad(*operands, scale, wrt="x", out=operands[place])
        assert same_bits(operands[place], dx)
        assert same_bits(operands[1 - place], (dy, x)[1 - place])


def test_out_of_several_results():
    own = _operands("parted", (3, 7), np.float32)
    scaled, centred = parted(**own)
    out = np.empty_like(scaled)
    for place, outs in enumerate(((out, None), (None, out))):
        results = parted(**own, out=outs)
        assert results[place] is out
        assert same_bits(results[0], scaled)
        assert same_bits(results[1], centred)
    x = own["x"].copy()
    parted(x, own["gamma"], out=(None, x))
    assert same_bits(x, centred)
    with pytest.raises(ValueError, match=r"out\[1\] overlaps another result"):
        parted(**own, out=(out, out))
    with pytest.raises(ValueError, match="out has 3 arrays, there are 2 results"):
        parted(**own, out=(None, None, None))


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ([0.0], TypeError, r"out must be a numpy.ndarray, got list"),
        (np.ones((3, 7), np.float32), ValueError, r"out must have the native dtype of x, float64"),
        (np.ones((7, 3)), ValueError, r"out must have the shape of x, \(3, 7\)"),
        (np.broadcast_to(np.ones(7), (3, 7)), ValueError, r"out is read-only"),
    ],
)
def test_wrong_out(out, error, message):
    with pytest.raises(error, match=message):
        plain_softmax(np.ones((3, 7)), out=out)
    with pytest.raises(error, match=message):
        plain_softmax.grad(np.ones((3, 7)), np.ones((3, 7)), out=out)


def test_wrt():
    """Some of the gradients, in the order of their names."""
    own, dy = _operands("rejected", (3, 7)), _incoming("", (3, 7))
    dx, dz, dk = rejected.grad(dy, **own)
    swapped = rejected.grad(dy, **own, wrt=("z", "x"))
    np.testing.assert_allclose(swapped[0], dz, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(swapped[1], dx, rtol=1e-14, atol=1e-15)
    (alone,) = rejected.grad(dy, **own, wrt="k")
    np.testing.assert_allclose(alone, dk, rtol=1e-14)
    x = own["x"]
    for wrt in ("y", (), ("x", "x"), ("x", "scale"), "xy"):
        with pytest.raises(ValueError, match="wrt must name operands of l2_normalize"):
            l2_normalize.grad(dy, x, wrt=wrt)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: rejected(x), TypeError, "missing a required argument: 'z'"),
        (lambda x: rejected(x, x[:2]), ValueError, r"z must have the shape of x, \(3, 7\), got"),
        (lambda x: rejected(x, x.astype("f4")), TypeError, "z must have the dtype of x, float64"),
        (lambda x: plain_softmax(x.astype(int)), TypeError, r"x must be float16.* got int64"),
        (lambda x: plain_softmax(x, 1.0), TypeError, "too many positional arguments"),
        (lambda x: plain_softmax(x, axis=1), TypeError, "axis"),
        (lambda x: plain_softmax(x, return_stats=True), TypeError, "return_stats"),
        (lambda x: plain_softmax(x, axes=3), ValueError, "axes must be at most .* 2 in shape"),
        (lambda x: plain_softmax(x, axes=0), ValueError, "axes must be at least 1, got 0"),
        (lambda x: plain_softmax(x, axes=1.0), TypeError, "axes must be an integer"),
        (lambda x: plain_softmax(np.float64(1.0)), ValueError, "axes must be at most"),
        (lambda x: l2_normalize(x, x), ValueError, r"scale must have the shape \(7,\)"),
        (lambda x: l2_normalize(x, x[0, :6]), ValueError, r"scale must have the shape \(7,\)"),
        (lambda x: l2_normalize(x, 2.0), ValueError, r"scale must have the shape \(7,\)"),
        (lambda x: l2_normalize(x, None, None), TypeError, "eps must be a number, got NoneType"),
        (lambda x: l2_normalize(x, None, "a"), TypeError, "eps must be a number, got str"),
        (lambda x: l2_normalize(x, eps=x[0]), TypeError, "eps must be a number, got ndarray"),
        (lambda x: plain_softmax.grad(x[:2], x), ValueError, "dy must have the shape of x"),
        (lambda x: plain_softmax.grad(x.astype("f4"), x), TypeError, "dy must have the dtype of x"),
        (lambda x: plain_softmax.grad((x, x), x), ValueError, "each of 1 results .* got 2"),
        (lambda x: parted.grad(x, x), ValueError, "each of 2 results of parted, got 1"),
        (lambda x: parted.grad((x, x[0]), x), ValueError, "dresult1 must have the shape of x"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(np.ones((3, 7)))


# --- Backward by hand -----------------------------------------------------------------------------


def test_backward_by_hand():
    """The right one agrees with the derived one, with and without the parameter."""

    @fastgrad.rowwise
    def by_hand(x, scale=None, eps=1e-12):
        y = x * m.rsqrt(m.sum(x * x) + eps)
        return y if scale is None else y * scale

    @by_hand.backward
    def gradients(dy, x, scale, eps):
        rstd = m.rsqrt(m.sum(x * x) + eps)
        g = dy if scale is None else dy * scale
        dot = m.sum(g * x)
        dx = rstd * (g - x * (rstd * rstd * dot))
        deps = -0.5 * g * x * rstd * rstd * rstd
        return (dx, deps) if scale is None else (dx, dy * x * rstd, deps)

    assert callable(gradients)
    for name in ("l2_normalize-scale", "l2_normalize"):
        own, dy = _operands(name, (3, 7)), _incoming("", (3, 7))
        found, derived = by_hand.grad(dy, **own), l2_normalize.grad(dy, **own)
        for got, exact in zip(found, derived, strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-13, atol=1e-15)


def test_backward_by_hand_comes_in_place_of_the_derived_one():
    """Also after that was used; it need not read x, nor reduce."""

    @fastgrad.rowwise
    def centred(x):
        return x - m.mean(x)

    x, dy = np.ones((3, 7)), _incoming("", (3, 7))
    np.testing.assert_allclose(centred.grad(dy, x)[0], dy - _mean(dy), rtol=1e-13, atol=1e-15)
    centred.backward(lambda dy, x: dy * 2.0)
    np.testing.assert_array_equal(centred.grad(dy, x)[0], dy * 2)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_wrong_number_of_gradients(count):
    @fastgrad.rowwise
    def scaled(x, gamma=None, k=1.0):
        return x * k * m.mean(x) if gamma is None else x * gamma * k * m.mean(x)

    scaled.backward(lambda dy, x, gamma, k: (dy,) * count)
    x = np.ones((3, 7))
    message = (
        f"backward of .* gives {count} gradients, it takes one for each of 3 operands: x, gamma, k"
    )
    with pytest.raises(TraceError, match=message):
        scaled.grad(x, x, np.ones(7))


# --- vjp, pickle, show ----------------------------------------------------------------------------


def test_vjp():
    own, dy = _operands("l2_normalize-scale", (3, 7)), _incoming("", (3, 7))
    y, pullback = fastgrad.vjp(l2_normalize, own["x"], own["scale"], eps=0.25)
    assert same_bits(y, l2_normalize(**own))
    dx, dscale = pullback(dy)
    expected = l2_normalize.grad(dy, **own, wrt=("x", "scale"))
    assert same_bits(dx, expected[0])
    assert same_bits(dscale, expected[1])
    assert pullback.kept[0] is own["x"]
    assert pullback.kept[1] is own["scale"]
    with pytest.raises(ValueError, match="out overlaps an operand"):
        fastgrad.vjp(l2_normalize, own["x"], out=own["x"])


def test_vjp_of_several_results():
    own, dys = _operands("parted", (3, 7)), _incoming("parted", (3, 7))
    results, pullback = fastgrad.vjp(parted, own["x"], own["gamma"])
    for got, exact in zip(results, parted(**own), strict=True):
        assert same_bits(got, exact)
    for got, exact in zip(pullback(dys), parted.grad(dys, **own), strict=True):
        assert same_bits(got, exact)


def test_pickle():
    """By name, as functions are; so too the library's own."""
    for operator in (l2_normalize, parted, fastgrad.layer_norm, fastgrad.group_norm):
        assert pickle.loads(pickle.dumps(operator)) is operator


def test_what_an_operator_says_of_itself():
    assert repr(l2_normalize) == (
        "<fastgrad operator l2_normalize(x, scale=None, eps=1e-12, *, axes=1, out=None) -> Any>"
    )
    assert rejected.__doc__.startswith("What of x is orthogonal to z")
    assert rejected.__name__ == "rejected"


def test_show(capsys):
    text = fastgrad.show(twice_reduced, source=False)
    assert capsys.readouterr().out == text + "\n"
    assert "twice_reduced(x, eps)" in text
    assert "3 passes over a row" in text
    assert "reduce_mean_square" in text
    assert "twice_reduced_grad_x" in text
    for dtype in (np.float16, np.float64):
        source = fastgrad.show(l2_normalize, dtype=dtype)
        assert "def tiles(" in source
        assert "l2_normalize_scale(x, scale, eps)" in source
    with pytest.raises(TypeError, match="dtype must be one of"):
        fastgrad.show(l2_normalize, dtype=np.int64)


# --- What cannot be an operator -------------------------------------------------------------------


@pytest.mark.parametrize("reduce", [m.sum, m.mean, m.variance])
def test_an_elementwise_operator_does_not_reduce(reduce):
    def scaled(x):
        return x / reduce(x)

    with pytest.raises(TraceError, match=r"scaled reduces over a row.*@fastgrad.rowwise"):
        fastgrad.elementwise(scaled)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def op(_x): return _x", "no operand may be called _x: names with _ are the library's"),
        ("def op(dy): return dy", "no operand may be called dy: every operator has that argument"),
        ("def op(x, out=1.0): return x", "no operand may be called out"),
        ("def op(x, axes=None): return x", "no operand may be called axes"),
        ("def op(x, wrt=1.0): return x", "no operand may be called wrt"),
        ("def op(x, return_stats=None): return x", "no operand may be called return_stats"),
        ("def op(x, how='a'): return x", "how='a': an array has no default"),
        ("def op(x, how=()): return x", r"how=\(\): an array has no default"),
        ("def op(x, how=1j): return x", "how=1j: an array has no default"),
        ("def op(*x): return x", "an operator's arguments have names"),
        ("def op(x, *, k=1.0): return x", "an operator's arguments have names"),
        ("def op(x, /): return x", "an operator's arguments have names"),
        ("def op(x, **more): return x", "an operator's arguments have names"),
        ("def op(): return 1.0", "takes at least one array"),
        ("def op(k=1.0, g=None): return k", "takes at least one array"),
    ],
)
def test_what_cannot_be_an_operator_is_told(text, message):
    with pytest.raises(TypeError, match=message):
        exec(f"@fastgrad.rowwise\n{text}", {"fastgrad": fastgrad})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("m.mean(x)", "each result of op must have a value for every lane"),
        ("3.0", "each result of op must have a value for every lane"),
        ("None", "op must return a value for every lane"),
        ("()", "op must return a value for every lane"),
        ("x if m.sum(x) > 0 else -x", "an operand has no truth value"),
        ("x + m.sum('a')", "takes operands and numbers, got str"),
        ("x + sum(x)", "cannot be looped over"),
    ],
)
def test_maths_that_cannot_be_a_program_is_told(body, message):
    with pytest.raises(TraceError, match=message):
        _made(f"def op(x, k=2.0):\n    return {body}")(np.ones((2, 3)))


def _made(text: str) -> fastgrad.RowOperator:
    scope: dict = {"m": m}
    exec(text, scope)
    return fastgrad.rowwise(scope["op"])


# --- Nothing to reduce ----------------------------------------------------------------------------


def test_an_operator_that_does_not_reduce():
    x = np.arange(6.0).reshape(2, 3)
    operator = _made("def op(x, gamma=None):\n    return x * 2.0 if gamma is None else x * gamma")
    np.testing.assert_array_equal(operator(x), 2 * x)
    np.testing.assert_array_equal(operator(x, x[1]), x * x[1])


@pytest.mark.parametrize("name", ["layer_norm", "group_norm"])
def test_a_gradient_that_does_not_reduce(name):
    """That of beta alone is dy, summed over the rows."""
    x, dy = np.ones((3, 4)), np.arange(12.0).reshape(3, 4)
    more = (2,) if name == "group_norm" else ()
    (dbeta,) = getattr(fastgrad, name).grad(dy, x, *more, x[0], x[0], wrt="beta")
    np.testing.assert_array_equal(dbeta, dy.sum(axis=0))


# --- Names ----------------------------------------------------------------------------------------


def test_operands_may_be_called_anything():
    """Names of the walk: of its loops, its totals, its arguments."""
    names = (
        "row",
        "length",
        "position",
        "begin",
        "end",
        "count",
        "m",
        "f",
        "i",
        "v0",
        "a0",
        "s0_0",
    )
    arguments = ", ".join(f"{name}={index + 1.0}" for index, name in enumerate(names))
    scope: dict = {"maths": m}
    exec(
        f"def op(piece, lo, rows=None, offset=None, {arguments}):\n"
        f"    own = maths.mean(piece * lo) if rows is None else maths.mean(piece * rows) + offset\n"
        f"    return own * piece + {' + '.join(names)}",
        scope,
    )
    operator = fastgrad.rowwise(scope["op"])
    x, y = np.arange(6.0).reshape(2, 3), np.arange(6.0, 12).reshape(2, 3)
    extra = sum(range(1, len(names) + 1))
    np.testing.assert_allclose(operator(x, y), _mean(x * y) * x + extra, rtol=1e-14)
    own = operator(x, y, y[0], y[1])
    np.testing.assert_allclose(own, (_mean(x * y[0]) + y[1]) * x + extra, rtol=1e-14)
    gradients = operator.grad(np.ones_like(x), x, y)
    assert gradients[2:] == (6.0,) * len(names)


def test_numbers_may_be_called_as_the_walk_calls_its_own():
    """Each by itself would be wrong without a word."""
    operator = _made(
        "def op(x, row_length=2.0, offset=3.0, count=5.0, end=7.0):\n"
        "    return x * (row_length + offset * count) + m.mean(x) * end"
    )
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(operator(x), 17 * x + 7 * _mean(x), rtol=1e-14)


@pytest.mark.parametrize("name", ["y", "dx", "result1"])
def test_arrays_may_be_called_as_results_are(name):
    operator = _made(f"def op(x, {name}):\n    return x * m.mean({name}), x + {name}")
    x, other = np.arange(6.0).reshape(2, 3), np.arange(6.0, 12).reshape(2, 3)
    first, second = operator(x, other)
    np.testing.assert_allclose(first, x * _mean(other), rtol=1e-14)
    np.testing.assert_array_equal(second, x + other)
    dx, dother = operator.grad((x, other), x, other)
    np.testing.assert_allclose(dx, x * _mean(other) + other, rtol=1e-14)
    np.testing.assert_allclose(dother, _mean(x * x) + other, rtol=1e-14)


def test_a_parameter_that_every_call_gives():
    """A function that cannot do without it works where it is given."""
    operator = _made("def op(x, gamma=None):\n    return x * gamma - m.mean(x)")
    x, gamma = np.arange(6.0).reshape(2, 3), np.array([1.0, 2, 3])
    np.testing.assert_allclose(operator(x, gamma), x * gamma - _mean(x), rtol=1e-14)


def test_an_unused_operand_has_gradient_0():
    operator = _made("def op(x, z, gamma=None, k=1.0):\n    return x * m.mean(x)")
    x = np.arange(6.0).reshape(2, 3)
    dx, dz, dgamma, dk = operator.grad(x, x, x, np.ones(3))
    np.testing.assert_allclose(dx, x * _mean(x) + _mean(x * x), rtol=1e-14)
    np.testing.assert_array_equal(dz, np.zeros((2, 3)))
    np.testing.assert_array_equal(dgamma, np.zeros(3))
    assert dk == 0


def test_operators_compose():
    """Elementwise operators are part of the same program."""
    operator = _made("import fastgrad\ndef op(x):\n    return fastgrad.silu(x - m.mean(x))")
    x = np.arange(6.0).reshape(2, 3)
    centred = x - _mean(x)
    np.testing.assert_allclose(operator(x), centred / (1 + np.exp(-centred)), rtol=1e-13)


@fastgrad.rowwise
def gated_norm(x, gate, scale=None, slope=0.5):
    centred = x - m.mean(x)
    y = centred * m.rsqrt(m.mean(centred * centred) + 0.1) * m.sigmoid(slope * gate)
    return y if scale is None else y * scale


@pytest.mark.parametrize("lanes", [35, 2_100, 5_000])
@pytest.mark.parametrize("count", [8, 9, 40])
@pytest.mark.parametrize("wrt", [("x", "gate", "scale"), ("x", "gate", "scale", "slope")])
def test_rows_that_are_walked_together(wrt, count, lanes):
    """What is kept of a row between passes is its own: each row as alone, sums as interpreted."""
    rng = np.random.default_rng(count + lanes)
    x, gate, dy = (rng.normal(1, 2, (count, lanes)) for _ in range(3))
    scale = rng.normal(1, 0.5, lanes)
    got = dict(zip(wrt, gated_norm.grad(dy, x, gate, scale, 0.7, wrt=wrt), strict=True))
    for row in range(count):
        chosen = slice(row, row + 1)
        alone = gated_norm.grad(dy[chosen], x[chosen], gate[chosen], scale, 0.7, wrt=wrt)
        for name, own in zip(("x", "gate"), alone):
            assert same_bits(own, got[name][chosen]), (name, row)
    operands = {"x": x, "gate": gate, "scale": scale, "slope": 0.7, "dy": dy}
    run = interpret_rows(gated_norm.trace(wrt), operands, Rows(count, lanes)).results
    for name in wrt:
        wanted = np.sum(run["dslope"]) if name == "slope" else run[f"d{name}"]
        atol = 1e-12 * np.abs(run[f"d{name}"]).max() * count
        np.testing.assert_allclose(got[name], wanted, rtol=1e-11, atol=atol, err_msg=name)


def test_a_power_whose_exponent_is_a_number_of_the_call():
    @fastgrad.rowwise
    def powered(x, k=1.5):
        return (m.abs(x) + 1.0) ** k - m.mean(x)

    x = np.random.default_rng(0).normal(size=(3, 40))
    base = np.abs(x) + 1
    expected = base**1.7 - x.mean(-1, keepdims=True)
    np.testing.assert_allclose(powered(x, 1.7), expected, rtol=1e-13)
    dx, dk = powered.grad(np.ones_like(x), x, 1.7)
    np.testing.assert_allclose(dx, 1.7 * base**0.7 * np.sign(x) - 1, rtol=1e-12)
    np.testing.assert_allclose(dk, (base**1.7 * np.log(base)).sum(), rtol=1e-12)
