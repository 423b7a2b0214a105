"""Networks in training: the losses of stock PyTorch; workers that are forked."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import fastgrad.torch as ft


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(),
            nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Flatten(),
            nn.Linear(8 * 64, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4),
        )  # fmt: skip

    def forward(self, x):
        return self.layers(x)


def losses(net, loss, steps=50):
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 1, 8, 8, generator=generator)
    target = torch.randn(32, 4, generator=generator)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(net(x), target)
        value.backward()
        optimizer.step()
        found.append(value.item())
    return found


def test_fifty_steps_reach_the_loss_of_stock():
    torch.manual_seed(0)
    stock = Net()
    patched = copy.deepcopy(stock)
    report = ft.patch(patched)
    assert len(report.replaced) >= 6
    expected = losses(stock, nn.functional.mse_loss)
    found = losses(patched, ft.mse_loss)
    assert expected[-1] < 0.7 * expected[0]
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-4, atol=1e-6)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    for (name, a), (_, b) in zip(
        patched.state_dict().items(), stock.state_dict().items(), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=name)


class Rows(torch.utils.data.Dataset):
    """Each item is computed in a worker, with its gradient."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        x = torch.full((4096,), float(index) / 8, requires_grad=True)
        y = ft.gelu(ft.layer_norm(x * torch.linspace(-1, 1, 4096), (4096,)))
        (dx,) = torch.autograd.grad(y.sum(), x)
        return y.detach(), dx


def test_data_loader_workers():
    rows = Rows()
    here = [rows[index] for index in range(len(rows))]
    loader = torch.utils.data.DataLoader(
        rows, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=120
    )
    for (y, dx), (other_y, other_dx) in zip(loader, here, strict=True):
        assert torch.equal(y, other_y)
        assert torch.equal(dx, other_dx)
