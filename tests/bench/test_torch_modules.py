"""Modules of PyTorch beside fastgrad's: what is counted, compared and shown."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from fastgrad.bench.torch_modules import __main__ as compare_torch
from fastgrad.bench.torch_modules import stock
from fastgrad.bench.torch_modules.kept import bytes_kept
from fastgrad.bench.torch_modules.report import TARGETS
from fastgrad.bench.torch_modules.results import ModuleResults, Row, difference
from fastgrad.bench.torch_modules.tasks import TASKS


def test_kept_counts_each_storage_once_and_no_parameter():
    x = torch.randn(8, 16, requires_grad=True)
    layer = nn.Linear(16, 16)

    def forward():
        y = layer(x)
        return nn.functional.silu(y) * y[:4].sum()

    # x, y (for silu and, by its first rows, not at all for the sum), silu(y) and the sum.
    assert bytes_kept(forward, layer.parameters()) == 3 * x.nbytes + 4


class Hidden(torch.autograd.Function):
    """Keeps an array and a tensor where the hooks of saved tensors do not see them."""

    @staticmethod
    def forward(ctx, x):
        ctx.array = np.zeros((10, 10), np.float32)[2:]
        ctx.tensors = [torch.zeros(7)]
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy


def test_kept_counts_what_a_function_holds_as_attributes():
    x = torch.randn(4, requires_grad=True)
    assert bytes_kept(lambda: Hidden.apply(x).relu(), ()) == 400 + 28 + 16


def test_tasks_are_the_same_for_the_same_seed():
    task = TASKS["ResBlock-64"]
    first, second = (task.bind(stock, seed=3).values() for _ in range(2))
    assert difference(first, second) == 0
    assert len(first) == 1 + 2 + len(list(task.make(stock).parameters()))
    assert difference(first, task.bind(stock, seed=4).values()) > 0.1


def row(kind, own, other, kept):
    samples = {"fastgrad": own, "torch": other, "torch-thp": other}
    counts = {"fastgrad": kept, "torch": 100, "torch-thp": 100}
    return Row(kind, kind, "8", samples, counts, 1e-7)


def test_numbers_to_reach_are_medians_of_rounds():
    rows = [
        row("overhead", [30e-6, 60e-6, 40e-6], [20e-6, 20e-6, 20e-6], 100),
        row("module", [1.0, 2.0, 1.0], [4.0, 8.0, 5.0], 100),
        row("module", [1.0, 1.0, 1.0], [9.0, 9.0, 9.0], 100),
        row("res block", [1.0, 1.0], [1.25, 1.25], 62),
        row("bottleneck", [1.0, 1.0], [1.5, 1.5], 50),
    ]
    results = ModuleResults({}, {}, {}, {}, rows)
    seen = [next(target.find(results)).value for target in TARGETS]
    assert seen == pytest.approx([20, 6, 6, 1.25, 0.62, 1.5])


def test_command_measures_and_stores(tmp_path, capsys):
    file = tmp_path / "run.json"
    command = ["--only", "silu-overhead", "--rounds", "2", "--json", str(file)]
    assert compare_torch.main(command) == 0
    stored = json.loads(file.read_text())
    assert [len(taken) for taken in stored["rows"][0]["samples"].values()] == [2, 2, 2]
    assert stored["rows"][0]["difference"] < 1e-6
    assert "silu, elements" in capsys.readouterr().out
