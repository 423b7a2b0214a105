"""The faults of PyTorch in tests/data/known_faults.jsonl, through `fastgrad.torch`.

Each input goes through the function and its gradient here, and gives the bits of fastgrad's own function of
arrays; where the file has few numbers, they stand here, too. The others are compared in
tests/functional/test_known_faults*.py.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
import torch

import fastgrad
import fastgrad.torch as ft

INF, NAN = math.inf, math.nan
HALVES = [torch.float16, torch.bfloat16]
DTYPES = [*HALVES, torch.float32, torch.float64]


def run(function, values, dtype=torch.float32, dy=None):
    """Value and gradient, of ones by default."""
    x = torch.tensor(values, dtype=dtype, requires_grad=True)
    y = function(x)
    ones = torch.ones_like(y) if dy is None else torch.tensor(dy, dtype=dtype)
    (dx,) = torch.autograd.grad(y, x, ones)
    return y.detach(), dx


def numbers(tensor):
    return tensor.double().tolist()


def same(got, expected):
    np.testing.assert_array_equal(got.double().numpy(), np.asarray(expected, np.float64))


def bits_of_numpy(function, gradient, values, dtype):
    """What fastgrad's functions of arrays give."""
    names = {torch.bfloat16: ml_dtypes.bfloat16, torch.float16: np.float16,
             torch.float32: np.float32, torch.float64: np.float64}  # fmt: skip
    with np.errstate(over="ignore"):
        x = np.array(values, names[dtype])
    return function(x), gradient(np.ones_like(x), x)


ACTIVATIONS = {
    "B01": ("silu", [-INF, INF, NAN]),
    "B05": ("silu", [1e20, -1e20, -50.0, 3.0, 1.0]),
    "B06": ("gelu", [INF, -INF, NAN] * 6),
    "B07": ("gelu", [-5, -5.5, -6, -8, -10, -13]),
    "B13": ("hardswish", [-INF, -4, -3, -2, 0, 2, 3, 4, INF, NAN]),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fault", ACTIVATIONS)
def test_activation_has_the_bits_of_the_checked_one(fault, dtype):
    name, values = ACTIVATIONS[fault]
    y, dx = run(getattr(ft, name), values, dtype)
    own = bits_of_numpy(getattr(fastgrad, name), getattr(fastgrad, f"{name}_grad"), values, dtype)
    same(y, own[0])
    same(dx, own[1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_B01_silu_at_infinity(dtype):
    y, dx = run(ft.silu, [-INF, INF, NAN], dtype)
    same(y, [0, INF, NAN])
    same(dx, [0, 1, NAN])


def test_B05_swish_beta_overflow():
    y, dx = run(lambda x: ft.swish(x, 2.0), [-50.0])
    assert y.item() == pytest.approx(-1.860038e-42, abs=3e-45)
    assert dx.item() == pytest.approx(-3.682875e-42, abs=3e-45)
    beta = torch.tensor(1.0, requires_grad=True)
    ft.swish(torch.tensor([1.0, 1e20, -1e20]), beta).sum().backward()
    assert beta.grad.item() == pytest.approx(0.19661193324148185, rel=1e-6)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("length", [3, 8, 17])
def test_B06_gelu_at_infinity(length, approximate):
    y, dx = run(lambda x: ft.gelu(x, approximate), ([INF, -INF, NAN] * length)[:length])
    same(y, ([INF, 0, NAN] * length)[:length])
    same(dx, ([1, 0, NAN] * length)[:length])


def test_B13_hardswish_knees():
    y, dx = run(ft.hardswish, [-INF, -4, -3, -2, 0, 2, 3, 4, INF, NAN], torch.float64)
    np.testing.assert_allclose(y.numpy(), [0, 0, 0, -1 / 3, 0, 5 / 3, 3, 4, INF, NAN], rtol=1e-15)
    expected = bits_of_numpy(fastgrad.hardswish, fastgrad.hardswish_grad, numbers(y), torch.float64)
    assert dx[0] == 0 and dx[8] == 1 and math.isnan(dx[9])
    assert expected[0].shape == y.shape


def test_B14_non_contiguous_views():
    w = torch.arange(8, dtype=torch.float64).reshape(2, 4) / 4 - 1
    x = w[:, :2].detach().requires_grad_()
    assert not x.is_contiguous()
    y = ft.silu(x)
    (dx,) = torch.autograd.grad(y, x, torch.ones(2, 2, dtype=torch.float64).t())
    plain, expected = run(ft.silu, numbers(w[:, :2]), torch.float64)
    assert torch.equal(y, plain)
    assert torch.equal(dx, expected)


@pytest.mark.parametrize("start", [40000.0, 100000.0])
def test_B18_large_mean(start):
    row = [[start, start + 1, start + 2, start + 3]]
    expected, _ = run(lambda x: ft.layer_norm(x, (4,)), [[0.0, 1.0, 2.0, 3.0]])
    for function in (lambda x: ft.layer_norm(x, (4,)), lambda x: ft.group_norm(x, 1)):
        y, dx = run(function, row, dy=[[1.0, 0.0, 0.0, 0.0]])
        torch.testing.assert_close(y, expected, rtol=1e-6, atol=1e-6)
        assert abs(dx.sum()) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_B20_one_element_a_group(dtype):
    gamma = torch.full((1,), 2.0, dtype=dtype, requires_grad=True)
    beta = torch.full((1,), 3.0, dtype=dtype, requires_grad=True)
    x = torch.tensor([[1e6]], dtype=dtype, requires_grad=True)
    y = ft.layer_norm(x, (1,), gamma, beta)
    y.sum().backward()
    assert [v.item() for v in (y, gamma.grad, x.grad, beta.grad)] == [3, 0, 0, 1]


def test_B22_float32_variance_overflow():
    y, _ = run(lambda x: ft.layer_norm(x, (4,)), [[1e30, 2e30, 3e30, 4e30]])
    expected, _ = run(lambda x: ft.layer_norm(x, (4,), eps=0.0), [[1.0, 2.0, 3.0, 4.0]])
    torch.testing.assert_close(y, expected)
    y, _ = run(lambda x: ft.rms_norm(x, (4,), eps=1e-6), [[1e25] * 4])
    torch.testing.assert_close(y, torch.ones(1, 4))


def test_B23_half_overflow():
    row = [[300.0, -600.0, 900.0, 1200.0]]
    y, _ = run(lambda x: ft.rms_norm(x, (4,), eps=1e-6), row, torch.float16)
    exact, _ = run(lambda x: ft.rms_norm(x, (4,), eps=1e-6), row, torch.float64)
    torch.testing.assert_close(y.double(), exact, rtol=5e-4, atol=0)


def test_B25_eps_is_that_of_the_dtype_that_is_computed_in():
    b = 0.050048828125
    for eps, expected in ((None, 0.99997621), (1e-6, 0.99980045), (2.0**-7, 0.49273010)):
        y, _ = run(lambda x, eps=eps: ft.rms_norm(x, (4,), eps=eps), [b, -b, b, -b], torch.bfloat16)
        assert y[0] == torch.tensor(expected).bfloat16()


def test_B27_backward_cancellation():
    y, dx = run(lambda x: ft.layer_norm(x, (2,)), [[-1.84, -1.83]])
    torch.testing.assert_close(y, torch.tensor([[-0.845154024, 0.845154024]]), rtol=1e-5, atol=0)
    assert dx.abs().max() < 1e-4


@pytest.mark.parametrize("dtype", HALVES)
def test_B35_mixed_dtypes(dtype):
    gamma, beta = torch.ones(4, requires_grad=True), torch.zeros(4, requires_grad=True)
    x = torch.randn(1, 4, 2, dtype=torch.float64).to(dtype).requires_grad_()
    y = ft.group_norm(x, 2, gamma, beta)
    y.sum().backward()
    assert y.dtype is x.grad.dtype is dtype
    assert gamma.grad.dtype is torch.float32
    with pytest.raises(TypeError, match="must be float16"):
        ft.group_norm(torch.ones(1, 4, 2, dtype=torch.int64), 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: ft.group_norm(x, 2, w, w),
        lambda x, w: ft.layer_norm(x.permute(0, 2, 3, 1), (4,), w, w),
        lambda x, w: ft.rms_norm(x.permute(0, 2, 3, 1), (4,), w),
        lambda x, w: ft.prelu(x, w),
        lambda x, w: ft.batch_norm(x, torch.zeros(4), torch.ones(4), w, w),
    ],
)
def test_B38_empty_batch(function):
    x, w = torch.ones(0, 4, 2, 2, requires_grad=True), torch.ones(4, requires_grad=True)
    y = function(x, w)
    y.sum().backward()
    assert y.numel() == 0 and x.grad.shape == x.shape
    assert w.grad.tolist() == [0] * 4


def test_B63_parameter_gradients_do_not_depend_on_threads():
    x = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (10007, 3)).astype(np.float32))
    bias = torch.zeros(3, requires_grad=True)
    gamma = torch.ones(3, requires_grad=True)
    found = set()
    before = fastgrad.get_num_threads()
    try:
        for threads in (1, 2, 3, 8):
            fastgrad.set_num_threads(threads)
            for _ in range(5):
                loss = ft.add_gelu(x, bias).sum() + ft.layer_norm(x, (3,), gamma).square().sum()
                grads = torch.autograd.grad(loss, (bias, gamma))
                found.add(b"".join(own.numpy().tobytes() for own in grads))
    finally:
        fastgrad.set_num_threads(before)
    assert len(found) == 1
