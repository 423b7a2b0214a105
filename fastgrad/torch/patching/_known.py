"""The forwards that are known by their text: what `_source.read` says of a class decides, not its name.

Each function here is a forward as it stands in a package, none of which is imported. What differs by a
single operation is another text and is left alone.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import nn

from ._source import innermost, read

__all__ = ["Known", "known"]

# mypy: disable-error-code="no-untyped-def"


@dataclass(frozen=True)
class Known:
    """What a forward computes, and what the class calls the attributes that it takes."""

    what: str
    attributes: tuple[str, ...]


def known(function: Any) -> Known | None:
    """What a forward, or a method of one argument, is known to compute."""
    function = innermost(function)
    if not isinstance(function, FunctionType):
        return None
    text = read(function)
    what = _table().get(text.key) if text is not None else None
    return None if what is None or text is None else Known(what, text.attributes)


@functools.cache
def _table() -> dict[str, str]:
    found = {}
    for what, function in _TEXTS:
        text = read(function)
        if text is not None:  # a bundle may come without sources, and then nothing is known
            found[text.key] = what
    return found


class _Foreign:
    """Stands for a function of a package that is not imported."""

    def __init__(self, name: str):
        self.__module__, self.__qualname__ = name.rsplit(".", 1)

    def __call__(self, *_: Any) -> bool:
        return False


is_torch_npu_available = _Foreign("diffusers.utils.import_utils.is_torch_npu_available")
is_torch_version = _Foreign("diffusers.utils.import_utils.is_torch_version")


# --- RMS norms; attributes: eps, weight


def _llama_rms_norm(self, x):
    dtype = x.dtype
    x = x.to(torch.float32)
    variance = x.pow(2).mean(-1, keepdim=True)
    x = x * torch.rsqrt(variance + self.eps)
    return self.weight * x.to(dtype)


def _olmo_rms_norm(self, x):
    dtype = x.dtype
    x = x.to(torch.float32)
    variance = x.pow(2).mean(-1, keepdim=True)
    x = x * torch.rsqrt(variance + self.eps)
    return (self.weight * x).to(dtype)


def _helium_rms_norm(self, x):
    dtype = x.dtype
    x = x.to(torch.float32)
    variance = x.pow(2).mean(-1, keepdim=True)
    x = x * torch.rsqrt(variance + self.eps)
    return (self.weight.to(torch.float32) * x).to(dtype)


def _t5_rms_norm(self, x):
    variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    x = x * torch.rsqrt(variance + self.eps)
    if self.weight.dtype in [torch.float16, torch.bfloat16]:
        x = x.to(self.weight.dtype)
    return self.weight * x


# Attributes: weight, eps, bias.
def _diffusers_rms_norm(self, x):
    if is_torch_npu_available() and self.weight is not None:
        import torch_npu  # type: ignore[import-not-found]

        if self.weight.dtype in [torch.float16, torch.bfloat16]:
            x = x.to(self.weight.dtype)
        x = torch_npu.npu_rms_norm(x, self.weight, epsilon=self.eps)[0]
        if self.bias is not None:
            x = x + self.bias
    else:
        dtype = x.dtype
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)

        if self.weight is not None:
            if self.weight.dtype in [torch.float16, torch.bfloat16]:
                x = x.to(self.weight.dtype)
            x = x * self.weight
            if self.bias is not None:
                x = x + self.bias
        else:
            x = x.to(dtype)

    return x


# --- Activations


# Attributes: the activation.
def _calls(self, x):
    return self.act(x)


def _silu(self, x):
    return nn.functional.silu(x)


def _gelu(self, x):
    return nn.functional.gelu(x)


def _gelu_python(self, x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def _gelu_tanh_python(self, x):
    return (
        x * 0.5 * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
    )


def _gelu_new(self, x):
    return (
        0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
    )


def _quick_gelu(self, x):
    return x * torch.sigmoid(1.702 * x)


def _squared_relu(self, x):
    relu = nn.functional.relu(x)
    squared = torch.square(relu)
    return squared


# `GELU.gelu` of diffusers; attributes: approximate.
def _diffusers_gelu(self, x):
    if x.device.type == "mps" and is_torch_version("<", "2.0.0"):
        return nn.functional.gelu(x.to(dtype=torch.float32), approximate=self.approximate).to(
            dtype=x.dtype
        )
    return nn.functional.gelu(x, approximate=self.approximate)


# `GEGLU.gelu` of diffusers.
def _diffusers_plain_gelu(self, x):
    if x.device.type == "mps" and is_torch_version("<", "2.0.0"):
        return nn.functional.gelu(x.to(dtype=torch.float32)).to(dtype=x.dtype)
    return nn.functional.gelu(x)


# Linear, then x · sigmoid(1.702 x): `ApproximateGELU` of diffusers; attributes: the linear layer.
def _linear_quick_gelu(self, x):
    x = self.proj(x)
    return x * torch.sigmoid(1.702 * x)


_TEXTS: list[tuple[str, Any]] = [
    ("rms_norm", _llama_rms_norm),
    ("rms_norm", _olmo_rms_norm),
    ("rms_norm", _helium_rms_norm),
    ("rms_norm", _t5_rms_norm),
    ("rms_norm_bias", _diffusers_rms_norm),
    ("calls", _calls),
    ("silu", _silu),
    ("gelu", _gelu),
    ("gelu", _gelu_python),
    ("gelu_tanh", _gelu_tanh_python),
    ("gelu_tanh", _gelu_new),
    ("quick_gelu", _quick_gelu),
    ("squared_relu", _squared_relu),
    ("gelu_approximate", _diffusers_gelu),
    ("gelu", _diffusers_plain_gelu),
    ("linear_quick_gelu", _linear_quick_gelu),
]
