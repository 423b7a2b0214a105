"""Gated units: of two arrays by the one helper, and packed in one."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad
import references as ref
from checking import layouts, same_bits
from pair_checking import PairCase, check_pair
from rounding import DTYPES


def _product(value, terms):
    """Reference of f(gate)·up, and its slopes with the size of their terms."""

    def slopes(gate, up):
        slope = sum(terms(gate))
        size = sum(map(np.abs, terms(gate)))
        return (up * slope, up * size), (value(gate), value(gate))

    return lambda gate, up: value(gate) * up, slopes


def _relu(x):
    return np.maximum(x, 0)


CASES = {
    "swiglu": PairCase(fastgrad.swiglu, *_product(ref.swish, ref.swish_terms)),
    "geglu": PairCase(
        fastgrad.geglu,
        *_product(ref.gelu, ref.gelu_terms),
        reference_ulp=100,  # x / sqrt(2) is rounded there
    ),
    "geglu-tanh": PairCase(
        fastgrad.geglu,
        *_product(ref.gelu_tanh, ref.gelu_tanh_terms),
        arguments={"approximate": "tanh"},
        ulp=100,  # the rounding of the cubic argument is amplified, as in gelu
        slope_ulp=100,
    ),
    "reglu": PairCase(fastgrad.reglu, *_product(_relu, lambda x: [np.where(x > 0, 1.0, 0.0)])),
}
GRADIENTS = {
    "swiglu": fastgrad.swiglu_grad,
    "geglu": fastgrad.geglu_grad,
    "reglu": fastgrad.reglu_grad,
}


@pytest.mark.parametrize("name", CASES)
def test_two_arrays(name):
    check_pair(CASES[name])


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("gate", ["first", "last"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_packed_is_the_two_halves(name, axis, gate, dtype):
    operator, gradient = getattr(fastgrad, name), GRADIENTS[name]
    rng = np.random.default_rng(0)
    x = rng.normal(0, 2, (6, 4, 86)).astype(dtype)
    halves = np.split(x, 2, axis) if gate == "first" else np.split(x, 2, axis)[::-1]
    dy = rng.normal(0, 1, halves[0].shape).astype(dtype)
    y, gradients = operator(*halves), gradient(dy, *halves)
    expected = np.concatenate(gradients if gate == "first" else gradients[::-1], axis)
    for layout, own in layouts(x).items():
        before = own.tobytes()
        assert same_bits(operator(own, gate=gate, axis=axis), y), layout
        dx = gradient(dy, own, gate=gate, axis=axis)
        assert same_bits(dx, expected), layout
        assert dx.strides == np.empty_like(own, dtype=dtype).strides, layout
        assert own.tobytes() == before
    out = np.full_like(x, np.nan)
    assert gradient(dy, x, gate=gate, axis=axis, out=out) is out
    assert same_bits(out, expected)
    own = x.copy()  # in place
    assert gradient(dy, own, gate=gate, axis=axis, out=own) is own
    assert same_bits(own, expected)


@pytest.mark.parametrize("rows", [1, 3, 700])
def test_packed_rows_longer_than_a_tile(rows):
    rng = np.random.default_rng(1)
    x = rng.normal(0, 2, (rows, 2 * 3000)).astype(np.float32)
    dy = rng.normal(0, 1, (rows, 3000)).astype(np.float32)
    gate, up = (np.ascontiguousarray(half) for half in np.split(x, 2, -1))
    assert same_bits(fastgrad.swiglu(x), fastgrad.swiglu(gate, up))
    expected = np.concatenate(fastgrad.swiglu_grad(dy, gate, up), -1)
    assert same_bits(fastgrad.swiglu_grad(dy, x), expected)


def test_glu_is_pytorchs():
    x = np.random.default_rng(0).normal(0, 2, (4, 6, 10))
    for axis in (-1, 0, 1, 2):
        a, b = np.split(x, 2, axis)
        dy = np.random.default_rng(1).normal(size=a.shape)
        s = ref.sigmoid(b)
        np.testing.assert_allclose(fastgrad.glu(x, axis), a * s, rtol=1e-14)
        expected = np.concatenate([dy * s, dy * a * s * ref.sigmoid(-b)], axis)
        np.testing.assert_allclose(fastgrad.glu_grad(dy, x, axis), expected, rtol=1e-14)
    out = np.empty((4, 6, 5))
    assert fastgrad.glu(x, out=out) is out


def test_B15_every_row_has_its_own_gradient():
    gate, up, dy = np.array([[1.0], [-1.0]]), np.array([[2.0], [3.0]]), np.ones((2, 1))
    np.testing.assert_allclose(
        fastgrad.swiglu(gate, up), [[1.46211715726001], [-0.806824264109985]], rtol=1e-14
    )
    outs = (np.full((2, 1), np.nan), np.full((2, 1), np.nan))
    dgate, dup = fastgrad.swiglu_grad(dy, gate, up, out=outs)
    np.testing.assert_allclose(dgate, [[1.85534102374297], [0.21698846438554]], rtol=1e-13)
    np.testing.assert_allclose(dup, [[0.731058578630005], [-0.268941421369995]], rtol=1e-13)
    packed = np.concatenate([np.tile(gate, (3, 1)), np.tile(up, (3, 1))], 1)
    dx = fastgrad.swiglu_grad(np.ones((6, 1)), packed)
    np.testing.assert_allclose(dx, np.tile(np.concatenate([dgate, dup], 1), (3, 1)))


def test_special_values_stay_where_they_are():
    gate = np.array([np.nan, np.inf, -np.inf, 1.0, -1.0], np.float32)
    up = np.array([1.0, 2.0, 2.0, np.nan, 1.0], np.float32)
    for operator in (fastgrad.swiglu, fastgrad.geglu, fastgrad.reglu):
        y = operator(gate, up)
        assert np.isnan(y).tolist() == [True, False, False, True, False]
        assert y[1] == np.inf and y[2] == 0
        dgate, dup = operator.grad(np.ones_like(gate), gate, up)
        assert np.isnan(dgate)[[0, 3]].all() or operator is fastgrad.reglu
        assert dgate[1:3].tolist() == [2.0, 0.0]
        assert np.isnan(dup).tolist() == [True, False, False, False, False]


def test_a_user_composes_them():
    @fastgrad.elementwise
    def gated_square(x, up):
        return fastgrad.swiglu(x, up) ** 2

    x, up = np.array([1.0, -2.0]), np.array([3.0, 0.5])
    np.testing.assert_allclose(gated_square(x, up), (ref.swish(x) * up) ** 2, rtol=1e-14)


def test_vjp_and_pickle():
    import pickle

    x = np.random.default_rng(0).normal(size=(3, 8))
    y, pullback = fastgrad.vjp(fastgrad.swiglu, x)
    (dx,) = pullback(np.ones_like(y))
    assert same_bits(dx, fastgrad.swiglu_grad(np.ones_like(y), x))
    assert pullback.kept[0] is x
    y, pullback = fastgrad.vjp(fastgrad.geglu, x, x, approximate="tanh")
    assert len(pullback(np.ones_like(y))) == 2
    assert pickle.loads(pickle.dumps(fastgrad.swiglu)) is fastgrad.swiglu


def test_bad_arguments():
    x = np.ones((2, 5))
    with pytest.raises(ValueError, match=r"axis -1, whose length must be even: got shape \(2, 5\)"):
        fastgrad.swiglu(x)
    with pytest.raises(ValueError, match="gate must be one of 'first', 'last', got 'middle'"):
        fastgrad.swiglu(x, axis=0, gate="middle")
    with pytest.raises(ValueError, match=r"axis must be in \[-2, 2\)"):
        fastgrad.swiglu(x, axis=2)
    with pytest.raises(TypeError, match="axis must be an integer, got float"):
        fastgrad.glu(x, 0.0)
    with pytest.raises(ValueError, match=r"dy must have the shape of half of x, \(1, 5\)"):
        fastgrad.swiglu_grad(x, x, axis=0)
    with pytest.raises(ValueError, match=r"out must have the shape of x, \(2, 5\), got \(1, 5\)"):
        fastgrad.swiglu_grad(np.ones((1, 5)), x, axis=0, out=np.empty((1, 5)))
    own = np.ones((3, 5))
    with pytest.raises(ValueError, match="out overlaps x in part"):
        fastgrad.swiglu_grad(np.ones((1, 5)), own[:2], axis=0, out=own[1:])
    with pytest.raises(ValueError, match="wrt must be 'x' for a packed array"):
        fastgrad.swiglu.grad(np.ones((1, 5)), x, axis=0, wrt="gate")
    with pytest.raises(TypeError, match="two operands: gate and up"):
        fastgrad.elementwise(lambda_of_packed).trace()


def lambda_of_packed(x):
    return fastgrad.swiglu(x)
