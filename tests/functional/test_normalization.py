"""Norms: values, gradients, bits, and what is refused."""

from __future__ import annotations

import dataclasses
import functools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgrad
import norm_references as ref
from checking import same_bits
from norm_checking import (
    Norm,
    by_channels,
    by_groups,
    by_rows,
    check_norm,
    check_values,
    compare,
    expected,
    ordinary,
)
from rounding import DTYPES, as_float64, rounded, spacing


def group_case(num_groups, data_format="NCHW", shapes=(), shape=(3, 6, 43), **more):
    arguments = {"num_groups": num_groups, "data_format": data_format}
    places = functools.partial(by_groups, **arguments)
    return Norm(
        *(fastgrad.group_norm, fastgrad.group_norm_grad, places, [*shapes], shape),
        arguments=arguments,
        **more,
    )


def layer_case(axes=1, shapes=()):
    places = functools.partial(by_rows, axes=axes)
    arguments = {"axes": axes}
    return Norm(
        fastgrad.layer_norm, fastgrad.layer_norm_grad, places, [*shapes], arguments=arguments
    )


def rms_case(axes=1, shapes=()):
    places = functools.partial(by_rows, axes=axes)
    return Norm(
        fastgrad.rms_norm,
        fastgrad.rms_norm_grad,
        places,
        [*shapes],
        arguments={"axes": axes},
        eps=1e-6,
        is_rms=True,
    )


CASES = {
    # A group of more than 65,536 elements; three channels a group; 3 to 5 dimensions; one item.
    "group_norm": group_case(
        2, shapes=[(1, 6, 30_000), (2, 6, 5, 7), (3, 6, 2, 3, 5), (4, 6), (2, 6, 1)]
    ),
    # Channels that are a walk of their own where they come last: split, in one piece, few and many items.
    "group_norm, channels last": group_case(
        *(4, "NHWC", [(1, 4_000, 20), (2, 5, 7, 20), (70, 3, 20), (2, 1, 20)], (3, 43, 20)),
        recomputed=(np.float32,),
        small=(2, 3, 16),
    ),
    "layer_norm": layer_case(shapes=[(2, 200_000), (1025, 4), (7, 67), (3, 2, 5, 33)]),
    "rms_norm": rms_case(shapes=[(2, 200_000), (1025, 4), (7, 67), (3, 2, 5, 33)]),
    "instance_norm": Norm(
        fastgrad.instance_norm,
        fastgrad.instance_norm_grad,
        by_groups,
        [(1, 2, 70_000), (2, 3, 5, 7), (1, 3, 2, 3, 5)],
    ),
    "batch_norm": Norm(
        fastgrad.batch_norm,
        fastgrad.batch_norm_grad,
        by_channels,
        [(4, 2, 20_000), (5, 3, 4, 7), (67, 3), (2, 3, 2, 3, 5)],
        over_batch=True,
    ),
    "group_norm_swish": Norm(
        fastgrad.group_norm_swish,
        fastgrad.group_norm_swish_grad,
        functools.partial(by_groups, num_groups=2),
        [(1, 6, 30_000), (2, 6, 5, 7), (3, 6, 2, 3, 5)],
        arguments={"num_groups": 2, "swish_beta": 1.25},
        swish_beta=1.25,
        recomputed=(np.float32,),
    ),
    "add_layer_norm": Norm(
        fastgrad.add_layer_norm,
        fastgrad.add_layer_norm_grad,
        by_rows,
        [(2, 70_000), (1025, 4), (7, 67)],
        has_residual=True,
        recomputed=(np.float32,),
    ),
    "add_rms_norm": Norm(
        fastgrad.add_rms_norm,
        fastgrad.add_rms_norm_grad,
        by_rows,
        [(2, 70_000), (1025, 4), (7, 67)],
        eps=1e-6,
        is_rms=True,
        has_residual=True,
        recomputed=(np.float32,),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_norm(name):
    check_norm(CASES[name])


# --- Shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_groups", [1, 2, 3, 6])
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("places", [(), (1,), (35,), (5, 7), (2, 3, 5)])
def test_groups_and_formats(num_groups, data_format, places):
    """Spatial axes 0 to 3; one item and three."""
    case = group_case(num_groups, data_format)
    for items in (1, 3):
        shape = (items, 6, *places) if data_format == "NCHW" else (items, *places, 6)
        if 6 // num_groups * int(np.prod(places)) > 1:
            check_values(case, ordinary(case, shape, np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("places", [(35,), (5, 7), (2, 3, 5)])
def test_channels_last_is_channels_first(dtype, places):
    """The same bits, from the last axis as from the first, where channels are few."""
    case = group_case(2)
    data = ordinary(case, (3, 6, *places), dtype)
    first = (*case.forward(data), *case.backward(data))
    last_case = group_case(2, "NHWC")
    turned = {own: np.moveaxis(getattr(data, own), 1, -1).copy() for own in ("x", "dy")}
    last = (
        *last_case.forward(data.replaced(**turned)),
        *last_case.backward(data.replaced(**turned)),
    )
    for index, (a, b) in enumerate(zip(first, last, strict=True)):
        assert same_bits(a, np.moveaxis(b, -1, 1) if index in (0, 3) else b), index


def test_channels_last_of_the_others():
    for name in ("instance_norm", "batch_norm", "group_norm_swish"):
        case = CASES[name]
        data = ordinary(case, (3, 6, 5, 7), np.float32)
        turned = {own: np.moveaxis(getattr(data, own), 1, -1).copy() for own in ("x", "dy")}
        arguments = {**case.arguments, "data_format": "NHWC"}
        last = Norm(case.operator, case.grad, case.places, [], (), arguments,
                    swish_beta=case.swish_beta)  # fmt: skip
        moved = data.replaced(**turned)
        first = (*case.forward(data), *case.backward(data))
        for index, (a, b) in enumerate(
            zip(first, (*last.forward(moved), *last.backward(moved)), strict=True)
        ):
            assert same_bits(a, np.moveaxis(b, -1, 1) if index in (0, 3) else b), (name, index)


@pytest.mark.parametrize("name", ["instance_norm", "batch_norm", "group_norm_swish"])
def test_many_channels_last(name):
    """The walk of channels that come last, with every operator that has it, beside the reference."""
    case = CASES[name]
    arguments = {**case.arguments, "data_format": "NHWC"}
    places = functools.partial(case.places, data_format="NHWC")
    last = dataclasses.replace(case, arguments=arguments, places=places)
    for shape in ((1, 4_000, 18), (40, 2, 3, 18)):
        check_values(last, ordinary(last, shape, np.float32), recomputed=False)


def test_channels_last_whole_and_split():
    """An item has the same bits alone, where its pieces are spread over the cores, and among many."""
    case = group_case(4, "NHWC")
    data = ordinary(case, (33, 2_000, 64), np.float32)
    y, *stats = case.forward(data)
    dx = case.backward(data, stats)[0]
    own = data.replaced(x=data.x[5:6], dy=data.dy[5:6])
    got, *own_stats = case.forward(own)
    assert same_bits(got, y[5:6])
    assert all(same_bits(a, b[5:6]) for a, b in zip(own_stats, stats))
    assert same_bits(case.backward(own, own_stats)[0], dx[5:6])


@pytest.mark.parametrize("make", [layer_case, rms_case])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_axes(make, axes):
    case = make(axes)
    for dtype in (np.float32, np.float64):
        check_values(case, ordinary(case, (4, 5, 6), dtype))


def test_a_long_group_among_many():
    """Split where there are few, whole where there are many: the same bits."""
    shapes = {
        "group_norm": (40, 2, 35_000),
        "layer_norm": (600, 70_000),
        "group_norm_swish": (
            40,
            2,
            140_000,
        ),  # a group too long to keep values of it between passes
    }
    for name, shape in shapes.items():
        case = CASES[name]
        rng = np.random.default_rng(5)
        x = rng.normal(1, 2, shape).astype(np.float32)
        small = ordinary(case, shape[:1] + (2,) * (len(shape) - 1), np.float32)
        count = shape[1]
        gamma, beta = (rng.normal(1, 0.5, count).astype(np.float32) for _ in range(2))
        data = small.replaced(x=x, dy=x[::-1].copy(), gamma=gamma, beta=beta)
        y, *stats = case.forward(data)
        dx = case.backward(data, stats)[0]
        for chosen in (slice(0, 1), slice(7, 10)):
            own = data.replaced(x=x[chosen], dy=data.dy[chosen])
            got, *own_stats = case.forward(own)
            assert same_bits(got, y[chosen]), name
            assert all(same_bits(a, b[chosen]) for a, b in zip(own_stats, stats)), name
            assert same_bits(case.backward(own, own_stats)[0], dx[chosen]), name


def test_without_parameters():
    x = np.random.default_rng(0).normal(1, 2, (3, 6, 35))
    dy = x[::-1].copy()
    one = np.ones(6)
    y = fastgrad.group_norm(x, 2)
    exact = fastgrad.group_norm(x, 2, one, 0 * one, return_stats=True)[0]
    np.testing.assert_allclose(y, exact, rtol=1e-12, atol=1e-14)
    dx, dgamma, dbeta = fastgrad.group_norm_grad(dy, x, 2)
    assert dgamma is None and dbeta is None
    exact = fastgrad.group_norm_grad(dy, x, 2, one)[0]
    np.testing.assert_allclose(dx, exact, rtol=1e-12, atol=1e-14)
    dx, dgamma = fastgrad.rms_norm_grad(dy, x)
    assert dgamma is None


def test_swish_without_places():
    case = CASES["group_norm_swish"]
    for shape in ((4, 6), (1, 6, 1)):
        check_values(case, ordinary(case, shape, np.float64), recomputed=False)


@pytest.mark.parametrize("swish_beta", [1.0, 1.25])
@pytest.mark.parametrize("items", [8, 9, 64, 300])
def test_swish_without_places_of_many_items(items, swish_beta):
    """Rows of 9 items and more go through the last pass together: each has kept values of its own."""
    arguments = {"num_groups": 4, "swish_beta": swish_beta}
    case = dataclasses.replace(
        CASES["group_norm_swish"],
        places=functools.partial(by_groups, num_groups=4),
        arguments=arguments,
        swish_beta=swish_beta,
    )
    for places in ((), (1,)):
        for dtype in (np.float32, np.float64):
            data = ordinary(case, (items, 32, *places), dtype)
            check_values(case, data, recomputed=False)


@settings(max_examples=40, deadline=None)
@given(
    items=st.integers(1, 4),
    num_groups=st.integers(1, 4),
    channels=st.integers(1, 3),
    places=st.integers(1, 67),
    data_format=st.sampled_from(["NCHW", "NHWC"]),
    seed=st.integers(0, 99),
)
def test_any_group_norm(items, num_groups, channels, places, data_format, seed):
    case = group_case(num_groups, data_format)
    count = num_groups * channels
    shape = (items, count, places) if data_format == "NCHW" else (items, places, count)
    if channels * places > 2:  # two elements may lie so near to each other that nothing is exact
        check_values(case, ordinary(case, shape, np.float64, seed=seed))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 67),
    lanes=st.integers(3, 67),
    make=st.sampled_from([layer_case, rms_case]),
    seed=st.integers(0, 99),
)
def test_any_layer_norm(rows, lanes, make, seed):
    case = make()
    check_values(case, ordinary(case, (rows, lanes), np.float64, seed=seed))


# --- Hard values ----------------------------------------------------------------------------------


def _check_rows(x, case=None, seed=11):
    """A layer norm of the rows of x, with ordinary dy and parameters, against the reference."""
    case = layer_case() if case is None else case
    data = ordinary(case, x.shape, x.dtype.type, seed=seed).replaced(x=x)
    check_values(case, data)


def test_large_mean():
    steps = np.float32(1e5) + np.arange(4, dtype=np.float32)
    _check_rows(np.tile(steps, (3, 1)))
    noise = np.random.default_rng(0).normal(0, 1, (20, 500))
    _check_rows((1e5 + noise).astype(np.float32))
    # A mean of 64 sits 1,000 spreads away: as near as half and bfloat16 can tell.
    for dtype in DTYPES[:2]:
        _check_rows((64 + np.random.default_rng(0).integers(0, 2, (20, 500))).astype(dtype))
    groups = (1e5 + np.random.default_rng(0).normal(0, 1, (2, 6, 500))).astype(np.float32)
    _check_rows(groups, group_case(2))


def test_large_mean_among_pieces():
    """The mean drifts along a row: moments of chunks and pieces are put together."""
    ramp = np.linspace(-1e4, 1e4, 150_000)
    noise = np.random.default_rng(0).normal(0, 1, (2, 150_000))
    _check_rows((ramp + noise).astype(np.float32))


@pytest.mark.parametrize("make", [layer_case, rms_case])
def test_large_and_small_float32(make):
    rng = np.random.default_rng(0)
    for scale in (1e30, 1e-3):
        _check_rows((rng.normal(0, scale, (5, 300))).astype(np.float32), make())


@pytest.mark.parametrize("make", [layer_case, rms_case])
def test_half_up_to_its_largest(make):
    rng = np.random.default_rng(0)
    x = (rng.uniform(-65504, 65504, (5, 300))).astype(np.float16)
    x[0, ::2], x[0, 1::2] = 65504, 65472
    x[1, ::2], x[1, 1::2] = 65504, -65504
    _check_rows(x, make())


def test_half_with_one_other_element():
    """The mean lies so close to all others that float32 does not tell: statistics are not given."""
    case = layer_case()
    x = np.full((1, 300), 65504, np.float16)
    x[0, 0] = 65472
    data = ordinary(case, x.shape, np.float16).replaced(x=x)
    right = expected(case, data, False)
    compare("y", case.forward(data)[0], *right["y"])
    compare("dx", case.backward(data)[0], *right["dx"])


@pytest.mark.parametrize("make", [layer_case, rms_case])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float32])
def test_sums_beyond_the_largest_number(make, dtype):
    """Σ dy · x is beyond float32: the gradient, of the size of 1 / x, is not."""
    x = np.random.default_rng(0).uniform(-1e37, 3e37, (5, 300)).astype(dtype)
    case = make()
    data = ordinary(case, x.shape, dtype)
    dy = (np.sign(as_float64(x)) * np.abs(as_float64(data.dy))).astype(dtype)
    check_values(case, data.replaced(x=x, dy=dy, gamma=np.abs(data.gamma)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0.0, 1234.0, -65504.0, 0.1])
def test_constant_row(dtype, value):
    """y is beta; dx is what dy has besides its mean, over the root of eps."""
    x = np.full((2, 6, 50), value, dtype)
    dy = np.random.default_rng(0).normal(0, 0.01, x.shape).astype(dtype)
    gamma, beta = np.full(6, 2, dtype), np.linspace(-1, 1, 6).astype(dtype)
    for case in (group_case(2), CASES["instance_norm"]):
        data = ordinary(case, x.shape, dtype).replaced(x=x, dy=dy, gamma=gamma, beta=beta)
        y, *stats = case.forward(data)
        assert same_bits(y, np.broadcast_to(beta[:, None], x.shape).astype(dtype))
        np.testing.assert_allclose(stats[1], 1e-5**-0.5, rtol=1e-7)
        check_values(case, data)
        assert not as_float64(case.backward(data, stats)[1]).any()
    row = x.reshape(12, 50)
    beta = np.full(50, 0.25, dtype)
    y = fastgrad.layer_norm(row, np.ones(50, dtype), beta, return_stats=True)[0]
    assert (as_float64(y) == 0.25).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_a_group(dtype):
    x = np.array([[1e4, -3, 0.1, 7], [5, 1e-3, -0.0, 2]], dtype)
    gamma, beta = np.array([2, 3, -1, 0.5], dtype), np.array([3, 0.1, -1, 2], dtype)
    dy = np.array([[1, 2, 3, 4], [0.5, -1, 0.25, 2]], dtype)
    for stats in (True, False):
        y, *own = fastgrad.group_norm(x, 4, gamma, beta, return_stats=True)
        given = dict(zip(("mean", "rstd"), own)) if stats else {}
        dx, dgamma, dbeta = fastgrad.group_norm_grad(dy, x, 4, gamma, **given)
        assert np.array_equal(as_float64(y), np.tile(as_float64(beta), (2, 1)))
        assert not as_float64(dx).any() and not as_float64(dgamma).any()
        assert np.array_equal(as_float64(dbeta), as_float64(dy).sum(axis=0))
    places = x.reshape(2, 4, 1)
    y, *own = fastgrad.instance_norm(places, gamma, beta, return_stats=True)
    assert np.array_equal(as_float64(y)[..., 0], np.tile(as_float64(beta), (2, 1)))
    dx, dgamma, _ = fastgrad.instance_norm_grad(dy.reshape(2, 4, 1), places, gamma, *own)
    assert not as_float64(dx).any() and not as_float64(dgamma).any()
    column = x.reshape(8, 1)
    dx, dgamma, _ = fastgrad.layer_norm_grad(dy.reshape(8, 1), column, gamma[:1])
    assert not as_float64(dx).any() and not as_float64(dgamma).any()


def test_bfloat16_sums_over_many_rows():
    """Right to the rounding of the result: they are not added up in bfloat16, nor in float32."""
    dtype = ml_dtypes.bfloat16
    rng = np.random.default_rng(0)
    x = rng.normal(1, 2, (4096, 40)).astype(dtype)
    dy = (0.25 * as_float64(x) + rng.normal(0, 0.5, x.shape)).astype(dtype)
    gamma = rng.uniform(0.5, 2, 40).astype(dtype)
    rows = ref.normalised(as_float64(x), 1e-5)
    _, dgamma, dbeta = fastgrad.layer_norm_grad(dy, x, gamma)
    for got, terms in ((dgamma, as_float64(dy) * rows.z), (dbeta, as_float64(dy))):
        exact = terms.sum(axis=0)
        assert (np.abs(exact) > 0.1 * np.abs(terms).sum(axis=0)).all()  # well conditioned
        error = np.abs(as_float64(got) - exact) / spacing(exact, dtype)
        assert error.max() <= 0.5 + 1e-3
        assert (got == rounded(exact, dtype)).mean() >= 0.9


# --- Nothing in the batch -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 4), (0, 4, 2, 2)])
def test_empty_batch(shape):
    x, one = np.empty(shape, np.float32), np.ones(4, np.float32)
    calls = [(fastgrad.group_norm, fastgrad.group_norm_grad, (2,))]
    if len(shape) == 2:
        calls += [(fastgrad.layer_norm, fastgrad.layer_norm_grad, ())]
        calls += [(fastgrad.rms_norm, fastgrad.rms_norm_grad, ())]
    else:
        calls += [(fastgrad.instance_norm, fastgrad.instance_norm_grad, ())]
    for forward, grad, arguments in calls:
        y = forward(x, *arguments, one)
        assert y.shape == shape and y.dtype == x.dtype
        dx, *sums = grad(x, x, *arguments, one)
        assert dx.shape == shape and sums
        for own in sums:
            assert own.shape == (4,) and own.dtype == np.float32 and not own.any()
    y, mean, rstd = fastgrad.group_norm(x, 2, one, return_stats=True)
    assert mean.shape == rstd.shape == (0, 2)


def test_empty_batch_of_the_others():
    x, one = np.empty((0, 4), np.float32), np.ones(4, np.float32)
    y, total = fastgrad.add_layer_norm(x, x, one, one)
    assert y.shape == total.shape == (0, 4)
    dx, dgamma, dbeta = fastgrad.add_layer_norm_grad(x, x, x, one)
    assert dx.shape == (0, 4) and same_bits(dgamma, 0 * one) and same_bits(dbeta, 0 * one)
    dx, dgamma = fastgrad.add_rms_norm_grad(x, x, x, one)
    assert dx.shape == (0, 4) and same_bits(dgamma, 0 * one)
    dx, dgamma, dbeta = fastgrad.group_norm_swish_grad(x, x, 2, one, one)
    assert dx.shape == (0, 4) and same_bits(dgamma, 0 * one) and same_bits(dbeta, 0 * one)


def test_nothing_to_normalise_over():
    one = np.ones(4)
    for call in (
        lambda: fastgrad.layer_norm(np.empty((3, 0))),
        lambda: fastgrad.rms_norm(np.empty((3, 0))),
        lambda: fastgrad.group_norm(np.empty((3, 4, 0)), 2, one, one),
        lambda: fastgrad.instance_norm(np.empty((3, 4, 0)), one, one),
        lambda: fastgrad.batch_norm(np.empty((0, 4)), one, one),
    ):
        with pytest.raises(ValueError, match=r"x of shape .* has no element to normalise over"):
            call()


# --- Batch norm -----------------------------------------------------------------------------------


def _batch(dtype=np.float32):
    return ordinary(CASES["batch_norm"], (5, 3, 4, 7), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_running_averages(dtype):
    data = _batch(dtype)
    old_mean = np.array([1, 2, 3], np.float32)
    old_var = np.array([4.0, 5, 6])
    kept = old_mean.copy(), old_var.copy()
    old_mean.setflags(write=False)
    old_var.setflags(write=False)
    y, mean, var = fastgrad.batch_norm(
        data.x, data.gamma, data.beta, old_mean, old_var, momentum=0.25
    )
    rows = as_float64(data.x).transpose(1, 0, 2, 3).reshape(3, -1)
    np.testing.assert_allclose(mean, 0.75 * kept[0] + 0.25 * rows.mean(1), rtol=1e-6)
    rtol = 1e-6 if np.dtype(dtype).itemsize == 2 else 1e-12
    np.testing.assert_allclose(var, 0.75 * kept[1] + 0.25 * rows.var(1, ddof=1), rtol=rtol)
    assert mean.dtype == np.float32 and var.dtype == np.float64
    assert same_bits(old_mean, kept[0]) and same_bits(old_var, kept[1])
    assert not np.shares_memory(mean, old_mean) and not np.shares_memory(var, old_var)
    assert same_bits(y, fastgrad.batch_norm(data.x, data.gamma, data.beta))
    results = fastgrad.batch_norm(
        data.x, data.gamma, data.beta, old_mean, old_var, momentum=0.25, return_stats=True
    )
    assert len(results) == 5
    assert same_bits(results[1], mean) and same_bits(results[2], var)


def test_running_variance_of_large_eps():
    """It is that of the batch, not what is left of it beside eps."""
    x = (1e-4 * np.random.default_rng(0).normal(0, 1, (50, 3))).astype(np.float32)
    zero = np.zeros(3)
    _, _, var = fastgrad.batch_norm(x, None, None, zero, zero, momentum=1.0)
    np.testing.assert_allclose(var, x.astype(np.float64).var(0, ddof=1), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_batch_norm_at_inference(dtype):
    data = _batch(dtype)
    mean = np.array([0.5, 1, 2], np.float32)
    var = np.array([0.25, 1, 9], np.float32)
    kept = mean.copy(), var.copy()
    y = fastgrad.batch_norm(data.x, data.gamma, data.beta, mean, var, training=False)
    again, used_mean, rstd = fastgrad.batch_norm(
        data.x, data.gamma, data.beta, mean, var, training=False, return_stats=True
    )
    assert same_bits(again, y) and y.dtype == dtype
    assert same_bits(mean, kept[0]) and same_bits(var, kept[1])

    def column(values):
        return as_float64(values)[None, :, None, None]

    root = 1 / np.sqrt(column(var) + 1e-5)
    np.testing.assert_allclose(rstd, root.reshape(-1), rtol=1e-6)
    rows = ref.given(as_float64(data.x), column(mean), root)
    compare("y", y, *ref.affine(rows, column(data.gamma), column(data.beta)))
    dx, dgamma, dbeta = fastgrad.batch_norm_grad(
        data.dy, data.x, data.gamma, used_mean, rstd, training=False
    )
    dy = as_float64(data.dy)
    exact = dy * column(data.gamma) * root
    compare("dx", dx, exact, np.abs(exact))
    for got, terms in ((dgamma, dy * rows.z), (dbeta, dy)):
        compare("sums", got, terms.sum((0, 2, 3)), np.abs(terms).max((0, 2, 3)))
    # An item alone gives the same bits: nothing of the batch is used.
    alone = fastgrad.batch_norm(data.x[2:3], data.gamma, data.beta, mean, var, training=False)
    assert same_bits(alone, y[2:3])


# --- What is refused ------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(0, 1, (2, 6, 4)).astype(np.float32)
SIX = np.ones(6, np.float32)
FOUR = np.ones(4, np.float32)
GROUPED = (
    (fastgrad.group_norm, fastgrad.group_norm_grad),
    (fastgrad.group_norm_swish, fastgrad.group_norm_swish_grad),
)


@pytest.mark.parametrize(
    ("num_groups", "error", "message"),
    [
        (4, ValueError, r"num_groups must divide the channels, 6 in x of shape \(2, 6, 4\), got 4"),
        (12, ValueError, r"num_groups must divide the channels, 6 .* got 12"),
        (0, ValueError, r"num_groups must be at least 1, got 0"),
        (-1, ValueError, r"num_groups must be at least 1, got -1"),
        (2.0, TypeError, r"num_groups must be an integer.*2\.0"),
        (True, TypeError, r"num_groups must be an integer.*True"),
        ("2", TypeError, r"num_groups must be an integer"),
        (None, TypeError, r"num_groups must be an integer"),
    ],
)
def test_wrong_num_groups(num_groups, error, message):
    out = np.full_like(X, np.nan)
    for forward, grad in GROUPED:
        with pytest.raises(error, match=message):
            forward(X, num_groups, SIX, SIX, out=out)
        with pytest.raises(error, match=message):
            grad(X, X, num_groups, SIX, out=out)
    assert np.isnan(out).all()


@pytest.mark.parametrize(
    ("gamma", "error", "message"),
    [
        (np.ones(5, np.float32), ValueError, r"gamma must have the shape \(6,\).*got \(5,\)"),
        (np.ones(1, np.float32), ValueError, r"gamma must have the shape \(6,\).*got \(1,\)"),
        (np.ones((1, 6, 1), np.float32), ValueError, r"gamma must have the shape \(6,\)"),
        (np.float32(1), ValueError, r"gamma must have the shape \(6,\).*got \(\)"),
        (np.ones(6, int), TypeError, r"gamma must be .* got int64"),
        (np.ones(6, complex), TypeError, r"gamma must be .* got complex128"),
    ],
)
def test_wrong_parameters(gamma, error, message):
    out = np.full_like(X, np.nan)
    calls = [
        lambda g, b: fastgrad.group_norm(X, 2, g, b, out=out),
        lambda g, b: fastgrad.group_norm_swish(X, 2, g, b, out=out),
        lambda g, b: fastgrad.instance_norm(X, g, b, out=out),
        lambda g, b: fastgrad.batch_norm(X, g, b, out=out),
    ]
    for call in calls:
        with pytest.raises(error, match=message):
            call(gamma, None)
        with pytest.raises(error, match=message.replace("gamma", "beta")):
            call(SIX, gamma)
    for grad in (
        lambda: fastgrad.group_norm_grad(X, X, 2, gamma, out=out),
        lambda: fastgrad.group_norm_swish_grad(X, X, 2, gamma, out=out),
        lambda: fastgrad.instance_norm_grad(X, X, gamma, out=out),
        lambda: fastgrad.batch_norm_grad(X, X, gamma, out=out),
    ):
        with pytest.raises(error, match=message):
            grad()
    assert np.isnan(out).all()


def test_wrong_parameters_of_rows():
    five = np.ones(5, np.float32)
    for call in (
        lambda: fastgrad.layer_norm(X, five),
        lambda: fastgrad.rms_norm(X, five),
        lambda: fastgrad.add_layer_norm(X, X, five),
        lambda: fastgrad.add_rms_norm(X, X, five),
        lambda: fastgrad.layer_norm_grad(X, X, five),
        lambda: fastgrad.rms_norm_grad(X, X, five),
        lambda: fastgrad.add_layer_norm_grad(X, X, X, five),
        lambda: fastgrad.add_rms_norm_grad(X, X, X, five),
    ):
        with pytest.raises(ValueError, match=r"gamma must have the shape \(4,\).*got \(5,\)"):
            call()
    with pytest.raises(ValueError, match=r"gamma must have the shape \(6, 4\).*got \(4,\)"):
        fastgrad.layer_norm(X, FOUR, axes=2)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (np.ones((2, 3), np.float64), ValueError),
        (np.ones(4, np.float64), ValueError),
        (np.ones((2, 2, 1), np.float64), ValueError),
        (np.ones((2, 2), int), TypeError),
    ],
)
def test_wrong_statistics(wrong, error):
    right = np.ones((2, 2))
    for grad in (fastgrad.group_norm_grad, fastgrad.group_norm_swish_grad):
        with pytest.raises(error, match="mean must "):
            grad(X, X, 2, SIX, mean=wrong, rstd=right)
        with pytest.raises(error, match="rstd must "):
            grad(X, X, 2, SIX, mean=right, rstd=wrong)
    with pytest.raises(error, match="mean must "):
        fastgrad.instance_norm_grad(X, X, SIX, wrong, np.ones((2, 6)))
    with pytest.raises(error, match="rstd must "):
        fastgrad.layer_norm_grad(X, X, FOUR, np.ones((2, 6)), wrong)
    with pytest.raises(error, match="rstd must "):
        fastgrad.rms_norm_grad(X, X, FOUR, wrong)
    with pytest.raises(error, match="rstd must "):
        fastgrad.batch_norm_grad(X, X, SIX, np.ones(6), wrong)


@pytest.mark.parametrize(
    ("eps", "error", "message"),
    [
        (-1e-5, ValueError, r"eps must be a number of at least 0, got -1e-05"),
        (np.nan, ValueError, r"eps must be a number of at least 0, got nan"),
        ("1e-5", TypeError, r"eps must be a number, got str"),
        (None, TypeError, r"eps must be a number, got NoneType"),
    ],
)
def test_wrong_eps(eps, error, message):
    for call in (
        lambda: fastgrad.group_norm(X, 2, eps=eps),
        lambda: fastgrad.group_norm_grad(X, X, 2, eps=eps),
        lambda: fastgrad.group_norm_swish(X, 2, eps=eps),
        lambda: fastgrad.group_norm_swish_grad(X, X, 2, eps=eps),
        lambda: fastgrad.instance_norm(X, eps=eps),
        lambda: fastgrad.layer_norm(X, eps=eps),
        lambda: fastgrad.layer_norm_grad(X, X, eps=eps),
        lambda: fastgrad.rms_norm(X, eps=eps),
        lambda: fastgrad.rms_norm_grad(X, X, eps=eps),
        lambda: fastgrad.add_layer_norm(X, X, eps=eps),
        lambda: fastgrad.add_rms_norm_grad(X, X, X, eps=eps),
        lambda: fastgrad.batch_norm(X, eps=eps),
        lambda: fastgrad.batch_norm_grad(X, X, eps=eps),
    ):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones((2, 6, 4), int), r"must be .*float32.* got int64: pass \w+\.astype"),
        (np.ones((2, 6, 4), bool), r"must be .* got bool"),
        (np.ones((2, 6, 4), complex), r"must be .* got complex128"),
        (np.ma.ones((2, 6, 4)), r"is a masked array"),
    ],
)
def test_wrong_x(x, message):
    for call in (
        lambda: fastgrad.group_norm(x, 2),
        lambda: fastgrad.group_norm_grad(X, x, 2),
        lambda: fastgrad.group_norm_swish(x, 2),
        lambda: fastgrad.instance_norm(x),
        lambda: fastgrad.layer_norm(x),
        lambda: fastgrad.layer_norm_grad(X, x),
        lambda: fastgrad.rms_norm(x),
        lambda: fastgrad.batch_norm(x),
    ):
        with pytest.raises(TypeError, match=f"^x {message}"):
            call()
    with pytest.raises(TypeError, match=f"^residual {message}"):
        fastgrad.add_layer_norm(X, x)
    with pytest.raises(TypeError, match=f"^sum {message}"):
        fastgrad.add_rms_norm_grad(X, X, x)


@pytest.mark.parametrize(
    ("dy", "error", "message"),
    [
        (X[:1], ValueError, r"dy must have the shape of x, \(2, 6, 4\), got \(1, 6, 4\)"),
        (X.reshape(2, 4, 6), ValueError, r"dy must have the shape of x"),
        (X.astype(np.float64), TypeError, r"dy must have the dtype of x, float32, got float64"),
        (X.astype(np.float16), TypeError, r"dy must have the dtype of x"),
        (X.astype(int), TypeError, r"dy must be .* got int64"),
    ],
)
def test_wrong_dy(dy, error, message):
    out = np.full_like(X, np.nan)
    for call in (
        lambda: fastgrad.group_norm_grad(dy, X, 2, SIX, out=out),
        lambda: fastgrad.group_norm_swish_grad(dy, X, 2, SIX, SIX, out=out),
        lambda: fastgrad.instance_norm_grad(dy, X, SIX, out=out),
        lambda: fastgrad.layer_norm_grad(dy, X, FOUR, out=out),
        lambda: fastgrad.rms_norm_grad(dy, X, FOUR, out=out),
        lambda: fastgrad.batch_norm_grad(dy, X, SIX, out=out),
    ):
        with pytest.raises(error, match=message):
            call()
    message = message.replace("of x", "of sum")
    with pytest.raises(error, match=message):
        fastgrad.add_layer_norm_grad(dy, X, X, FOUR, out=out)
    with pytest.raises(error, match=message.replace("dy", "d.*")):
        fastgrad.add_layer_norm_grad(X, dy, X, FOUR, out=out)
    assert np.isnan(out).all()


def test_wrong_dsum_is_called_by_its_name():
    for grad in (fastgrad.add_layer_norm_grad, fastgrad.add_rms_norm_grad):
        with pytest.raises(ValueError, match=r"dsum must have the shape of sum"):
            grad(X, X[:1], X, FOUR)


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        (4, ValueError, r"axes must be at most the number of axes of (x|sum), 3 .*got 4"),
        (0, ValueError, r"axes must be at least 1, got 0"),
        (-1, ValueError, r"axes must be at least 1, got -1"),
        (1.0, TypeError, r"axes must be an integer"),
        (True, TypeError, r"axes must be an integer"),
    ],
)
def test_wrong_axes(axes, error, message):
    for call in (
        lambda: fastgrad.layer_norm(X, axes=axes),
        lambda: fastgrad.layer_norm_grad(X, X, axes=axes),
        lambda: fastgrad.rms_norm(X, axes=axes),
        lambda: fastgrad.rms_norm_grad(X, X, axes=axes),
        lambda: fastgrad.add_layer_norm(X, X, axes=axes),
        lambda: fastgrad.add_rms_norm_grad(X, X, X, axes=axes),
    ):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("data_format", ["NCWH", "nchw", None, 1])
def test_wrong_data_format(data_format):
    for call in (
        lambda: fastgrad.group_norm(X, 2, data_format=data_format),
        lambda: fastgrad.group_norm_grad(X, X, 2, data_format=data_format),
        lambda: fastgrad.instance_norm(X, data_format=data_format),
        lambda: fastgrad.batch_norm(X, data_format=data_format),
    ):
        with pytest.raises(ValueError, match=r"data_format must be one of 'NCHW', 'NHWC', got"):
            call()


def test_wrong_dimensions():
    with pytest.raises(ValueError, match=r"x must have a batch and a channel axis.*\(6,\)"):
        fastgrad.group_norm(SIX, 2)
    with pytest.raises(ValueError, match=r"x must have a batch and a channel axis.*\(6,\)"):
        fastgrad.batch_norm(SIX)
    flat = np.ones((4, 8), np.float32)
    with pytest.raises(ValueError, match=r"x must have a spatial axis.*\(4, 8\)"):
        fastgrad.instance_norm(flat)
    with pytest.raises(ValueError, match=r"x must have a spatial axis.*\(4, 8\)"):
        fastgrad.instance_norm_grad(flat, flat)


def test_wrong_batch_norm():
    with pytest.raises(ValueError, match=r"running_mean and running_var must be given"):
        fastgrad.batch_norm(X, SIX, SIX, training=False)
    with pytest.raises(ValueError, match=r"running_mean and running_var must be given"):
        fastgrad.batch_norm(X, SIX, SIX, running_mean=SIX, training=False)
    with pytest.raises(ValueError, match=r"mean and rstd must be given"):
        fastgrad.batch_norm_grad(X, X, SIX, training=False)
    with pytest.raises(ValueError, match=r"running_mean must have the shape \(6,\).*got \(4,\)"):
        fastgrad.batch_norm(X, SIX, SIX, FOUR, SIX)
    with pytest.raises(ValueError, match=r"running_var must have the shape \(6,\).*got \(4,\)"):
        fastgrad.batch_norm(X, SIX, SIX, SIX, FOUR)
    with pytest.raises(ValueError, match=r"one element a channel.*\(1, 6\)"):
        fastgrad.batch_norm(X[:1, :, 0])


def test_wrong_out():
    x, dy = X.copy(), X[::-1].copy()
    kept = x.copy(), dy.copy()
    frozen = np.zeros_like(X)
    frozen.setflags(write=False)
    buffer = np.zeros(100, np.float32)
    for out, error, message in [
        (np.zeros((2, 4, 6), np.float32), ValueError, r"out must have the shape of x"),
        (np.zeros((2, 6, 4)), ValueError, r"out must have the native dtype of x"),
        (frozen, ValueError, r"out is read-only"),
        ([0.0], TypeError, r"out must be a numpy.ndarray"),
        (x[::-1], ValueError, r"out overlaps x in part"),
    ]:
        with pytest.raises(error, match=message):
            fastgrad.group_norm(x, 2, out=out)
        with pytest.raises(error, match=message):
            fastgrad.group_norm_grad(dy, x, 2, out=out)
    with pytest.raises(ValueError, match=r"out overlaps gamma in part"):
        fastgrad.group_norm(x, 2, buffer[:6], out=buffer[:48].reshape(2, 6, 4))
    out = np.zeros_like(x)
    with pytest.raises(ValueError, match=r"out\[1\] overlaps another result"):
        fastgrad.add_layer_norm(x, dy, out=(out, out))
    assert same_bits(x, kept[0]) and same_bits(dy, kept[1])
    assert not buffer.any() and not frozen.any()
