"""Every function beside PyTorch's own: values, gradients, layouts, second derivatives."""

import pytest
import torch

import fastgrad.torch as ft
from tensor_checking import check
from torch_pairs import PAIRS


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_agrees_with_pytorch(pair):
    check(pair)


def test_every_function_is_tested():
    tested = {pair.name.partition("-")[0] for pair in PAIRS}
    renamed = {"bce": "binary_cross_entropy_with_logits"}
    tested = {renamed.get(name, name) for name in tested}
    assert tested == set(ft.functional.__all__) - {"dropout"}


@pytest.mark.parametrize(
    "name", ["relu", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardtanh", "hardswish"]
)
def test_in_place(name):
    own, stock = getattr(ft, name), getattr(torch.nn.functional, name)
    x = torch.randn(40, generator=torch.Generator().manual_seed(1))
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    for function, leaf in ((own, a), (stock, b)):
        work = leaf * 1.0
        y = function(work, inplace=True)
        assert y is work
        y.sum().backward()
    torch.testing.assert_close(a.grad, b.grad)
    plain = x.clone()
    assert own(plain, inplace=True) is plain
    torch.testing.assert_close(plain, stock(x))


@pytest.mark.parametrize("function", [ft.relu, ft.leaky_relu, ft.silu])
def test_in_place_on_a_leaf_is_an_error_before_anything_is_written(function):
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="is a leaf that requires a gradient"):
        function(x, inplace=True)
    assert x.tolist() == [-1.0, 2.0]
    with torch.no_grad():
        assert function(x, inplace=True) is x


def test_in_place_on_a_view():
    x = torch.linspace(-1, 1, 24).reshape(4, 6).requires_grad_()
    work = x * 1.0
    ft.relu(work[:, ::2], inplace=True)
    work.sum().backward()
    expected = torch.ones(4, 6)
    expected[:, ::2] = (x.detach() > 0).float()[:, ::2]
    assert torch.equal(x.grad, expected)


def test_dropout_repeats_with_the_seed_and_its_gradient_has_the_same_mask():
    x = torch.ones(10_000, requires_grad=True)
    torch.manual_seed(3)
    y = ft.dropout(x, 0.25)
    torch.manual_seed(3)
    assert torch.equal(y, ft.dropout(x, 0.25))
    assert set(y.unique().tolist()) == {0.0, y.max().item()}
    assert abs(float((y == 0).float().mean()) - 0.25) < 0.02
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert ft.dropout(x, 0.25, training=False) is x
    with pytest.raises(ValueError, match="between 0 and 1"):
        ft.dropout(x, 1.5)


def test_dropout_keeps_a_seed_and_no_mask():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: kept.append(t.nbytes) or t, lambda t: t
    ):
        ft.dropout(torch.ones(1000, requires_grad=True))
    assert sum(kept) == 8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ft.gelu(x, "erf"), "approximate must be"),
        (lambda x: ft.group_norm(x, 3), "num_groups must divide"),
        (lambda x: ft.layer_norm(x, (7,)), "normalized_shape must be"),
        (lambda x: ft.prelu(x, torch.ones(3)), "weight must have"),
        (lambda x: ft.mse_loss(x, x, "avg"), "reduction must be"),
        (lambda x: ft.batch_norm(x, None, None), "running_mean"),
        (lambda x: ft.batch_norm(x[:1], None, None, training=True), "more than 1 value"),
        (lambda x: ft.swiglu(x[:, :7]), "must be even"),
        (lambda x: ft.huber_loss(x, x, delta=0), "delta must be positive"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        call(torch.ones(4, 8))
