"""What a user writes in PyTorch without a fused operator, for each operator that is profiled.

Imports PyTorch.
"""

from __future__ import annotations

import math

import torch

from fastgrad.bench.contenders.composed import own, swish

__all__ = ["gelu", "gelu_tanh", "own", "silu", "swish"]


def silu(x):
    return x * torch.sigmoid(x)


def gelu(x):
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
