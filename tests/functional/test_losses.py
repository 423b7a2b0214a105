"""Elementwise losses against PyTorch in float64, against plain references in all precisions."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import fastgrad
import references as ref
from checking import BLOCK_SIZES, THREADS, layouts, same_bits, settings
from fastgrad import maths as m
from rounding import DTYPES, as_float64, error_in_ulp

SHAPE = (6, 7, 9)
_RNG = np.random.default_rng(0)
_WEIGHT, _POS_WEIGHT = _RNG.uniform(0.5, 2, (6, 1, 1)), _RNG.uniform(0.5, 2, 9)


def _operands(name: str):
    rng = np.random.default_rng(1)
    x, target = rng.normal(0, 3, SHAPE), rng.uniform(0, 1, SHAPE)
    if name.startswith("kl_div"):
        return -np.abs(x), np.maximum(target, 0.01)
    target.flat[::5], target.flat[1::5] = 0, 1
    return x, target


#: Loss, further arguments, PyTorch's.
CASES = {
    "mse_loss": (fastgrad.mse_loss, {}, F.mse_loss, {}),
    "huber_loss": (fastgrad.huber_loss, {}, F.huber_loss, {}),
    "huber_loss-0.7": (fastgrad.huber_loss, {"delta": 0.7}, F.huber_loss, {"delta": 0.7}),
    "smooth_l1_loss": (fastgrad.smooth_l1_loss, {}, F.smooth_l1_loss, {}),
    "smooth_l1_loss-0.3": (fastgrad.smooth_l1_loss, {"beta": 0.3}, F.smooth_l1_loss, {"beta": 0.3}),
    "smooth_l1_loss-0": (fastgrad.smooth_l1_loss, {"beta": 0.0}, F.smooth_l1_loss, {"beta": 0.0}),
    "bce": (
        fastgrad.binary_cross_entropy_with_logits,
        {},
        F.binary_cross_entropy_with_logits,
        {},
    ),
    "bce-weighted": (
        fastgrad.binary_cross_entropy_with_logits,
        {"weight": _WEIGHT, "pos_weight": _POS_WEIGHT},
        F.binary_cross_entropy_with_logits,
        {"weight": torch.tensor(_WEIGHT), "pos_weight": torch.tensor(_POS_WEIGHT)},
    ),
    "kl_div": (fastgrad.kl_div, {}, F.kl_div, {}),
    "kl_div-log": (fastgrad.kl_div, {"log_target": True}, F.kl_div, {"log_target": True}),
}


@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "batchmean"])
@pytest.mark.parametrize("name", CASES)
def test_pytorch(name, reduction):
    loss, arguments, torchs, torch_arguments = CASES[name]
    x, target = _operands(name)
    if reduction == "batchmean" and not name.startswith("kl_div"):
        with pytest.raises(ValueError, match="reduction must be one of 'none', 'sum', 'mean'"):
            loss(x, target, reduction=reduction, **arguments)
        return
    tensors = [torch.tensor(array, requires_grad=True) for array in (x, target)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kl_div's mean may change its meaning one day
        exact = torchs(*tensors, reduction=reduction, **torch_arguments)
    dy = _RNG.normal(size=SHAPE) if reduction == "none" else 1.7
    expected = torch.autograd.grad(exact, tensors, torch.tensor(dy, dtype=torch.float64))
    value = loss(x, target, reduction=reduction, **arguments)
    np.testing.assert_allclose(value, exact.detach(), rtol=1e-12)
    gradients = loss.grad(dy, x, target, reduction=reduction, wrt=("x", "target"), **arguments)
    for got, right in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-10, atol=1e-14)
    both, dx = loss.value_and_grad(x, target, reduction=reduction, **arguments)
    np.testing.assert_allclose(both, value, rtol=1e-15)
    one = np.ones(SHAPE) if reduction == "none" else 1.0
    (alone,) = loss.grad(one, x, target, reduction=reduction, wrt="x", **arguments)
    assert same_bits(dx, alone)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["mse_loss", "huber_loss", "smooth_l1_loss", "bce", "kl_div"])
def test_all_precisions(name, dtype):
    loss = CASES[name][0]
    x, target = (array.astype(dtype) for array in _operands(name))
    exact_x, exact_target = as_float64(x), as_float64(target)
    value, value_size, slope, size = REFERENCES[name](exact_x, exact_target)
    allowed = 1.0 if np.dtype(dtype).itemsize == 2 else 12.0
    got, dx = loss.value_and_grad(x, target, reduction="none")
    assert got.dtype == dx.dtype == dtype
    assert error_in_ulp(got, value, dtype, value_size).max() <= allowed
    assert error_in_ulp(dx, slope, dtype, size).max() <= allowed
    mean = loss(x, target)
    assert mean.dtype == dtype and mean.shape == ()
    assert error_in_ulp(np.asarray(mean), value.mean(), dtype).max() <= allowed


def _bce(x, t):
    value = t * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x)
    terms = (1 - t) * ref.sigmoid(x), t * ref.sigmoid(-x)
    return value, value, terms[0] - terms[1], terms[0] + terms[1]


def _distance(value, slope):
    """Losses of x - target, whose rounding is one of the larger operand."""

    def reference(x, t):
        d, size = x - t, np.abs(x) + np.abs(t)
        return value(d), value(d), slope(d), np.abs(slope(d)) + size

    return reference


#: For each loss its value, the size of the value's terms, its slope and the size of that one's terms.
REFERENCES = {
    "mse_loss": _distance(lambda d: d * d, lambda d: 2 * d),
    "huber_loss": _distance(
        lambda d: np.where(np.abs(d) <= 1, d * d / 2, np.abs(d) - 0.5), lambda d: np.clip(d, -1, 1)
    ),
    "smooth_l1_loss": _distance(
        lambda d: np.where(np.abs(d) <= 1, d * d / 2, np.abs(d) - 0.5), lambda d: np.clip(d, -1, 1)
    ),
    "bce": _bce,
    "kl_div": lambda x, t: (t * (np.log(t) - x), t * (np.abs(np.log(t)) + np.abs(x)), -t, t),
}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_same_bits_for_everything_that_must_not_matter(dtype):
    rng = np.random.default_rng(2)
    x, target = rng.normal(0, 2, (2, 701, 150)).astype(dtype)
    loss = fastgrad.huber_loss
    value, dx = loss.value_and_grad(x, target)
    assert same_bits(np.asarray(loss(x, target)), np.asarray(value))
    for threads in THREADS:
        for block_size in BLOCK_SIZES:
            with settings(threads, block_size):
                again, own_dx = loss.value_and_grad(x, target)
                assert again == value and same_bits(own_dx, dx), (threads, block_size)
    x, target = x.reshape(701, 10, 15)[:40], target.reshape(701, 10, 15)[:40]
    value, dx = loss.value_and_grad(x, target)
    for name, own in layouts(x).items():
        before = own.tobytes()
        again, own_dx = loss.value_and_grad(own, target)
        assert again == value and same_bits(own_dx, dx), name
        assert own.tobytes() == before
    own = x.copy()
    assert loss.value_and_grad(own, target, out=own)[1] is own
    assert same_bits(own, dx)


def test_right_predictions_keep_their_digits():
    x = np.array([20.0, 90.0, -20.0, -90.0], np.float32)
    target = np.array([1, 1, 0, 0], np.float32)
    value, dx = fastgrad.binary_cross_entropy_with_logits.value_and_grad(
        x, target, reduction="none"
    )
    tail = np.exp(-np.abs(x.astype(np.float64)))
    np.testing.assert_allclose(value, tail, rtol=1e-6)
    np.testing.assert_allclose(dx, [-tail[0], -tail[1], tail[2], tail[3]], rtol=1e-6)


def test_infinities_and_nan():
    x = np.array([np.inf, -np.inf, np.inf, np.nan, 0.0])
    target = np.array([1.0, 0.0, 0.0, 1.0, 0.5])
    value, dx = fastgrad.binary_cross_entropy_with_logits.value_and_grad(
        x, target, reduction="none"
    )
    np.testing.assert_array_equal(value, [0, 0, np.inf, np.nan, np.log(2)])
    np.testing.assert_array_equal(dx, [0, 0, 1, np.nan, 0])
    logs = np.array([-np.inf, -1.0, np.nan])
    value = fastgrad.kl_div(logs, np.array([0.0, 0.0, 1.0]), reduction="none")
    np.testing.assert_array_equal(value, [0, 0, np.nan])
    far = np.array([np.inf, -np.inf, np.nan])
    for loss in (fastgrad.huber_loss, fastgrad.smooth_l1_loss):
        value, dx = loss.value_and_grad(far, np.zeros(3), reduction="none")
        np.testing.assert_array_equal(value, [np.inf, np.inf, np.nan])
        np.testing.assert_array_equal(dx, [1, -1, np.nan])


def test_empty_and_one_element():
    empty = np.zeros((0, 3), np.float32)
    assert fastgrad.mse_loss(empty, empty, reduction="sum") == 0
    assert np.isnan(fastgrad.mse_loss(empty, empty))
    assert fastgrad.mse_loss_grad(1.0, empty, empty).shape == (0, 3)
    assert fastgrad.mse_loss(3.0, np.float64(1.0)) == 4.0


def test_float16_sums_do_not_overflow_on_the_way():
    x = np.full(1000, 200.0, np.float16)
    assert fastgrad.mse_loss(x, np.zeros_like(x)) == np.float16(40000)
    assert fastgrad.mse_loss(x, np.zeros_like(x), reduction="sum") == np.inf


def test_targets_broadcast():
    x, target = np.random.default_rng(0).normal(size=(5, 4)), np.arange(4.0)
    value, (dx, dtarget) = fastgrad.mse_loss.value_and_grad(x, target, wrt=("x", "target"))
    np.testing.assert_allclose(value, np.mean((x - target) ** 2), rtol=1e-14)
    np.testing.assert_allclose(dx, 2 * (x - target) / 20, rtol=1e-14)
    np.testing.assert_allclose(dtarget, dx.sum(0) * -1, rtol=1e-13)


def test_parameters_have_gradients():
    x, target = np.random.default_rng(0).normal(0, 2, (2, 50))
    (ddelta,) = fastgrad.huber_loss.grad(1.0, x, target, 0.8, wrt="delta")
    size = np.abs(x - target)
    np.testing.assert_allclose(ddelta, np.where(size > 0.8, size - 0.8, 0).mean(), rtol=1e-12)


@fastgrad.loss
def log_cosh(x, target):
    distance = x - target
    return distance + m.softplus(-2.0 * distance) - 0.6931471805599453


def test_a_loss_of_a_users():
    x, target = np.random.default_rng(0).normal(size=(2, 30))
    value, dx = log_cosh.value_and_grad(x, target)
    np.testing.assert_allclose(value, np.log(np.cosh(x - target)).mean(), rtol=1e-12)
    np.testing.assert_allclose(dx, np.tanh(x - target) / 30, rtol=1e-12)
    assert pickle.loads(pickle.dumps(log_cosh)) is log_cosh


def test_a_loss_inside_an_operator():
    @fastgrad.elementwise
    def half_square(x, target):
        return 0.5 * fastgrad.mse_loss(x, target)

    assert half_square(np.array([3.0]), np.array([1.0])).tolist() == [2.0]


def test_vjp_and_pickle():
    x, target = _operands("kl_div")
    for loss, arguments in ((fastgrad.kl_div, {}), (fastgrad.mse_loss, {"reduction": "sum"})):
        value, pullback = fastgrad.vjp(loss, x, target, **arguments)
        assert value == loss(x, target, **arguments)
        dx, _ = pullback(2.0)
        assert same_bits(dx, loss.grad(2.0, x, target, wrt="x", **arguments)[0])
        assert pickle.loads(pickle.dumps(loss)) is loss


def test_thin_gradients():
    x, target = _operands("bce")
    for name in ("mse_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits"):
        gradient, loss = getattr(fastgrad, f"{name}_grad"), getattr(fastgrad, name)
        assert same_bits(gradient(1.0, x, target), loss.value_and_grad(x, target)[1]), name
        dy = np.ones_like(x)
        assert gradient(dy, x, target, reduction="none").shape == x.shape
    x, target = _operands("kl_div")
    assert same_bits(
        fastgrad.kl_div_grad(1.0, x, target), fastgrad.kl_div.value_and_grad(x, target)[1]
    )


def test_bad_arguments():
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match="reduction must be one of"):
        fastgrad.mse_loss(x, x, reduction="median")
    with pytest.raises(ValueError, match="out is for reduction='none': the mean is one number"):
        fastgrad.mse_loss(x, x, out=x)
    with pytest.raises(ValueError, match=r"dy must be one number, got an array of shape \(2, 3\)"):
        fastgrad.mse_loss_grad(x, x, x)
    with pytest.raises(ValueError, match="broadcast together"):
        fastgrad.mse_loss(x, np.ones(2))
    with pytest.raises(TypeError, match="target must have the dtype of x"):
        fastgrad.mse_loss(x, x.astype(np.float32))
    with pytest.raises(TypeError, match="delta"):
        fastgrad.huber_loss(x, x, "1")
