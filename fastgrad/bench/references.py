"""The measured operators in plain float64, for the errors of the contenders.

Each gives the terms of its results instead of their sums: where two terms cancel (swish' is 0 near
x = -1.28) no float32 result is exact, so errors are judged at the size of the larger term.
Nothing here calls fastgrad or a peer.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Terms = tuple[Array, ...]

_erfc = np.frompyfunc(math.erfc, 1, 1)


def add(x: Array, y: Array) -> dict[str, Terms]:
    return {"sum": (x, y)}


def swish(x: Array) -> dict[str, Terms]:
    return {"y": (x * _sigmoid(x),)}


def swish_grad(dy: Array, x: Array) -> dict[str, Terms]:
    return {"dx": (dy * _sigmoid(x), dy * x * _sigmoid(x) * _sigmoid(-x))}


def swish_forward_backward(dy: Array, x: Array) -> dict[str, Terms]:
    return swish(x) | swish_grad(dy, x)


def gelu(x: Array) -> dict[str, Terms]:
    return {"y": (x * _normal_cdf(x),)}


def gelu_grad(dy: Array, x: Array) -> dict[str, Terms]:
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return {"dx": (dy * _normal_cdf(x), dy * x * density)}


def gelu_tanh_grad(dy: Array, x: Array) -> dict[str, Terms]:
    # (1 + tanh(u)) / 2 is sigmoid(2u), which keeps its digits in the tail.
    z = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    slope = 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return {"dx": (dy * _sigmoid(z), dy * x * _sigmoid(z) * _sigmoid(-z) * slope)}


def _sigmoid(z: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-z))


def _normal_cdf(x: Array) -> Array:
    return 0.5 * np.asarray(_erfc(-x / math.sqrt(2)), np.float64)
