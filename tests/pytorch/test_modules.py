"""Modules are drop-in: constructors, state_dict, pickle, deepcopy, values and gradients of `torch.nn`'s."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import fastgrad.torch as ft

#: Constructor arguments and the shape of the input; without an entry: none, (3, 8).
ARGUMENTS = {
    "BatchNorm1d": ((8,), (6, 8)),
    "BatchNorm2d": ((8,), (3, 8, 4, 4)),
    "BatchNorm3d": ((8,), (3, 8, 2, 3, 2)),
    "InstanceNorm1d": ((8,), (3, 8, 5)),
    "InstanceNorm2d": ((8, 1e-5, 0.1, True, True), (3, 8, 4, 4)),
    "InstanceNorm3d": ((8,), (3, 8, 2, 3, 2)),
    "GroupNorm": ((2, 8), (3, 8, 4)),
    "LayerNorm": ((8,), (3, 8)),
    "RMSNorm": ((8,), (3, 8)),
    "PReLU": ((8,), (3, 8)),
    "LeakyReLU": ((0.2,), (3, 8)),
    "GELU": (("tanh",), (3, 8)),
    "Softplus": ((2.0, 3.0), (3, 8)),
    "Hardtanh": ((-0.5, 0.75), (3, 8)),
    "HuberLoss": (("sum", 0.5), (3, 8)),
    "KLDivLoss": ((None, None, "batchmean", True), (3, 8)),
    "SmoothL1Loss": ((None, None, "none", 0.5), (3, 8)),
}
NAMES = [name for name in ft.modules.__all__ if name not in ("Dropout", "GroupNormSiLU")]


def pair(name):
    arguments, shape = ARGUMENTS.get(name, ((), (3, 8)))
    torch.manual_seed(0)
    own, stock = getattr(ft, name)(*arguments), getattr(nn, name)(*arguments)
    with torch.no_grad():
        for a, b in zip(own.parameters(), stock.parameters(), strict=True):
            a.copy_(torch.rand_like(a) + 0.5)
            b.copy_(a)
    x = torch.randn(shape)
    return own, stock, (x, torch.rand(shape)) if name.endswith("Loss") else (x,)


def run(module, inputs):
    first = inputs[0].clone().requires_grad_()
    y = module(first, *inputs[1:])
    y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape))
    return [y.detach(), first.grad, *(p.grad for p in module.parameters())]


@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_torch_nn(name):
    own, stock, inputs = pair(name)
    assert isinstance(own, getattr(nn, name))
    assert repr(own) == repr(stock)
    for mode in (True, False):
        own.train(mode)
        stock.train(mode)
        for a, b in zip(run(own, inputs), run(stock, inputs), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    for (key, a), (other, b) in zip(
        own.state_dict().items(), stock.state_dict().items(), strict=True
    ):
        assert key == other
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_state_dict_pickle_and_deepcopy(name):
    own, stock, inputs = pair(name)
    stock.load_state_dict(own.state_dict())
    own.load_state_dict(stock.state_dict())
    own.eval()
    y = own(*inputs)
    for other in (copy.deepcopy(own), pickle.loads(pickle.dumps(own))):
        assert type(other) is type(own)
        assert torch.equal(other(*inputs), y)


def test_group_norm_silu_is_the_two_in_one():
    own, stock = ft.GroupNormSiLU(2, 8), nn.Sequential(nn.GroupNorm(2, 8), nn.SiLU())
    x = torch.randn(3, 8, 5)
    torch.testing.assert_close(own(x), stock(x))


def test_batch_norm_averages_over_all_batches_without_momentum():
    own, stock = ft.BatchNorm1d(4, momentum=None), nn.BatchNorm1d(4, momentum=None)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(6, 4)
        own(x), stock(x)
    torch.testing.assert_close(own.running_mean, stock.running_mean)
    torch.testing.assert_close(own.running_var, stock.running_var)
    assert own.num_batches_tracked == 3


@pytest.mark.parametrize("shape", [(8, 4, 4), (8, 4)])
def test_instance_norm_without_a_batch(shape):
    kind = "InstanceNorm2d" if len(shape) == 3 else "InstanceNorm1d"
    x = torch.randn(shape)
    torch.testing.assert_close(getattr(ft, kind)(8)(x), getattr(nn, kind)(8)(x))


@pytest.mark.parametrize("name", ["BatchNorm2d", "BatchNorm1d"])
def test_wrong_dimensions_are_refused_as_by_torch(name):
    with pytest.raises(ValueError, match="expected"):
        getattr(ft, name)(4)(torch.ones(2, 4, 3, 3, 3))
