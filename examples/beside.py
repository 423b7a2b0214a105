"""What the examples share: the size, and an interleaved measurement beside PyTorch's autodiff."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]  # an example works without it

ROUNDS = 15


def arrays(count: int) -> list[np.ndarray]:
    """`count` arrays of `--size` rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=256, help="rows of 1,024 (default: 256)")
    rows = parser.parse_args().size
    rng = np.random.default_rng(0)
    return [rng.standard_normal((rows, 1024), dtype=np.float32) for _ in range(count)]


def tensors(*values: np.ndarray) -> list:
    """PyTorch's leaves of the same values; none without PyTorch."""
    return [torch.tensor(value, requires_grad=True) for value in values] if torch else []


def report(name: str, ours: Callable, autodiff: Callable) -> None:
    """Print both medians, measured in turn; only ours without PyTorch."""
    runs = [ours, autodiff] if torch else [ours]
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    for _ in range(ROUNDS):
        for run, own in zip(runs, times, strict=True):
            began = time.perf_counter()
            run()
            own.append(time.perf_counter() - began)
    medians = [statistics.median(own) * 1e3 for own in times]
    beside = f"PyTorch's autodiff {medians[1]:.3f} ms" if torch else "PyTorch is not installed"
    ratio = f", {medians[1] / medians[0]:.1f} times" if torch else ""
    print(f"{name}: forward and backward {medians[0]:.3f} ms, {beside}{ratio}")
