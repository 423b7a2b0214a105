"""Tensors as arrays and arrays as tensors, without a copy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

__all__ = ["DTYPES", "array_of", "like", "tensor_of"]

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_from_numpy = torch.from_numpy
#: The tensors that kernels exist for.
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The elements of a CPU tensor as an array that shares its memory."""
    if tensor.dtype is torch.bfloat16:  # NumPy has no such dtype of its own: the bits are the same
        bits = tensor.detach().resolve_neg().view(torch.int16)
        return _numpy(bits, tensor).view(_BFLOAT16)
    return _numpy(tensor, tensor)


def _numpy(values: torch.Tensor, tensor: torch.Tensor) -> np.ndarray:
    if type(tensor) is torch.nn.Parameter:
        # `numpy()` forbids a storage to change its size for good, and FSDP frees parameters that way.
        return np.from_dlpack(_Exported(torch._C._to_dlpack(values.detach())))
    return values.numpy(force=True)  # which is detach() and the rest, in half the time


class _Exported:
    """What `numpy.from_dlpack` takes: an exported tensor on the CPU."""

    __slots__ = ("_capsule",)

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def tensor_of(array: Any) -> torch.Tensor:
    """A tensor that shares the memory of an array, or holds a scalar."""
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    if array.dtype == _BFLOAT16:
        return _from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return _from_numpy(array)


def like(tensor: torch.Tensor) -> np.ndarray | None:
    """Memory for a result with the strides that PyTorch gives it; None where fastgrad's own has them.

    A tensor with gaps or overlaps, such as a slice, keeps its order of axes in PyTorch by rules of its own.
    """
    if tensor.is_contiguous() or tensor.is_contiguous(memory_format=torch.channels_last):
        return None
    return array_of(torch.empty_like(tensor))
