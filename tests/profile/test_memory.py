"""Bytes kept and at most, of both: a child process each."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch

import references
from fastgrad.profile import __main__ as command
from fastgrad.profile import composed, memory

MEGABYTES = 8
SHAPE = (MEGABYTES << 18,)  # float32


@pytest.fixture(scope="module")
def swish():
    return memory.measure("swish_grad", SHAPE, "float32")


def test_fastgrad_keeps_its_operand_alone(swish):
    usages, missing = swish
    own = usages[memory.FASTGRAD]
    assert missing == ""
    assert own.kept == MEGABYTES << 20
    assert own.peak is None or 1.8 <= own.peak / (MEGABYTES << 20) <= 2.5
    assert "fastgrad.vjp(fastgrad.swish, x)" in own.code


def test_composed_autodiff_keeps_more(swish):
    usages, _ = swish
    own, beside = usages[memory.FASTGRAD], usages[memory.COMPOSED]
    assert beside.kept > own.kept
    assert own.peak is None or beside.peak > own.peak
    assert "torch.sigmoid" in beside.code


def test_the_table(swish):
    usages, _ = swish
    table = memory.usage_table(usages, MEGABYTES << 20)
    own, beside = ([cell.text for cell in row] for row in table.rows)
    assert own[:2] == ["fastgrad.vjp", "8.39 MB (1.00)"]
    assert float(own[3]) < 1
    assert beside[3:] == ["1", "1"]


@pytest.mark.parametrize("name", ["silu", "swish", "gelu", "gelu_tanh"])
def test_the_composed_code_is_the_operator(name):
    x = np.linspace(-5, 5, 101)
    expected = getattr(references, name.replace("silu", "swish"))(x)
    found = getattr(composed, name)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_scratch_of_both_programs():
    forward, backward = memory.scratch_lines("swish_grad", "float16")
    assert "swish: 2 UB buffers × 24576 elements × 4 bytes = 192 KiB" in forward
    assert backward.startswith("swish_grad: 3 UB buffers")
    assert "1 × 4 KiB where results are streamed" in backward


def test_without_pytorch(monkeypatch, capsys):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "torch" else find_spec(name)
    )
    monkeypatch.setattr(memory, "_in_own_process", lambda function, *given: function(*given))
    assert command.main(["memory", "--op", "swish_grad", "--shape", "1024"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "fastgrad.vjp 4.1 kB (1.00)" in shown
    assert "PyTorch is not installed" in shown
    assert "pip install 'fastgrad[torch]'" in shown
