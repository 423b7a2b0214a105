"""`patch` and `unpatch` on models of your own; `test_patch_packages.py` has those of other packages."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fastgrad.torch.patching import Left, Replaced, patch, unpatch

PACKAGE = __name__.split(".")[0]


class Convolutions(nn.Sequential):
    """A subclass that keeps the forward of `nn.Sequential`."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 3),
            nn.GroupNorm(2, 8),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(288, 16),
            nn.GELU(),
        )


class Scaled(nn.GELU):
    def extra_repr(self):
        return "scaled"


class Own(nn.GELU):
    def forward(self, input):
        return 2 * super().forward(input)


class Block(nn.Module):
    """What people write: modules, functions, and methods that forward calls."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.gate = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 8)
        self.norm, self.other = nn.LayerNorm(8), nn.RMSNorm(8)
        self.act = nn.SiLU()

    def _mlp(self, x):
        return self.last(F.relu(self.first(x)))

    def forward(self, x, skip=None):
        x = x + self._mlp(self.norm(x))
        x = x + self._mlp(self.other(x))
        if skip is not None:
            x = x * skip
        y = F.gelu(x, approximate="tanh") * self.gate(x)
        u, g = torch.cat([x, y], -1).chunk(2, dim=-1)
        return u * self.act(g)


def step(model, *inputs):
    """The value of a model, and the gradients of its first input and its parameters."""
    model.zero_grad()
    torch.manual_seed(0)
    first = inputs[0].detach().requires_grad_()
    out = model(first, *inputs[1:])
    out.square().mean().backward()
    return [
        out.detach(),
        first.grad,
        *(p.grad.clone() for p in model.parameters() if p.grad is not None),
    ]


def assert_same(model, stock, *inputs):
    found, wanted = step(model, *inputs), step(stock, *inputs)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)


def patched_pair(model, **options):
    stock = copy.deepcopy(model)
    return model, stock, patch(model, **options)


@pytest.fixture
def launched(monkeypatch):
    """The names of the operators that run."""
    from fastgrad.torch._adapter import Adapter

    names, call = [], Adapter.__call__
    monkeypatch.setattr(
        Adapter, "__call__", lambda self, *a: names.append(self.name) or call(self, *a)
    )
    return names


@pytest.fixture
def x():
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


class Bottleneck(nn.Module):
    """The end of a ResNet's block, in both orders, with one more activation that is a function."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4)
        self.last, self.relu = nn.GroupNorm(1, 4), nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.relu(self.norm(self.conv(x)))
        h = self.relu(self.norm(h) + h)
        r = h * 2.0
        return F.relu(r + self.last(h))


class TestModules:
    def test_norm_residual_and_relu(self, x, launched):
        model, stock, report = patched_pair(Bottleneck())
        assert_same(model, stock, x)
        assert launched == ["group_norm_relu", "group_norm_add_relu", "group_norm_add_relu"]
        assert "group_norm_add_relu(relu, norm)" in report.replaced[0].now

    def test_norm_residual_and_relu_with_a_hook(self, x, launched):
        stock = Bottleneck()
        model = copy.deepcopy(stock)
        patch(model)
        seen = []
        model.last.register_forward_hook(lambda module, inputs, y: seen.append(y.shape))
        assert_same(model, stock, x)
        assert seen
        assert launched[-2:] == ["group_norm", "relu"]

    def test_sequential(self, x, launched):
        model, stock, report = patched_pair(Convolutions())
        assert_same(model, stock, x)
        assert launched == ["group_norm_swish", "add_gelu"]
        assert report.replaced[0].now == "group_norm_swish(1, 2), add_gelu(4, 5)"
        assert Replaced("1", "torch.GroupNorm", "fastgrad.torch.GroupNorm") in report.replaced
        assert isinstance(model, Convolutions) and type(model).__name__ == "Convolutions"

    @pytest.mark.parametrize(
        "module",
        [nn.GELU("tanh"), nn.Mish(), nn.PReLU(), nn.Softplus(2.0), nn.ReLU6(), nn.BatchNorm2d(3)],
        ids=repr,
    )
    def test_drop_in(self, x, module, launched):
        model, stock, report = patched_pair(module)
        assert_same(model, stock, x)
        assert launched and len(report.replaced) == 1

    def test_subclass_that_keeps_its_forward(self, x):
        model, stock, _ = patched_pair(nn.Sequential(Scaled()))
        assert_same(model, stock, x)
        assert isinstance(model[0], Scaled) and "scaled" in repr(model[0])

    def test_one_module_at_two_places(self, x, launched):
        act = nn.SiLU()
        model, stock, _ = patched_pair(
            nn.Sequential(nn.GroupNorm(1, 3), act, nn.Conv2d(3, 3, 3), act, nn.Linear(6, 4), act)
        )
        assert_same(model, stock, x)
        assert launched == ["group_norm_swish", "silu", "add_swish"]

    def test_block(self, x, launched):
        model, stock, report = patched_pair(Block())
        assert_same(model, stock, x)
        assert launched == ["layer_norm", "add_relu", "add_rms_norm", "add_relu", "gelu", "swiglu"]
        assert "add_rms_norm(other)" in report.replaced[0].now

    def test_block_with_all_arguments(self, x):
        model, stock, _ = patched_pair(Block())
        assert_same(model, stock, x, torch.tensor(2.0))


class TestIdentity:
    def test_everything_but_classes_stays(self, x):
        model = Convolutions().train()
        model[1].requires_grad_(False)
        model[4].weight.requires_grad_(False)
        modules, parameters = list(model.modules()), list(model.parameters())
        keys, values = list(model.state_dict()), [v.clone() for v in model.state_dict().values()]
        patch(model)
        assert all(a is b for a, b in zip(model.modules(), modules, strict=True))
        assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
        assert list(model.state_dict()) == keys
        assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), values))
        assert model.training and not model[1].weight.requires_grad
        model.eval()
        assert not model[1].training

    def test_state_dict_both_ways(self, x):
        model, stock, _ = patched_pair(Convolutions())
        other = Convolutions()
        other.load_state_dict(model.state_dict())
        patch(other)
        other.load_state_dict(stock.state_dict())
        assert_same(other, stock, x)

    def test_unpatch_gives_the_same_bits(self, x):
        model, stock, _ = patched_pair(
            nn.Sequential(Convolutions(), nn.Unflatten(1, (2, 8)), Block())
        )
        unpatch(model)
        assert [type(m) for m in model.modules()] == [type(m) for m in stock.modules()]
        assert all(torch.equal(a, b) for a, b in zip(step(model, x), step(stock, x), strict=True))

    def test_twice(self, x):
        model, stock, _ = patched_pair(Convolutions())
        classes = [type(m) for m in model.modules()]
        assert patch(model).replaced == []
        assert [type(m) for m in model.modules()] == classes
        unpatch(model)
        unpatch(model)
        assert [type(m) for m in model.modules()] == [type(m) for m in stock.modules()]

    @pytest.mark.parametrize("make", [Convolutions, Block])
    def test_copies(self, x, make):
        model, stock, _ = patched_pair(make())
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        copies = [
            copy.deepcopy(model),
            pickle.loads(pickle.dumps(model)),
            torch.load(file, weights_only=False),
        ]
        for own in copies:
            assert [type(m) for m in own.modules()] == [type(m) for m in model.modules()]
            assert_same(own, stock, x)
            unpatch(own)
            assert type(own) is make

    def test_optimizer_goes_on(self, x):
        model, stock = Block(), None
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        stock = copy.deepcopy(model)
        patch(model)
        before = step(model, x)
        optimizer.step()
        after = step(model, x)
        assert not torch.equal(before[0], after[0])
        step(stock, x)
        torch.optim.SGD(stock.parameters(), 0.1).step()
        assert_same(model, stock, x)


class TestHooks:
    def test_hooks_fire(self, x):
        model, seen = Convolutions(), []
        for place in (1, 2, 5):
            model[place].register_forward_hook(lambda m, i, o, place=place: seen.append(place))
        model.register_forward_hook(lambda *_: seen.append("model"))
        stock = copy.deepcopy(model)
        report = patch(model)
        assert_same(model, stock, x)
        assert seen == [1, 2, 5, "model"] * 2
        assert [type(own) for own in report.left] == [Left, Left]
        assert "group_norm_swish not fused: a hook" in report.left[0].reason

    def test_a_hook_after_patching(self, x, launched):
        model, _, _ = patched_pair(Convolutions())
        seen = []
        handle = model[1].register_forward_hook(lambda m, i, o: seen.append(o.shape))
        model(x)
        assert seen == [(2, 8, 6, 6)] and launched == ["group_norm", "silu", "add_gelu"]
        handle.remove()
        launched.clear()
        model(x)
        assert launched == ["group_norm_swish", "add_gelu"]

    def test_a_global_hook(self, x):
        model, _, _ = patched_pair(Convolutions())
        seen = []
        handle = nn.modules.module.register_module_forward_hook(lambda m, i, o: seen.append(m))
        model(x)
        handle.remove()
        assert seen == [*model, model]

    def test_another_module_after_patching(self, x):
        model, stock, _ = patched_pair(Block())
        for own in (model, stock):
            own.other, own.act = nn.Identity(), nn.Softmax(-1)
        assert_same(model, stock, x)


class TestLeft:
    def reasons(self, model):
        return {own.name: own.reason for own in patch(model).left}

    def test_own_forward(self, x):
        model, stock, report = patched_pair(nn.Sequential(Own()))
        assert report.left == [Left("0", f"{PACKAGE}.Own", "its class has a forward of its own")]
        assert torch.equal(model(x), stock(x))

    def test_in_place(self, x):
        model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.SiLU(inplace=True))
        assert self.reasons(model) == {"1": "inplace=True"}
        assert type(model[1]) is nn.SiLU
        seen = []
        model[0].register_forward_hook(lambda m, i, o: seen.append(o))
        assert model(x) is seen[0]

    def test_forward_set_on_the_object(self, x):
        model = nn.Sequential(nn.GroupNorm(1, 3), nn.SiLU())
        model[1].forward = lambda input: input
        assert "set on the object" in self.reasons(model)["1"]
        assert torch.equal(model(x), F.group_norm(x, 1)) or torch.allclose(
            model(x), F.group_norm(x, 1), atol=1e-6
        )

    def test_parametrized(self, x):
        model = nn.Sequential(nn.GroupNorm(1, 3))
        nn.utils.parametrize.register_parametrization(model[0], "weight", nn.Identity())
        assert self.reasons(model) == {"0": "parametrized"}

    def test_parametrized_after_patching(self, x):
        model, stock, _ = patched_pair(nn.Sequential(nn.GroupNorm(1, 3)))
        nn.utils.parametrize.register_parametrization(model[0], "weight", nn.Identity())
        with pytest.raises(RuntimeError, match="0 is a ParametrizedGroupNorm"):
            unpatch(model)
        nn.utils.parametrize.remove_parametrizations(model[0], "weight")
        unpatch(model)
        assert type(model[0]) is nn.GroupNorm and torch.equal(model(x), stock(x))

    def test_lazy(self):
        assert self.reasons(nn.Sequential(nn.LazyBatchNorm2d())) == {}

    def test_dropout_is_left(self):
        _, _, report = patched_pair(nn.Sequential(nn.Dropout(0.5)))
        assert report.replaced == report.left == []

    def test_autocast(self, x, launched):
        model, stock, _ = patched_pair(Block())
        with torch.autocast("cpu", torch.bfloat16):
            found, wanted = model(x), stock(x)
        assert found.dtype == wanted.dtype
        assert "add_relu" not in launched and "add_rms_norm" not in launched
        torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.05)

    def test_wrong_type(self):
        with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module, got list"):
            patch([nn.ReLU()])
        with pytest.raises(TypeError, match="got int"):
            unpatch(3)


class TestReport:
    def test_table(self):
        report = patch(nn.Sequential(nn.SiLU(), nn.SiLU(), Own(), nn.Linear(3, 3)))
        assert str(report) == repr(report)
        assert str(report).splitlines() == [
            "2 modules replaced, 1 left",
            "",
            "replaced:",
            "     2 × torch.SiLU  fastgrad.torch.SiLU  0 and 1 more",
            "",
            "left:",
            f"     1 × {PACKAGE}.Own  its class has a forward of its own  2",
        ]
        assert report.share is None

    def test_share(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.Mish(), nn.Softplus(), nn.Flatten(0))
        x = torch.randn(200_000, 8)
        report = patch(model, measure=lambda: model(x).sum().backward())
        assert 0.3 < report.share < 1
        assert f"about {report.share:.0%} of a step" in str(report)
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


class TestCompile:
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_one_graph(self, x):
        model, stock, _ = patched_pair(Block())
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), stock(x), rtol=1e-5, atol=1e-6)

    def test_traceback_points_into_the_source(self, x):
        model, _, _ = patched_pair(Block())
        with pytest.raises(RuntimeError) as caught:
            model(x, torch.zeros(3))
        assert "x = x * skip" in [str(own.statement).strip() for own in caught.traceback]
