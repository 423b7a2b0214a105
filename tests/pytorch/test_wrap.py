"""`wrap`: operators of one's own as functions of tensors."""

from __future__ import annotations

import inspect

import pytest
import torch

import fastgrad
import fastgrad.torch as ft
from fastgrad import maths as m


@fastgrad.elementwise
def snake(x, a=1.0):
    """x + sin²(a x) / a."""
    s = m.sin(a * x)
    return x + s * s / a


@fastgrad.elementwise
def gate(x, shift, slope=2.0):
    return x * m.sigmoid(slope * (x + shift))


@fastgrad.loss
def log_cosh(x, target):
    size = abs(x - target)
    return size + m.softplus(-2.0 * size)


@fastgrad.rowwise
def l2_normalize(x, scale=None, eps=1e-12):
    y = x * m.rsqrt(m.sum(x * x) + eps)
    return y if scale is None else y * scale


@fastgrad.rowwise
def centred_and_mean(x):
    mean = m.mean(x)
    return x - mean, x * 0.0 + mean


def leaf(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def test_elementwise_with_a_number_and_with_a_tensor():
    own = ft.wrap(snake)
    x, a = leaf(4, 6), torch.tensor([0.5, 1.0, 2.0, 3.0, 0.25, 1.5], dtype=torch.float64)
    expected = x + torch.sin(0.5 * x) ** 2 / 0.5
    torch.testing.assert_close(own(x, 0.5), expected)
    torch.testing.assert_close(own(x, a=0.5), expected)
    assert torch.autograd.gradcheck(own, (x, a.requires_grad_()))
    assert torch.autograd.gradgradcheck(own, (x, a))
    assert own.__name__ == "snake" and own.__doc__ == "x + sin²(a x) / a."
    assert list(inspect.signature(own).parameters) == ["x", "a"]


def test_broadcast_arrays():
    own = ft.wrap(gate)
    x, shift = leaf(4, 6), leaf(6, seed=1)
    torch.testing.assert_close(own(x, shift), x * torch.sigmoid(2.0 * (x + shift)))
    assert torch.autograd.gradcheck(own, (x, shift))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_loss(reduction):
    own = ft.wrap(log_cosh)
    x, target = leaf(4, 6), leaf(4, 6, seed=1)
    assert torch.autograd.gradcheck(lambda *args: own(*args, reduction=reduction), (x, target))
    exact = torch.log(torch.cosh(x - target)) + torch.log(torch.tensor(2.0, dtype=torch.float64))
    found = own(x, target, reduction=reduction)
    wanted = exact if reduction == "none" else getattr(exact, reduction)()
    torch.testing.assert_close(found, wanted)


def test_rows():
    own = ft.wrap(l2_normalize)
    x, scale = leaf(4, 6), leaf(6, seed=1)
    torch.testing.assert_close(own(x, scale), torch.nn.functional.normalize(x) * scale)
    assert torch.autograd.gradcheck(own, (x, scale))
    assert torch.autograd.gradcheck(lambda x: own(x, axes=2), (x,))
    both = ft.wrap(centred_and_mean)
    assert torch.autograd.gradcheck(both, (x,))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_compiled_without_a_graph_break():
    torch._dynamo.reset()
    own = ft.wrap(snake)
    x = leaf(4, 6)
    compiled = torch.compile(lambda x: own(x, 0.5) * 2.0, fullgraph=True)
    (dx,) = torch.autograd.grad(compiled(x).sum(), x)
    (expected,) = torch.autograd.grad((own(x, 0.5) * 2.0).sum(), x)
    assert torch.equal(dx, expected)


def test_an_operator_that_is_defined_again():
    def made(factor):
        @fastgrad.elementwise
        def scaled(x):
            return x * factor

        return ft.wrap(scaled)

    x = torch.ones(3)
    first, second = made(2.0), made(3.0)
    assert second(x).tolist() == [3, 3, 3]
    assert first(x).tolist() == [2, 2, 2]  # the eager way knows its own operator


@pytest.mark.parametrize("thing", [fastgrad.dropout, len, "gelu"])
def test_what_cannot_be_wrapped(thing):
    with pytest.raises(TypeError, match="wrap takes an operator"):
        ft.wrap(thing)
