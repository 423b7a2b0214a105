"""A patched model on two processes: DistributedDataParallel and FSDP over gloo; the example."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ranks import run_ranks

ROOT = Path(__file__).parents[2]

# What both processes train, patched or not, on the same data; and the losses of some steps.
MODEL = """
import copy

def make_model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.SiLU(),
        nn.Conv2d(16, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 32),
        nn.LayerNorm(32),
        nn.SiLU(),
        nn.RMSNorm(32),
        nn.Linear(32, 5),
    )

def patched(model):
    fastgrad.torch.patch(model)
    return fastgrad.torch.SyncBatchNorm.convert_sync_batchnorm(model)

torch.manual_seed(1)
images, labels = torch.randn(8, 3, 10, 10), torch.arange(8) % 5

def loss_of(model, chosen):
    return nn.functional.cross_entropy(model(images[chosen]), labels[chosen])

share = slice(rank * len(labels) // world, (rank + 1) * len(labels) // world)

def gradients_of(model):
    return [one.grad for one in model.parameters()]
"""

DDP = (
    MODEL
    + """
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(patched(make_model()))
loss_of(model, share).backward()
whole = make_model()
loss_of(whole, slice(None)).backward()
save(gradients=gradients_of(model), whole=gradients_of(whole), state=model.module.state_dict(),
     stock=whole.state_dict(), kinds=[type(one).__module__ for one in model.modules()])
"""
)

FSDP = (
    MODEL
    + """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

mesh = init_device_mesh("cpu", (world,))

def without_batch_norm():
    model = make_model()
    del model[4]  # PyTorch's has no statistics of two processes on the CPU
    return model

def losses_of(model):
    for layer in (model[0], model[3], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(15):
        loss = loss_of(model, share)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses), [one.full_tensor().detach() for one in model.parameters()]

stock, stock_weights = losses_of(without_batch_norm())
fused, weights = losses_of(patched(without_batch_norm()))
save(stock=stock, fused=fused, weights=weights, stock_weights=stock_weights)
"""
)


def distance(got, exact):
    return float((got - exact).norm() / exact.norm().clamp(min=1e-3))


@pytest.fixture(scope="module")
def ddp(tmp_path_factory):
    return run_ranks(DDP, tmp_path_factory.mktemp("ddp"))


def test_gradients_of_two_processes_are_those_of_the_whole_batch(ddp):
    for rank in ddp:
        for got, exact in zip(rank["gradients"], rank["whole"], strict=True):
            assert distance(got, exact) < 2e-5


def test_gradients_and_buffers_have_the_same_bits_on_both(ddp):
    first, second = ddp
    assert all(map(torch.equal, first["gradients"], second["gradients"]))
    for name, value in first["state"].items():
        assert torch.equal(value, second["state"][name]), name


def test_state_has_the_names_and_values_of_the_stock_model(ddp):
    assert list(ddp[0]["state"]) == list(ddp[0]["stock"])
    torch.testing.assert_close(dict(ddp[0]["state"]), dict(ddp[0]["stock"]))


def test_model_was_patched(ddp):
    assert any(kind.startswith("fastgrad.torch") for kind in ddp[0]["kinds"])


def test_sharded_model_trains_as_the_stock_one(tmp_path):
    for rank in run_ranks(FSDP, tmp_path):
        torch.testing.assert_close(rank["fused"], rank["stock"], rtol=2e-4, atol=1e-5)
        assert rank["fused"][-1] < 0.8 * rank["fused"][0]
        assert rank["fused"].isfinite().all()


def test_example_runs_under_torchrun():
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    process = subprocess.Popen(
        [sys.executable, *command, ROOT / "examples/torch/ddp.py", "--epochs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        output, errors = process.communicate(timeout=150)
    finally:
        process.terminate()  # torchrun ends its processes, which kill() would leave behind
        process.wait(30)
    assert process.returncode == 0, errors[-3000:]
    assert "epoch 2" in output and "bit for bit: yes" in output
