"""Operators of several arrays: broadcasting, and gradients reduced to the shape of what is broadcast."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad
from pair_checking import PairCase, check_pair


@fastgrad.elementwise
def product(x, y, z):
    return x * y + z


def _slopes(x, y, z):
    one = np.ones_like(x * y * z)
    return (y * one, y * one), (x * one, x * one), (one, one)


def test_three_arrays():
    case = PairCase(
        product,
        lambda x, y, z: x * y + z,
        _slopes,
        scale=lambda x, y, z: np.abs(x * y) + np.abs(z),
    )
    check_pair(case)


def test_no_array_has_the_shape_of_the_result():
    x, y, z = np.ones((4, 1)), np.full((1, 3), 2.0), np.zeros(())
    assert product(x, y, z).tolist() == [[2.0] * 3] * 4
    dx, dy, dz = product.grad(np.ones((4, 3)), x, y, z)
    assert dx.tolist() == [[6.0]] * 4
    assert dy.tolist() == [[4.0] * 3]
    assert dz.shape == () and dz == 12.0


def test_a_python_number_takes_the_dtype_of_the_arrays():
    x = np.arange(3, dtype=np.float32)
    assert product(x, 2, 0.5).dtype == np.float32
    assert product(2.0, x, 1).tolist() == [1.0, 3.0, 5.0]
    dx, dy, dz = product.grad(np.ones_like(x), x, 2, 0.5)
    assert dx.dtype == np.float32
    assert (dy, dz) == (3.0, 3.0) and type(dy) is type(dz) is float


@pytest.mark.parametrize("empty", [(0, 4), (4, 0)])
def test_empty_arrays(empty):
    x, bias = np.zeros(empty), np.ones(empty[1])
    dx, dy, dz = product.grad(np.zeros(empty), x, bias, np.ones(1))
    assert dx.shape == empty and dy.tolist() == [0.0] * empty[1] and dz.tolist() == [0.0]


def test_sums_over_axes_that_do_not_follow_each_other():
    """Two operands that no one order of the axes can sum together: two launches."""
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=(2, 3, 4, 5)), rng.normal(size=(2, 3, 4, 5))
    y, z = rng.normal(size=(2, 1, 4, 1)), rng.normal(size=(1, 3, 1, 5))
    dx, dy_, dz = product.grad(dy, x, y, z)
    np.testing.assert_allclose(dx, dy * y, rtol=1e-14)
    np.testing.assert_allclose(dy_, (dy * x).sum((1, 3), keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(dz, dy.sum((0, 2), keepdims=True), rtol=1e-12)


def test_parameters_beside_broadcast_arrays():
    @fastgrad.elementwise
    def scaled_sum(x, bias, scale=2.0):
        return scale * (x + bias)

    x, bias = np.ones((3, 4)), np.arange(4.0)
    dx, dbias, dscale = scaled_sum.grad(np.ones((3, 4)), x, bias, 3.0)
    assert dx.tolist() == [[3.0] * 4] * 3
    assert dbias.tolist() == [9.0] * 4
    assert dscale == 3 * (1 + 2 + 3 + 4)
    scale = np.arange(1.0, 4.0)
    dx, dbias, dscale = scaled_sum.grad(np.ones((3, 4)), x, bias, scale, axis=0)
    assert dx[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert dbias.tolist() == [6.0] * 4
    assert dscale.tolist() == [10.0] * 3


def test_bad_operands_are_told_apart():
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match=r"broadcast together, got shapes x \(2, 3\), y \(4,\)"):
        product(x, np.ones(4), x)
    with pytest.raises(TypeError, match="y must have the dtype of x, float64, got float32"):
        product(x, x.astype(np.float32), x)
    with pytest.raises(ValueError, match=r"dy must have the shape of x, \(2, 3\), got \(3,\)"):
        product.grad(np.ones(3), x, np.ones(3), np.ones(3))
    with pytest.raises(TypeError, match="y must be float16"):
        product(x, np.ones(3, int), x)
    with pytest.raises(TypeError, match="z is a masked array"):
        product(x, x, np.ma.array([1.0]))


def test_out_for_the_gradient_of_a_broadcast_array():
    x, bias, dy = np.ones((3, 4)), np.ones(4), np.ones((3, 4))
    out = np.full(4, np.nan)
    gradients = product.grad(dy, x, bias, bias, wrt=("x", "z"), out=(None, out))
    assert gradients[1] is out
    assert out.tolist() == [3.0] * 4
    with pytest.raises(ValueError, match=r"out for z must have the shape of x, \(4,\)"):
        product.grad(dy, x, bias, bias, wrt="z", out=np.empty((3, 4)))
    with pytest.raises(ValueError, match="out has 2 arrays, there are 1"):
        product.grad(dy, x, bias, bias, wrt="z", out=(out, out))


def test_a_wide_sum_of_few_rows():
    """As of a positional embedding: more sums than a unit of work has elements."""
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 300, 500)), rng.normal(size=(300, 500))
    dy = rng.normal(size=x.shape)
    (dz,) = product.grad(dy, x, x, z, wrt="z")
    np.testing.assert_allclose(dz, dy.sum(0), rtol=1e-14)


def test_pullback_gives_each_array_its_gradient():
    x, bias = np.ones((3, 4), np.float32), np.ones(4, np.float32)
    y, pullback = fastgrad.vjp(product, x, x, bias)
    gradients = pullback(np.ones_like(y))
    assert [gradient.shape for gradient in gradients] == [(3, 4), (3, 4), (4,)]
    assert len(pullback.kept) == 3


def test_in_place_where_two_launches_are_needed():
    """The launch that writes over an operand is the last: the others read it."""
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=(2, 2, 3, 4, 5))
    y, z = rng.normal(size=(2, 1, 4, 1)), rng.normal(size=(1, 3, 4, 1))

    @fastgrad.elementwise
    def triple(x, y, z):
        return x * y * z

    expected = triple.grad(dy, x, y, z)
    for wrt in (("x", "y", "z"), ("z", "y", "x")):
        own = x.copy()
        got = dict(
            zip(wrt, triple.grad(dy, own, y, z, wrt=wrt, out=_place("x", wrt, own)), strict=True)
        )
        assert got["x"] is own
        for name, right in zip("xyz", expected, strict=True):
            np.testing.assert_array_equal(got[name], right)


def _place(name, wrt, array):
    return tuple(array if own == name else None for own in wrt)


def test_out_for_a_broadcast_array_overlaps_nothing_else():
    x, bias, dy = np.ones((3, 4)), np.ones(4), np.ones((3, 4))
    out = np.empty((3, 4))
    with pytest.raises(ValueError, match=r"out for z overlaps that for x: pass memory of its own"):
        product.grad(dy, x, x, bias, wrt=("x", "z"), out=(out, out[0]))
    for operand, name in ((x, "x"), (dy, "dy")):
        with pytest.raises(ValueError, match=rf"out for z overlaps {name} in part"):
            product.grad(dy, x, x[1:2], bias, wrt="z", out=operand[0])
    assert product.grad(dy, x, x, bias, wrt="z", out=bias)[0] is bias
    assert bias.tolist() == [3.0] * 4
