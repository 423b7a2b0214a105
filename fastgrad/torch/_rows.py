"""Operators over rows, the norms, as adapters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from ..functional._normalization import batch_norm, batch_norm_grad
from ..functional._row_operator import RowOperator
from ._adapter import Adapter, Tensors
from ._tensors import array_of, like, tensor_of

__all__ = ["AddNorm", "BatchNormInference", "Rows"]


class Rows(Adapter):
    """An operator over rows.

    Parameters
    ----------
    operator : RowOperator
    options : sequence of str
        Its further arguments as a schema has them, in the order in which `bound` takes them.
    bound : callable
        From the options of a call to keyword arguments of `operator`.
    by_format : bool
        Whether the operator has a data format: then channels that are last in memory are walked so.
    statistics : callable, optional
        From the shape of `x` and the options to the shape of the statistics.
    results : int
        How many results the operator has.
    name : str
        That of the operator by default.
    shows_kept : bool
        Whether a call returns the statistics.
    """

    def __init__(
        self,
        operator: RowOperator,
        options: Sequence[str],
        bound: Callable[..., dict[str, Any]],
        statistics: Callable[..., tuple] | None = None,
        by_format: bool = False,
        results: int = 1,
        name: str = "",
        shows_kept: bool = False,
    ):
        self.shows_kept = shows_kept
        self.operator, self._bound, self._statistics = operator, bound, statistics
        self._by_format = by_format
        kernels = operator.kernels
        tensors = [*kernels.arrays, *(f"{own}?" for own in kernels.channels)]
        super().__init__(name or operator.__name__, tensors, options, results)
        self._operands = (*kernels.arrays, *kernels.channels)

    def _names_kept(self) -> tuple[str, ...]:
        return tuple(self.operator.kernels.saved)

    def _call(
        self, tensors: Tensors, options: tuple
    ) -> tuple[dict[str, Any], dict[str, Any], bool]:
        """The arguments of the operator by name, and whether axes are turned for it."""
        named = {
            name: None if tensor is None else array_of(tensor)
            for name, tensor in zip(self._operands, tensors, strict=True)
        }
        keywords = self._bound(*options)
        x = tensors[0]
        turned = self._by_format and _are_channels_last(x)
        if turned:
            keywords["data_format"] = "NHWC"
            for name in self.operator.kernels.arrays:
                named[name] = _channels_last(named[name])
        return named, keywords, turned

    def forward(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """The results, then mean and rstd, or what else backward takes."""
        named, keywords, turned = self._call(tensors, options)
        outs = tuple([None if turned else like(tensors[0]) for _ in range(self.results)])
        statistics = {"return_stats": True} if self.kept else {}
        found = self.operator(**named, **keywords, **statistics, out=outs)
        found = found if isinstance(found, tuple) else (found,)
        if turned:
            ys = [_channels_second(y) for y in found[: self.results]]
            found = (*ys, *found[self.results :])
        return tuple([tensor_of(own) for own in found])

    def backward(
        self, dys: Tensors, tensors: Tensors, kept: Tensors, options: tuple, needs: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """The gradients: reductions first, `dx` second."""
        named, keywords, turned = self._call(tensors, options)
        incoming = [array_of(dy) for dy in dys]
        if turned:
            incoming = [_channels_last(dy) for dy in incoming]
        statistics = {name: array_of(own) for name, own in zip(self.kept, kept, strict=True)}
        wrt = [name for name, need in zip(self._operands, needs, strict=True) if need]
        arrays = self.operator.kernels.arrays
        outs = tuple(
            None if turned else like(tensor)
            for name, tensor in zip(self._operands, tensors, strict=True)
            if name in wrt and name in arrays and tensor is not None
        )
        dy = tuple(incoming) if self.results > 1 else incoming[0]
        found = self.operator.grad(dy, **named, **keywords, **statistics, wrt=wrt, out=outs)
        by_name = dict(zip(wrt, found, strict=True))
        return [
            _turned_back(by_name[name], turned and name in arrays) if name in by_name else None
            for name in self._operands
        ]

    def fake(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """Results such as `x`; statistics in float32 for 16-bit, else in float64."""
        x = tensors[0]
        results = [torch.empty_like(x) for _ in range(self.results)]
        if self._statistics is None:
            return tuple(results)
        shape = self._statistics(tuple(x.shape), *options)
        dtype = torch.float32 if x.dtype.itemsize == 2 else torch.float64
        return (*results, *(x.new_empty(shape, dtype=dtype) for _ in self.kept))


def _are_channels_last(x: torch.Tensor) -> bool:
    own = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    if own is None or x.is_contiguous():
        return False
    return x.is_contiguous(memory_format=own)


def _channels_last(array: Any) -> np.ndarray:
    return np.moveaxis(array, 1, -1)


def _channels_second(array: np.ndarray) -> np.ndarray:
    return np.moveaxis(array, -1, 1)


def _turned_back(gradient: np.ndarray, is_turned: bool) -> torch.Tensor:
    return tensor_of(_channels_second(gradient) if is_turned else gradient)


class AddNorm(Rows):
    """A norm of `x` + `residual`, which returns the sum, too, and keeps no more than that."""

    same = MappingProxyType({1: 0})

    def __init__(
        self,
        operator: RowOperator,
        gradient: Callable,
        options: Sequence[str],
        bound: Callable[..., dict[str, Any]],
        statistics: Callable[..., tuple],
    ):
        self._gradient = gradient
        super().__init__(operator, options, bound, statistics, results=2)

    def saved(self, tensors: Tensors, found: Tensors) -> Tensors:
        """The sum, for both of its terms."""
        return (found[1], None, *tensors[2:])

    def backward(
        self, dys: Tensors, tensors: Tensors, kept: Tensors, options: tuple, needs: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """The gradient of the sum, which is that of both terms, and those of the parameters."""
        dy, dsum, total = (array_of(own) for own in (*dys, tensors[0]))
        statistics = {name: array_of(own) for name, own in zip(self.kept, kept, strict=True)}
        gamma, beta = tensors[2], tensors[3] if len(tensors) > 3 else None
        if gamma is None and beta is not None:  # dbeta is there where there is a gamma
            gamma = torch.ones_like(beta)
        found = self._gradient(
            dy,
            dsum,
            total,
            None if gamma is None else array_of(gamma),
            **statistics,
            **self._bound(*options),
        )
        gradients = [found[0], *found]
        return [
            tensor_of(own) if need and own is not None else None
            for own, need in zip(gradients[: len(needs)], needs, strict=True)
        ]


class BatchNormInference(Adapter):
    """Batch norm with statistics that do not depend on `x`."""

    def __init__(self) -> None:
        super().__init__(
            "batch_norm_inference",
            ("x", "running_mean", "running_var", "gamma?", "beta?"),
            ("float eps",),
        )

    def forward(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """The value."""
        x, mean, var, gamma, beta, data_format = self._arrays(tensors)
        y = batch_norm(
            x, gamma, beta, mean, var, training=False, eps=options[0], data_format=data_format
        )
        return (_turned_back(y, data_format == "NHWC"),)

    def backward(
        self, dys: Tensors, tensors: Tensors, kept: Tensors, options: tuple, needs: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """The gradients of `x`, `gamma` and `beta`."""
        if needs[1] or needs[2]:
            raise RuntimeError("batch_norm has no gradient of its running statistics")
        x, mean, var, gamma, beta, data_format = self._arrays(tensors)
        dy = array_of(dys[0])
        if data_format == "NHWC":
            dy = _channels_last(dy)
        rstd = 1 / np.sqrt(var.astype(np.float64) + options[0])
        # dbeta is there where there is a gamma.
        ones = np.ones(len(mean), np.float32) if gamma is None and beta is not None else gamma
        dx, dgamma, dbeta = batch_norm_grad(
            dy,
            x,
            ones,
            mean.astype(np.float64),
            rstd,
            training=False,
            eps=options[0],
            data_format=data_format,
        )
        found = [_turned_back(dx, data_format == "NHWC"), None, None, None, None]
        for place, own in ((3, dgamma), (4, dbeta)):
            tensor = tensors[place]
            if needs[place] and tensor is not None:
                found[place] = tensor_of(own).to(tensor.dtype)
        return [own if need else None for own, need in zip(found, needs, strict=True)]

    def fake(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """As `x`."""
        return (torch.empty_like(tensors[0]),)

    def _arrays(self, tensors: Tensors) -> tuple:
        x = tensors[0]
        arrays = [None if tensor is None else array_of(tensor) for tensor in tensors]
        if _are_channels_last(x):
            arrays[0] = _channels_last(arrays[0])
            return (*arrays, "NHWC")
        return (*arrays, "NCHW")
