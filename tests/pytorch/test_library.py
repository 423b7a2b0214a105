"""Operators of torch.library: schema, fake kernels, strides, `torch.compile`, `torch.export` (B72)."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.library import opcheck

import fastgrad.torch as ft
from fastgrad.torch import _activations, _gated, _losses
from fastgrad.torch._elementwise import Elementwise
from tensor_checking import layouts, leaf

OPS = torch.ops.fastgrad
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def image():
    return torch.randn(4, 20, 3, 5, generator=torch.Generator().manual_seed(0))


def rows():
    return torch.randn(6, 5, generator=torch.Generator().manual_seed(0))


def channels(count=20):
    return torch.linspace(0.5, 1.5, count).requires_grad_()


#: Of an operator, the arguments behind its first tensor.
CALLS = {
    "silu": (image, lambda x: ()),
    "gelu": (image, lambda x: ("tanh",)),
    "hardtanh": (image, lambda x: (-1.0, 0.5)),
    "swish_of_beta": (image, lambda x: (channels(5),)),
    "swiglu": (image, lambda x: (torch.ones_like(x).requires_grad_(),)),
    "add_gelu": (image, lambda x: (channels(5), "none")),
    "group_norm": (image, lambda x: (channels(), channels(), 4, 1e-5)),
    "group_norm_swish": (image, lambda x: (channels(), None, 4, 1e-5, 1.0)),
    "batch_norm": (image, lambda x: (channels(), channels(), 1e-5)),
    "batch_norm_inference": (
        image,
        lambda x: (torch.zeros(20), torch.ones(20), channels(), channels(), 1e-5),
    ),
    "instance_norm": (image, lambda x: (channels(), channels(), 1e-5)),
    "mse_loss": (image, lambda x: (torch.zeros(x.shape), "mean")),
    "huber_loss": (image, lambda x: (torch.zeros(x.shape), 1.0, "none")),
    "dropout": (image, lambda x: (torch.tensor(7), 0.5)),
    "layer_norm": (rows, lambda x: (channels(5), None, 1, 1e-5)),
    "rms_norm": (rows, lambda x: (channels(5), 1, 1e-5)),
    "add_layer_norm": (
        rows,
        lambda x: (torch.ones(x.shape).requires_grad_(), channels(5), None, 1, 1e-5),
    ),
    "add_rms_norm": (rows, lambda x: (torch.ones(x.shape).requires_grad_(), None, 1, 1e-5)),
}


@pytest.mark.parametrize("name", CALLS)
def test_B72_opcheck_in_every_layout(name):
    make, more = CALLS[name]
    operator = getattr(OPS, name).default
    x = make()
    cases = dict(layouts(x))
    cases["expanded"] = x[:1].expand(x.shape)
    for case in cases.values():
        opcheck(operator, (leaf(case), *more(case)))


@pytest.mark.parametrize("name", ["silu", "gelu", "group_norm", "layer_norm", "rms_norm"])
def test_B72_opcheck_of_nothing(name):
    make, more = CALLS[name]
    x = make()[:0]
    opcheck(getattr(OPS, name).default, (leaf(x), *more(x)))


def _elementwise():
    for module in (_activations, _gated, _losses):
        for own in vars(module).values():
            if isinstance(own, Elementwise):
                yield own.name, own


ELEMENTWISE = dict(_elementwise())


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_B72_opcheck_of_every_elementwise_operator(name):
    adapter = ELEMENTWISE[name]
    tensors = [torch.rand(4, 6).requires_grad_(place == 0) for place in range(len(adapter.tensors))]
    values = {"float": 0.75, "str": "mean"}
    options = [values[own.split()[0]] for own in adapter.options]
    for place, own in enumerate(adapter.options):
        if own == "str approximate":
            options[place] = "none"
    opcheck(adapter.op, (*tensors, *options))


def test_B72_opcheck_of_one_number_and_of_bfloat16():
    opcheck(OPS.silu.default, (torch.tensor(1.5, requires_grad=True),))
    opcheck(OPS.gelu.default, (leaf(rows().bfloat16()), "none"))


def _inputs(count):
    g = torch.Generator().manual_seed(count)
    return lambda *shape: torch.randn(*shape, generator=g, requires_grad=True)


COMPILED = {
    "silu": (ft.silu, lambda n, r: (r(n, 4),)),
    "gelu": (lambda x: ft.gelu(x, "tanh"), lambda n, r: (r(n, 4),)),
    "elu in place": (lambda x: ft.elu(x * 2, inplace=True), lambda n, r: (r(n, 4),)),
    "swiglu packed": (ft.swiglu, lambda n, r: (r(n, 8),)),
    "add_gelu": (ft.add_gelu, lambda n, r: (r(n, 8), r(8))),
    "prelu": (ft.prelu, lambda n, r: (r(n, 8), r(8))),
    "group_norm": (lambda x, w, b: ft.group_norm(x, 2, w, b), lambda n, r: (r(n, 4, n, 3), r(4), r(4))),
    "layer_norm": (lambda x, w, b: ft.layer_norm(x, (4,), w, b), lambda n, r: (r(n, 4), r(4), r(4))),
    "rms_norm": (lambda x, w: ft.rms_norm(x, (4,), w), lambda n, r: (r(n, 4), r(4))),
    "add_rms_norm": (
        lambda x, s, w: sum(ft.add_rms_norm(x, s, (4,), w)),
        lambda n, r: (r(n, 4), r(n, 4), r(4)),
    ),
    "batch_norm": (
        lambda x, w, b: ft.batch_norm(x, None, None, w, b, True),
        lambda n, r: (r(n, 4, 3), r(4), r(4)),
    ),
    "mse_loss": (lambda x, t: ft.mse_loss(x, t), lambda n, r: (r(n, 4), r(n, 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPILED)
def test_B72_compiled_without_a_graph_break_and_bit_for_bit(name):
    function, make = COMPILED[name]
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for count in (3, 5, 8):
        found = []
        for own in (function, compiled):
            inputs = make(count, _inputs(count))
            y = own(*inputs)
            y.backward(torch.ones_like(y))
            found.append([y.detach(), *(tensor.grad for tensor in inputs)])
        assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2


class _Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 4)
        self.norm, self.act = ft.GroupNorm(2, 4), ft.GELU()

    def forward(self, x):
        return self.act(self.norm(self.project(x)))


def test_exported_program_holds_the_operators():
    net, x = _Net().eval(), torch.randn(3, 4)
    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(net, (x,), dynamic_shapes=({0: batch},))
    names = [str(node.target) for node in exported.graph.nodes]
    assert "fastgrad.group_norm.default" in names
    assert "fastgrad.gelu.default" in names
    more = torch.randn(7, 4)
    assert torch.equal(exported.module()(more), net(more))


def test_fake_and_meta_tensors():
    x = torch.empty(2, 4, 3, 3, device="meta")
    assert ft.group_norm(x, 2).shape == x.shape
    with torch._subclasses.FakeTensorMode():
        y = ft.layer_norm(torch.empty(3, 8, dtype=torch.bfloat16), (8,))
    assert y.dtype is torch.bfloat16
    assert y.shape == (3, 8)


def test_dropout_draws_its_seed_in_the_graph():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: ft.dropout(x, 0.5), fullgraph=True)
    x = torch.ones(1000, requires_grad=True)
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second)
    first.sum().backward()
    assert torch.equal(x.grad, first.detach())
