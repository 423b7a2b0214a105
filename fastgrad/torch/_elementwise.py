"""Elementwise operators and losses as adapters."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from ..functional._derived import slope_of
from ..functional._loss_operator import LossOperator
from ..functional._operator import Operator
from ._adapter import Adapter, Tensors
from ._tensors import array_of, like, tensor_of

__all__ = ["Elementwise", "Loss"]


class Elementwise(Adapter):
    """An elementwise operator of tensors that are broadcast together.

    Options are the parameters, as numbers, then the choices. A gradient may be differentiated again, as
    often as you like: ∂op/∂x · dy is an operator itself.
    """

    def __init__(self, operator: Operator, name: str = "", options: Sequence[str] = ()):
        self.operator = operator
        self._count = len(operator.parameters)
        numbers = [f"float {own}" for own in operator.parameters]
        words = [f"str {own}" for own in operator.static]
        super().__init__(name or operator.__name__, operator.arrays, [*numbers, *words, *options])

    def forward(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """The value."""
        count = self._count
        if len(tensors) == 1:
            (x,) = tensors
            own = self.operator.value(
                (array_of(x),), options[:count], options[count:], None, like(x)
            )
            return (tensor_of(own),)
        arrays = tuple([array_of(tensor) for tensor in _aligned(tensors)])
        out = _out(tensors)
        return (
            tensor_of(self.operator.value(arrays, options[:count], options[count:], None, out)),
        )

    def write(self, x: torch.Tensor, options: tuple) -> None:
        """Write the value over the only tensor."""
        count, own = self._count, array_of(x)
        self.operator.value((own,), options[:count], options[count:], None, own)

    def backward(
        self, dys: Tensors, tensors: Tensors, kept: Tensors, options: tuple, needs: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """The gradients, in one pass."""
        (dy,) = dys
        count = self._count
        if len(tensors) == 1:
            (x,) = tensors
            dx = self.operator.input_grad(
                array_of(dy), (array_of(x),), options[:count], options[count:], None, like(x)
            )
            return [tensor_of(dx)]
        arrays = tuple([array_of(tensor) for tensor in _aligned(tensors)])
        wrt = tuple([name for name, need in zip(self.tensors, needs, strict=True) if need])
        outs = tuple(
            [
                like(t) if t.shape == dy.shape else None
                for t, need in zip(tensors, needs, strict=True)
                if need and t is not None
            ]
        )
        found = iter(
            self.operator.gradients(
                array_of(dy), arrays, options[:count], options[count:], wrt, None, outs
            )
        )
        return [tensor_of(next(found)) if need else None for need in needs]

    def fake(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """Of the broadcast shape, in the order of the first tensor that has it."""
        return (_empty(tensors),)

    def differentiable_backward(
        self, dys: Tensors, tensors: Tensors, kept: Tensors, options: tuple, needs: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """Each gradient as an operator of `dy` and the operands, summed to its shape."""
        (dy,) = dys
        return [
            _second(self.slope(name)((dy, *tensors), options[: len(self.options)]), tensor)
            if need
            else None
            for name, tensor, need in zip(self.tensors, tensors, needs, strict=True)
        ]

    def slope(self, wrt: str) -> Elementwise:
        """The adapter of ∂op/∂wrt · dy."""
        return _slope(self, wrt)


@functools.cache
def _slope(adapter: Elementwise, wrt: str) -> Elementwise:
    return Elementwise(slope_of(adapter.operator, wrt), f"{adapter.name}_slope_{wrt}")


def _second(gradient: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    own = gradient if gradient.shape == tensor.shape else gradient.sum_to_size(tensor.shape)
    return own.to(tensor.dtype)


def _aligned(tensors: Tensors) -> Tensors:
    """The tensors, those of the result's shape in one dtype: the one that PyTorch promotes them to."""
    first, *others = tensors
    if all(other.dtype is first.dtype for other in others):
        return tensors
    shape = _shape(tensors)
    full = [tensor for tensor in tensors if tensor.shape == shape] or tensors
    dtype = functools.reduce(torch.promote_types, [tensor.dtype for tensor in full])
    return [tensor.to(dtype) if tensor.shape == full[0].shape else tensor for tensor in tensors]


def _shape(tensors: Tensors) -> torch.Size:
    return torch.broadcast_shapes(*(tensor.shape for tensor in tensors))


def _out(tensors: Tensors) -> Any:
    """Where the result has to lie, as `like`."""
    first = tensors[0]
    for tensor in tensors[1:]:
        if tensor.shape != first.shape or tensor.dtype is not first.dtype:
            return array_of(_empty(tensors))
    return like(first)


def _empty(tensors: Tensors) -> torch.Tensor:
    """Memory for the result: in the order of the first tensor that has its shape."""
    if len(tensors) == 1:
        return torch.empty_like(tensors[0])
    shape, aligned = _shape(tensors), _aligned(tensors)
    for tensor in aligned:
        if tensor.shape == shape:
            return torch.empty_like(tensor)
    return aligned[0].new_empty(shape)


class Loss(Elementwise):
    """An elementwise loss; its last option is the reduction."""

    operator: LossOperator

    def __init__(self, operator: LossOperator, name: str):
        super().__init__(operator, name, ["str reduction"])

    def forward(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """The loss."""
        *own, reduction = options
        if reduction == "none":
            return super().forward(tensors, tuple(own))
        arrays = [array_of(tensor) for tensor in _aligned(tensors)]
        value = self.operator(*arrays, **self._named(own), reduction=reduction)
        return (tensor_of(value),)

    def backward(
        self, dys: Tensors, tensors: Tensors, kept: Tensors, options: tuple, needs: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """The gradients, in one pass."""
        *own, reduction = options
        if reduction == "none":
            return super().backward(dys, tensors, kept, tuple(own), needs)
        (dy,) = dys
        arrays = [array_of(tensor) for tensor in _aligned(tensors)]
        wrt = [name for name, need in zip(self.tensors, needs, strict=True) if need]
        found = iter(
            self.operator.grad(dy.item(), *arrays, **self._named(own), reduction=reduction, wrt=wrt)
        )
        return [
            tensor_of(next(found)).to(tensor.dtype) if need else None
            for tensor, need in zip(tensors, needs, strict=True)
        ]

    def _named(self, own: Sequence[Any]) -> dict[str, Any]:
        return dict(zip((*self.operator.parameters, *self.operator.static), own, strict=True))

    def fake(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """One number, or as an elementwise operator."""
        whole = _empty(tensors)
        return (whole if options[-1] == "none" else whole.new_empty(()),)

    def differentiable_backward(
        self, dys: Tensors, tensors: Tensors, kept: Tensors, options: tuple, needs: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """As that of the elements, whose incoming gradients are that of the sum, or of the mean."""
        (dy,), reduction = dys, options[-1]
        if reduction != "none":
            shape = torch.broadcast_shapes(*(t.shape for t in tensors))
            count = {"mean": math.prod(shape), "batchmean": shape[0] if shape else 1}
            dy = (dy / count.get(reduction, 1)).expand(shape)
        return super().differentiable_backward((dy,), tensors, kept, options[:-1], needs)

    def slope(self, wrt: str) -> Elementwise:
        """The adapter of the slope of one element's loss."""
        return _slope(self, wrt)
