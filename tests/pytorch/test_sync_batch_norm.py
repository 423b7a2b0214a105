"""`SyncBatchNorm` over two processes beside one process's batch norm over the whole batch."""

import pytest
import torch
from torch import nn

import fastgrad.torch
from ranks import run_ranks

# The batch of each case, and where it is cut in two.
CASES = {
    "plain": ((6, 5, 7, 9), 3, {}),
    "uneven": ((6, 5, 7, 9), 1, {}),
    "one value": ((4, 5), 1, {}),
    "empty": ((4, 5, 6), 0, {}),
    "volumes": ((4, 3, 2, 5, 4), 2, {}),
    "channels last": ((6, 16, 7, 9), 3, {"last": True}),
    "no affine": ((6, 5, 7, 9), 3, {"affine": False}),
    "cumulative": ((6, 5, 7, 9), 3, {"momentum": None}),
    "untracked": ((6, 5, 7, 9), 3, {"track_running_stats": False}),
    "far from 0": ((6, 5, 7, 9), 3, {"shift": 1e3}),
    "bfloat16": ((6, 16, 7, 9), 3, {"dtype": torch.bfloat16}),
    "float64": ((6, 5, 7, 9), 3, {"dtype": torch.float64}),
}

CODE = """
from test_sync_batch_norm import CASES, batch_of, norm_of

found = {}
for name, (shape, cut, options) in CASES.items():
    layer = norm_of(fastgrad.torch.SyncBatchNorm, shape, options)
    x, dy = (part[:cut] if rank == 0 else part[cut:] for part in batch_of(shape, options))
    for _ in range(2):
        x = x.detach().requires_grad_()
        layer.zero_grad()
        y = layer(x)
        y.backward(dy)
    found[name] = {"y": y.detach(), "dx": x.grad, "last": y.stride() == x.stride()}
    found[name] |= {f"d{key}": one.grad for key, one in layer.named_parameters()}
    found[name] |= dict(layer.named_buffers())
save(**found)
"""


def batch_of(shape, options):
    """Input and incoming gradient, different in each channel."""
    torch.manual_seed(0)
    dtype = options.get("dtype", torch.float32)
    spread = torch.linspace(0.5, 2, shape[1]).view(-1, *[1] * (len(shape) - 2))
    x = torch.randn(shape) * spread + spread + options.get("shift", 0.0)
    both = [one.to(dtype) for one in (x, torch.randn(shape))]
    if options.get("last"):
        both = [one.contiguous(memory_format=torch.channels_last) for one in both]
    return both


def norm_of(kind, shape, options):
    """A layer whose parameters are neither 0 nor 1."""
    names = ("affine", "momentum", "track_running_stats")
    layer = kind(shape[1], **{name: options[name] for name in names if name in options})
    for number, parameter in enumerate(layer.parameters()):
        parameter.data = torch.linspace(-1, 2, shape[1]) + number
    if options.get("dtype") == torch.float64:
        layer.double()
    return layer


def on_whole_batch(shape, options):
    """PyTorch's own batch norm in one process, in float64."""
    kinds = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
    layer = norm_of(kinds[len(shape)], shape, options).double()
    x, dy = (part.double() for part in batch_of(shape, options))
    for _ in range(2):
        x = x.detach().requires_grad_()
        layer.zero_grad()
        y = layer(x)
        y.backward(dy)
    gradients = {f"d{key}": one.grad for key, one in layer.named_parameters()}
    return {"y": y.detach(), "dx": x.grad, **gradients, **dict(layer.named_buffers())}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    here = __file__.rpartition("/")[0]
    path = f"import sys; sys.path += [{here!r}, {here.rpartition('/')[0]!r}]\n"
    return run_ranks(path + CODE, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("name", CASES)
def test_two_processes_are_one_over_the_whole_batch(found, name):
    shape, _, options = CASES[name]
    exact = on_whole_batch(shape, options)
    first, second = (rank[name] for rank in found)
    shift = options.get("shift", 0.0)
    tolerance = {torch.bfloat16: 1e-2, torch.float64: 1e-12}.get(options.get("dtype"), 2e-6)
    tolerance *= 1 + shift / 10  # x itself has fewer digits after the point
    for key, value in exact.items():
        if key in ("y", "dx"):
            got = torch.cat([first[key], second[key]])
        elif key in ("dweight", "dbias"):
            got = first[key] + second[key]  # DistributedDataParallel takes their mean
        else:
            got = first[key]
        assert got.shape == value.shape, key
        value = value.double()
        distance = (got.double() - value).norm() / value.norm().clamp(min=1e-3)
        assert distance < tolerance, key


@pytest.mark.parametrize("name", CASES)
def test_what_is_shared_has_the_same_bits_on_both(found, name):
    first, second = (rank[name] for rank in found)
    for key in ("running_mean", "running_var", "num_batches_tracked"):
        if key in first:
            assert torch.equal(first[key], second[key])


def test_layout_is_kept(found):
    assert all(rank["channels last"]["last"] for rank in found)


def test_alone_it_is_batch_norm():
    shape = (6, 5, 7, 9)
    x, _ = batch_of(shape, {})
    sync, stock = (
        norm_of(fastgrad.torch.SyncBatchNorm, shape, {}),
        norm_of(nn.BatchNorm2d, shape, {}),
    )
    for training in (True, False):
        y, exact = (layer.train(training)(x) for layer in (sync, stock))
        torch.testing.assert_close(y, exact)
    torch.testing.assert_close(sync.state_dict(), stock.state_dict())


@pytest.mark.parametrize("of", [nn, fastgrad.torch])
def test_conversion_keeps_parameters_and_state(of):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), of.BatchNorm2d(4, eps=1e-3), nn.Sequential(of.BatchNorm1d(4))
    )
    model[1](torch.randn(2, 4, 3, 3))
    model[2].eval()
    before = model.state_dict()
    parameters = list(model.parameters())
    converted = fastgrad.torch.SyncBatchNorm.convert_sync_batchnorm(model)
    assert converted is model
    assert type(model[1]) is type(model[2][0]) is fastgrad.torch.SyncBatchNorm
    assert [model[1].training, model[2][0].training, model[1].eps] == [True, False, 1e-3]
    assert all(one is other for one, other in zip(parameters, model.parameters(), strict=True))
    torch.testing.assert_close(dict(model.state_dict()), dict(before), rtol=0, atol=0)


def test_stock_sync_batch_norm_is_converted_with_its_group():
    stock = nn.SyncBatchNorm(4, bias=False)
    stock.process_group = "a group"
    made = fastgrad.torch.SyncBatchNorm.convert_sync_batchnorm(stock)
    assert made.process_group == "a group" and made.bias is None
