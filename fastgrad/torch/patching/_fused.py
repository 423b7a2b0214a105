"""What a rewritten forward calls in the place of two modules.

Each does what PyTorch would, module by module, unless all of this holds at the call: the modules are
what a fusion is for, nothing watches them (a hook would see what is no longer made), and the tensors
are plain, of one dtype, on the CPU. So whatever happens to a model after patching, what it computes
stays what its source says.
"""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module as torch_module

from .. import functional as ours
from .._tensors import DTYPES
from ._roles import COUNTERPARTS, Norm, activation_of, linear_of, norm_of

__all__ = [
    "add_norm",
    "adds",
    "are_plain",
    "call",
    "chain",
    "counterpart",
    "ends",
    "fits",
    "gated",
    "gates",
    "is_activation",
    "is_watched",
    "norm_add",
    "packed",
    "pairs",
]

_GATED: dict[str | None, tuple[Any, dict[str, Any]]] = {
    "gelu": (ours.geglu, {}),
    "gelu_tanh": (ours.geglu, {"approximate": "tanh"}),
    "relu": (ours.reglu, {}),
    "silu": (ours.swiglu, {}),
}
_AFTER_LINEAR: dict[str, tuple[Any, dict[str, Any]]] = {
    "gelu": (ours.add_gelu, {}),
    "gelu_tanh": (ours.add_gelu, {"approximate": "tanh"}),
    "relu": (ours.add_relu, {}),
    "silu": (ours.add_swish, {}),
}
_AFTER_GROUP_NORM: dict[str, Any] = {
    "relu": ours.group_norm_relu,
    "silu": ours.group_norm_swish,
}
_FUNCTIONS = (FunctionType, BuiltinFunctionType)
_PLAIN = frozenset({torch.Tensor, nn.Parameter})


def is_watched(module: Any) -> bool:
    """Whether something else than its forward happens when a module is called."""
    if not isinstance(module, nn.Module):
        return False
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in module.__dict__
        or module._compiled_call_impl is not None
    )


def pairs(first: Any, second: Any) -> str | None:
    """What fuses two modules that follow each other, or None."""
    activation = activation_of(second)
    if activation is None:
        return None
    if linear_of(first) is not None and activation in _AFTER_LINEAR:
        return _AFTER_LINEAR[activation][0].__name__
    norm = norm_of(first)
    if norm is not None and norm.what == "group" and activation in _AFTER_GROUP_NORM:
        return _AFTER_GROUP_NORM[activation].__name__
    return None


def ends(activation: Any, norm: Any) -> str | None:
    """What fuses a norm, an addition and the activation that follows them, or None."""
    found = norm_of(norm)
    is_group = found is not None and found.what == "group"
    return "group_norm_add_relu" if is_group and activation_of(activation) == "relu" else None


def adds(norm: Any) -> str | None:
    """What fuses an addition with the norm that follows it, or None."""
    found = norm_of(norm)
    return {"layer": "add_layer_norm", "rms": "add_rms_norm"}.get(found.what) if found else None


def gates(activation: Any) -> str | None:
    """What fuses an activation with the product that follows it, or None."""
    found = _GATED.get(activation_of(activation) or "")
    return found[0].__name__ if found else None


def is_activation(function: Any) -> bool:
    """Whether it may open a gate."""
    return activation_of(function) in _GATED


def chain(x: Any, *steps: Any) -> Any:
    """``steps[-1](… steps[0](x))``."""
    place = 0
    while place < len(steps):
        if place + 1 < len(steps):
            fused = _pair(steps[place], steps[place + 1], x)
            if fused is not None:
                x = fused
                place += 2
                continue
        step = steps[place]
        x = step(x) if isinstance(step, nn.Module) else call(step, x)
        place += 1
    return x


def call(function: Any, x: Any, *arguments: Any, **options: Any) -> Any:
    """``function(x, …)``, one of `torch.nn.functional`."""
    if are_plain(x, *[own for own in arguments if isinstance(own, torch.Tensor)]):
        named = [own for own in options.values() if isinstance(own, torch.Tensor)]
        if not named or are_plain(x, *named):
            function = counterpart(function)
    return function(x, *arguments, **options)


def counterpart(function: Any) -> Any:
    """fastgrad's function for one of PyTorch's, or the same."""
    return COUNTERPARTS.get(function, function) if isinstance(function, _FUNCTIONS) else function


def add_norm(norm: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """``norm(a + b), a + b``."""
    found = norm_of(norm)
    if (
        found is not None
        and found.what != "group"
        and not _observed(norm)
        and are_plain(a, b)
        and a.shape == b.shape
        and fits(found, a)
    ):
        shape, weight = found.shape, found.weight
        if found.what == "layer":
            assert found.eps is not None
            return ours.add_layer_norm(a, b, shape, weight, found.bias, found.eps)
        eps = torch.finfo(a.dtype).eps if found.eps is None else found.eps
        return ours.add_rms_norm(a, b, shape, weight, eps)
    total = a + b
    return norm(total), total


def norm_add(activation: Any, norm: Any, h: Any, other: Any) -> Any:
    """``activation(norm(h) + other)``; the activation may be a norm itself."""
    found = norm_of(norm)
    if (
        found is not None
        and ends(activation, norm)
        and not _observed(norm, activation)
        and are_plain(h, other)
        and h.shape == other.shape
        and fits(found, h)
    ):
        assert found.eps is not None
        weight, bias = found.weight, found.bias
        return ours.group_norm_add_relu(h, other, found.groups, weight, bias, found.eps)
    y = norm(h)
    if norm_of(activation) is not None:
        return add_norm(activation, y, other)[0]
    return chain(y + other, activation)


def gated(*, act: Any, gate: Any, up: Any) -> Any:
    """``act(gate) * up``."""
    found = activation_of(act)
    if found in _GATED and not _observed(act) and are_plain(gate, up) and gate.shape == up.shape:
        function, options = _GATED[found]
        return function(gate, up, **options)
    return act(gate) * up


def packed(act: Any, x: Any, dim: int, gate: str) -> Any:
    """``act(first) * last``, or with `gate` "last" ``first * act(last)``, of the halves along `dim`."""
    found = activation_of(act)
    if found in _GATED and not _observed(act) and are_plain(x) and x.shape[dim] % 2 == 0:
        function, options = _GATED[found]
        return function(x, gate=gate, dim=dim, **options)
    first, last = x.chunk(2, dim=dim)
    return act(first) * last if gate == "first" else first * act(last)


def _pair(first: Any, second: Any, x: Any) -> torch.Tensor | None:
    activation = activation_of(second)
    if activation is None:
        return None
    linear = linear_of(first)
    if linear is not None:
        if activation not in _AFTER_LINEAR or _observed(first, second) or not are_plain(x):
            return None
        if linear.weight.dtype != x.dtype or linear.bias.dtype != x.dtype:
            return None
        function, options = _AFTER_LINEAR[activation]
        return function(F.linear(x, linear.weight), linear.bias, **options)
    if activation not in _AFTER_GROUP_NORM:
        return None
    norm = norm_of(first)
    if norm is None or norm.what != "group" or _observed(first, second) or not are_plain(x):
        return None
    if not fits(norm, x):
        return None
    assert norm.eps is not None
    function = _AFTER_GROUP_NORM[activation]
    return function(x, norm.groups, norm.weight, norm.bias, norm.eps)


def _observed(*modules: Any) -> bool:
    return torch_module._has_any_global_hook() or any(is_watched(module) for module in modules)


def are_plain(*tensors: Any) -> bool:
    """Dense floats of one dtype on the CPU, with no autocast that would change it."""
    if torch.is_autocast_enabled("cpu"):
        return False
    dtype = getattr(tensors[0], "dtype", None)
    if dtype not in DTYPES:
        return False
    for tensor in tensors:
        if type(tensor) not in _PLAIN or tensor.dtype is not dtype or not tensor.is_cpu:
            return False
        if tensor.layout is not torch.strided:
            return False
    return True


def fits(norm: Norm, x: torch.Tensor) -> bool:
    for parameter in (norm.weight, norm.bias):
        if parameter is not None and not are_plain(x, parameter):
            return False
    return x.ndim >= 2 if norm.what == "group" else tuple(x.shape[-len(norm.shape) :]) == norm.shape
