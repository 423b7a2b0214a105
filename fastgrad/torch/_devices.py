"""Tensors that are not on the CPU: an error, or PyTorch's own operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["check_devices", "get_other_devices", "is_elsewhere", "set_other_devices"]

_WAYS = ("error", "pytorch")
_way = "error"


def set_other_devices(way: str) -> None:
    """Say what happens to tensors that are on another device than the CPU.

    Parameters
    ----------
    way : {"error", "pytorch"}
        A `TypeError`, or PyTorch's own operator on that device.

    Raises
    ------
    ValueError
        For anything else.
    """
    global _way
    if way not in _WAYS:
        raise ValueError(f"way must be one of {', '.join(map(repr, _WAYS))}, got {way!r}")
    _way = way


def get_other_devices() -> str:
    """What happens to tensors on another device: see `set_other_devices`."""
    return _way


def is_elsewhere(tensors: Sequence[Any]) -> bool:
    """Whether PyTorch's own operator is to take these tensors."""
    return _way == "pytorch" and any(
        isinstance(t, torch.Tensor) and _is_foreign(t) for t in tensors
    )


def check_devices(name: str, names: Sequence[str], tensors: Sequence[torch.Tensor | None]) -> None:
    """Check that all are dense tensors on the CPU, or without data.

    Raises
    ------
    TypeError
        If one is none, is sparse, or is on another device.
    """
    for own_name, tensor in zip(names, tensors, strict=True):
        own = own_name.removesuffix("?")
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"{own} of fastgrad.torch.{name} must be a torch.Tensor, got "
                f"{type(tensor).__name__}: for NumPy arrays there is fastgrad.{name}"
            )
        if _is_foreign(tensor):
            raise TypeError(
                f"{own} of fastgrad.torch.{name} is on {tensor.device}, fastgrad computes on the CPU: pass "
                f"{own}.cpu(), or let PyTorch take such tensors by "
                f"fastgrad.torch.set_other_devices('pytorch')"
            )
        if tensor.layout is not torch.strided:
            raise TypeError(
                f"{own} of fastgrad.torch.{name} must be dense, got {tensor.layout}: "
                f"pass {own}.to_dense()"
            )


def _is_foreign(tensor: torch.Tensor) -> bool:
    return tensor.device.type not in ("cpu", "meta")
