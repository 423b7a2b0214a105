"""The peak memory of a call: what it allocates beyond what was there, warm memory included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fastgrad
from fastgrad.bench import memory
from fastgrad.bench.memory import peak_bytes

MIB = 1 << 20
X = np.ones(4 * MIB, np.float32)


def peak_mib(call) -> float:
    peak = peak_bytes(call)
    assert peak is not None
    return peak / MIB


def test_a_result():
    assert peak_mib(lambda: np.add(X, X)) == pytest.approx(16, abs=1)


def test_an_intermediate_that_is_gone_when_the_call_ends():
    assert peak_mib(lambda: (X + X) * (X + X)) == pytest.approx(32, abs=1)


def test_nothing_where_the_memory_was_made_before():
    out = np.ones_like(X)
    assert peak_mib(lambda: np.add(X, X, out=out)) == pytest.approx(0, abs=1)


def test_warm_memory_that_a_result_takes_again_counts():
    for _ in range(2):
        fastgrad.silu(X)
    assert peak_mib(lambda: fastgrad.silu(X)) == pytest.approx(16, abs=1)


def test_a_system_that_does_not_say(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_CLEAR", Path(tmp_path) / "missing" / "clear_refs")
    assert peak_bytes(lambda: None) is None
