"""What PyTorch's users rely on around an operator: autocast, checkpoints, hooks, versions, devices, forks."""

from __future__ import annotations

import concurrent.futures
import gc
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils.checkpoint import checkpoint

import fastgrad.torch as ft


def normal(*shape, dtype=torch.float32, seed=0, grad=True):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return x.requires_grad_(grad)


def block(x, w, b):
    return ft.gelu(ft.layer_norm(ft.silu(x), (8,), w, b))


def gradients(function, *tensors):
    y = function(*tensors)
    return torch.autograd.grad(y.sum(), tensors)


def test_checkpointing_gives_the_same_gradients():
    tensors = normal(4, 8), normal(8, seed=1), normal(8, seed=2)
    plain = gradients(block, *tensors)
    again = gradients(lambda *own: checkpoint(block, *own, use_reentrant=False), *tensors)
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))


def test_saved_tensor_hooks_see_all_that_is_kept():
    x, w, b = normal(4, 8), normal(8, seed=1), normal(8, seed=2)
    packed, unpacked = [], []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t.shape) or t.clone(), lambda t: unpacked.append(t.shape) or t
    ):
        y = ft.layer_norm(x, (8,), w, b)
        z = ft.silu(y)
        z.sum().backward()
    assert packed == unpacked or sorted(packed) == sorted(unpacked)
    assert len(packed) == 6  # x, w, b, mean, rstd; and the input of silu
    assert x.grad.shape == x.shape


@pytest.mark.parametrize(
    "function", [ft.silu, lambda x: ft.group_norm(x, 2), lambda x: ft.swiglu(x, x + 1)]
)
def test_a_kept_tensor_that_is_written_is_an_error(function):
    x = normal(4, 8)
    work = x * 1.0
    y = function(work)
    work.add_(1.0)
    with pytest.raises(RuntimeError, match=r"modified (by an inplace|inplace)"):
        y.sum().backward()


def test_B48_results_are_no_inputs_and_gradients_own_their_memory():
    x = normal(4, 8)
    y = ft.softplus(x)
    bits = y.detach().clone()
    loss = ft.mse_loss(y, torch.zeros_like(y)) + 0.5 * (y * y).sum()
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    (second,) = torch.autograd.grad(loss, x)
    assert torch.equal(y, bits)
    assert torch.equal(first, second)


def test_B33_incoming_gradient_is_not_written():
    x = torch.tensor([[3.0, 4.0]], requires_grad=True)
    dy = torch.ones(1, 2)
    for _ in range(2):
        z = x + ft.rms_norm(x, (2,), None, 1e-6)
        (dx,) = torch.autograd.grad(z, x, dy)
        torch.testing.assert_close(dx, torch.tensor([[1.0452548511928, 0.9660589012034]]))
        assert torch.equal(dy, torch.ones(1, 2))
        assert dx.untyped_storage().data_ptr() != dy.untyped_storage().data_ptr()


def test_inference_mode_and_no_grad():
    x = normal(4, 8)
    with torch.inference_mode():
        y = block(x, torch.ones(8), torch.zeros(8))
        assert y.is_inference()
    with torch.no_grad():
        assert not ft.gelu(x).requires_grad
    assert not ft.gelu(x.detach()).requires_grad


def test_only_what_is_needed_gets_a_gradient():
    x, w = normal(4, 8, grad=False), normal(8, seed=1)
    ft.rms_norm(x, (8,), w).sum().backward()
    assert x.grad is None
    assert w.grad.shape == w.shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_parameter_gradients_have_the_strides_of_the_parameter(dtype):
    w = nn.Parameter(torch.randn(4, 8).t().to(dtype))  # (8, 4), transposed
    x = torch.randn(3, 8, 4, dtype=dtype)
    ft.layer_norm(x, (8, 4), w).sum().backward()
    assert w.grad.stride() == w.stride()
    images = torch.randn(2, 4, 3, 3, dtype=dtype).contiguous(memory_format=torch.channels_last)
    leaf = nn.Parameter(images)
    ft.silu(leaf).sum().backward()
    assert leaf.grad.stride() == leaf.stride()


@pytest.mark.parametrize("function", [lambda x: ft.group_norm(x, 4), ft.silu, ft.mish])
def test_channels_last_is_kept(function):
    x = normal(2, 32, 5, 7, grad=False).contiguous(memory_format=torch.channels_last)
    x.requires_grad_()
    y = function(x)
    assert y.is_contiguous(memory_format=torch.channels_last)
    (dx,) = torch.autograd.grad(y.square().sum(), x)
    assert dx.is_contiguous(memory_format=torch.channels_last)


# --- Autocast (B73)


class Net(nn.Module):
    def __init__(self, kit):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)
        self.norm, self.other, self.act = kit.GroupNorm(4, 16), kit.LayerNorm(16), kit.GELU()

    def forward(self, x):
        return self.last(self.act(self.other(self.norm(self.first(x)))))


def test_B73_autocast_takes_half_inputs_with_float32_weights():
    torch.manual_seed(0)
    stock = Net(nn)
    own = Net(ft)
    own.load_state_dict(stock.state_dict())
    x = torch.randn(6, 8)
    seen = []
    own.norm.register_forward_hook(
        lambda module, inputs, y: seen.append((inputs[0].dtype, y.dtype))
    )
    exact = stock(x).sum()
    exact.backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = own(x)
    assert seen == [(torch.bfloat16, torch.bfloat16)]
    assert y.dtype is torch.bfloat16
    y.sum().backward()
    for a, b in zip(own.parameters(), stock.parameters(), strict=True):
        assert a.grad.dtype is torch.float32
        torch.testing.assert_close(a.grad, b.grad, atol=0.1, rtol=0.05)


def test_B73_an_overflown_gradient_shows():
    x = normal(2, 8, dtype=torch.float16)
    (dx,) = torch.autograd.grad(ft.gelu(x), x, torch.full((2, 8), torch.inf, dtype=torch.float16))
    assert not dx.isfinite().any()


@pytest.mark.parametrize("loss", [ft.mse_loss, ft.smooth_l1_loss, ft.huber_loss])
def test_losses_are_float32_under_autocast(loss):
    x = normal(4, 8, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(x, torch.zeros(4, 8))
    assert value.dtype is torch.float32
    value.backward()
    assert x.grad.dtype is torch.bfloat16


# --- Tensors that are not what they should be (B58, B59)


def test_B58_bfloat16_without_a_copy():
    x = torch.tensor([1.0, -3.0, 0.00390625], dtype=torch.bfloat16)
    y = ft.silu(x)
    assert y.dtype is torch.bfloat16
    assert y[0].item() == 0.73046875
    nan = torch.tensor([float("nan"), 3.3895e38], dtype=torch.bfloat16)
    assert ft.silu(nan).isnan().tolist() == [True, False]


def test_B59_other_devices_are_refused():
    with FakeTensorMode():
        x = torch.ones(4, 8, device="cuda")
        for function in (ft.gelu, lambda x: ft.layer_norm(x, (8,)), ft.swiglu):
            with pytest.raises(TypeError, match=r"is on cuda:0.*set_other_devices"):
                function(x)
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(TypeError, match="must be dense"):
        ft.gelu(sparse)
    with pytest.raises(TypeError, match=r"fastgrad\.torch\.gelu must be a torch\.Tensor"):
        ft.gelu([1.0])


def test_other_devices_may_go_to_pytorch():
    ft.set_other_devices("pytorch")
    try:
        with FakeTensorMode():
            x = torch.ones(4, 8, device="cuda")
            y = ft.gelu(ft.group_norm(ft.layer_norm(x, (8,)), 2))
            assert y.device.type == "cuda"
        assert torch.equal(ft.relu(torch.ones(3)), torch.ones(3))
    finally:
        ft.set_other_devices("error")
    assert ft.get_other_devices() == "error"
    with pytest.raises(ValueError, match="way must be one of"):
        ft.set_other_devices("cuda")


def test_B59_integers_and_complex_numbers_are_refused():
    for x in (torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.complex64)):
        with pytest.raises(TypeError, match="must be float16, bfloat16, float32"):
            ft.gelu(x)


def test_negative_and_conjugate_views():
    z = torch.complex(torch.randn(5), torch.randn(5))
    x = z.conj().imag  # a view whose sign is a bit of the tensor
    assert x.is_neg()
    torch.testing.assert_close(ft.silu(x), torch.nn.functional.silu(x))


# --- Second derivatives (B70)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (ft.silu, 0.5),
        (ft.gelu, 0.79788456080286541),
        (lambda x: ft.gelu(x, "tanh"), 0.79788456080286541),
    ],
)
def test_B70_second_derivative_at_0(function, expected):
    x = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (dx,) = torch.autograd.grad(function(x), x, create_graph=True)
    (second,) = torch.autograd.grad(dx, x)
    assert second.item() == pytest.approx(expected, rel=1e-14)


def test_third_derivative():
    x = normal(5, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(
        lambda x: torch.autograd.grad(ft.tanh(x).sum(), x, create_graph=True)[0], x
    )


# --- Processes, threads, memory


def test_autograd_from_several_threads():
    x = normal(64, 128)
    expected = gradients(lambda own: ft.gelu(ft.layer_norm(own, (128,))), x)[0]

    def work(_):
        own = x.detach().clone().requires_grad_()
        return gradients(lambda own: ft.gelu(ft.layer_norm(own, (128,))), own)[0]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(own, expected) for own in pool.map(work, range(40)))


def test_forwards_without_backward_leak_nothing():
    x, w, b = normal(256, 1024), normal(1024, seed=1), normal(1024, seed=2)

    def run(count):
        for _ in range(count):
            ft.silu(x)
            ft.layer_norm(x, (1024,), w, b)
        gc.collect()
        return sum(1 for own in gc.get_objects() if type(own) is torch.Tensor), resident()

    run(50)
    tensors, before = run(10)
    more, after = run(1000)
    assert more == tensors
    assert after - before < 16 << 20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_keep_memory_stops_page_faults():
    program = """
import resource, torch, fastgrad.torch as ft
assert ft.keep_memory()
def step():
    x = torch.ones(2 << 20)
    return float((x * 2.0 + 1.0)[0])
for _ in range(5): step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5): step()
fresh = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
assert fresh < 4096, fresh  # two tensors' pages; 20,000 without
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with pytest.raises(ValueError, match="limit must be from 0"):
        ft.keep_memory(-1)
