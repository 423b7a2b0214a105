"""What a module, or a function, is to a fusion: an activation, a normalisation, a linear layer.

Asked at every call, so that a hook, an adapter or another module put in after patching is seen.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import MethodType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from .. import functional as ours
from .._activations import __all__ as _activation_functions
from ._known import Known, known

__all__ = [
    "ACTIVATIONS",
    "COUNTERPARTS",
    "Norm",
    "activation_of",
    "activation_of_kind",
    "linear_of",
    "norm_of",
    "original_of",
]

#: What computes each activation.
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": ours.gelu,
    "gelu_tanh": functools.partial(ours.gelu, approximate="tanh"),
    "mish": ours.mish,
    "quick_gelu": ours.quick_gelu,
    "relu": ours.relu,
    "silu": ours.silu,
    "squared_relu": ours.squared_relu,
}

#: fastgrad's function for one of PyTorch's, of the same signature.
COUNTERPARTS: dict[Any, Callable[..., torch.Tensor]] = {
    torch.relu: ours.relu,
    **{
        getattr(F, name): getattr(ours, name)
        for name in [*_activation_functions, "group_norm", "layer_norm", "rms_norm"]
        if hasattr(F, name)
    },
}

_GELUS = {"none": "gelu", "tanh": "gelu_tanh"}
_FUNCTIONS: dict[Any, str] = {
    F.gelu: "gelu",
    F.mish: "mish",
    F.relu: "relu",
    torch.relu: "relu",
    F.silu: "silu",
}


class Norm(NamedTuple):
    """A normalisation and its arguments; `groups` is a group norm's number of them."""

    what: str
    shape: tuple[int, ...]
    weight: torch.Tensor | None
    bias: torch.Tensor | None
    eps: float | None
    groups: int = 0


def original_of(cls: type) -> type:
    """The class before patching."""
    return cls.__dict__.get("_fastgrad_original", cls)


def activation_of(function: Any) -> str | None:
    """Which of `ACTIVATIONS` a module, function or bound method computes, or None."""
    if isinstance(function, nn.Module):
        reader = _reader(type(function))
        return reader(function) if reader is not None and reader in _ACTIVATION_READERS else None
    if isinstance(function, MethodType):
        found = _method(function.__func__)
        return None if found is None else activation_of_kind(found, function.__self__)
    if isinstance(function, functools.partial):
        if function.func is F.gelu and not function.args:
            keywords = dict(function.keywords)
            approximate = keywords.pop("approximate", "none")
            return None if keywords else _GELUS.get(str(approximate))
        return None
    try:
        return _FUNCTIONS.get(function)
    except TypeError:  # not hashable
        return None


def norm_of(module: Any) -> Norm | None:
    """What a module normalises, and by what, or None."""
    reader = _reader(type(module)) if isinstance(module, nn.Module) else None
    return reader(module) if reader is not None and reader not in _ACTIVATION_READERS else None


def linear_of(module: Any) -> nn.Linear | None:
    """A linear layer with a bias."""
    return module if type(module) is nn.Linear and module.bias is not None else None


def activation_of_kind(found: Known, owner: Any) -> str | None:
    """The activation of a known text, on its owner."""
    if found.what == "calls":
        return activation_of(getattr(owner, found.attributes[0], None))
    if found.what == "gelu_approximate":
        return _GELUS.get(getattr(owner, found.attributes[0], ""))
    if found.what == "gelu_constant":
        exact = getattr(owner, found.attributes[0], None) == math.sqrt(2 / math.pi)
        return "gelu_tanh" if exact else None
    return found.what if found.what in ACTIVATIONS else None


# --- Readers, one a class. Dictionaries, not functools.cache: that is nothing to torch.compile.

_READERS: dict[type, Callable[[Any], Any] | None] = {}
_METHODS: dict[Any, Known | None] = {}
_ACTIVATION_READERS: set[Any] = set()


def _method(function: Any) -> Known | None:
    if function not in _METHODS:
        if torch.compiler.is_compiling():
            return None
        _METHODS[function] = known(function)
    return _METHODS[function]


def _reader(cls: type) -> Callable[[Any], Any] | None:
    if cls not in _READERS:
        if torch.compiler.is_compiling():
            return None
        _READERS[cls] = _make_reader(original_of(cls))
    return _READERS[cls]


def _make_reader(cls: type) -> Callable[[Any], Any] | None:
    if not issubclass(cls, nn.Module):
        return None
    for base, reader in _OF_TORCH.items():
        if issubclass(cls, base) and cls.forward is base.forward:
            return reader
    found = known(cls.forward)
    if found is None or found.what == "linear_quick_gelu":
        return None
    if found.what.startswith("rms_norm"):
        return functools.partial(_read_known_norm, found)
    reader = functools.partial(activation_of_kind, found)
    _ACTIVATION_READERS.add(reader)
    return reader


def _read_group_norm(module: nn.GroupNorm) -> Norm:
    shape = (module.num_channels,)
    return Norm("group", shape, module.weight, module.bias, module.eps, module.num_groups)


def _read_layer_norm(module: nn.LayerNorm) -> Norm:
    return Norm("layer", module.normalized_shape, module.weight, module.bias, module.eps)


def _read_rms_norm(module: nn.RMSNorm) -> Norm:
    return Norm("rms", module.normalized_shape, module.weight, None, module.eps)


def _read_known_norm(found: Known, module: nn.Module) -> Norm | None:
    names = found.attributes
    if found.what == "rms_norm_bias":
        weight, eps, bias = (getattr(module, name, None) for name in names[:3])
    else:
        eps, weight = (getattr(module, name, None) for name in names[:2])
        bias = None
    if bias is not None or not isinstance(weight, torch.Tensor) or not isinstance(eps, float):
        return None
    return Norm("rms", tuple(weight.shape), weight, None, eps) if weight.ndim == 1 else None


def _read_gelu(module: nn.GELU) -> str | None:
    return _GELUS.get(module.approximate)


def _read_silu(_: nn.Module) -> str:
    return "silu"


def _read_relu(_: nn.Module) -> str:
    return "relu"


def _read_mish(_: nn.Module) -> str:
    return "mish"


_OF_TORCH: dict[type[nn.Module], Callable[[Any], Any]] = {
    nn.GroupNorm: _read_group_norm,
    nn.LayerNorm: _read_layer_norm,
    nn.RMSNorm: _read_rms_norm,
    nn.GELU: _read_gelu,
    nn.SiLU: _read_silu,
    nn.ReLU: _read_relu,
    nn.Mish: _read_mish,
}
_ACTIVATION_READERS.update({_read_gelu, _read_silu, _read_relu, _read_mish})
