"""The test of a function of tensors in one call: `check(Pair(...))`.

It compares value and gradients with PyTorch's own in four dtypes and every layout, strides included, and
differentiates twice in float64 where that is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch

TOLERANCE = {
    torch.float16: 2e-3,
    torch.bfloat16: 2e-2,
    torch.float32: 1e-5,
    torch.float64: 1e-12,
}


@dataclass
class Pair:
    """A function of fastgrad.torch and what it has to agree with.

    Attributes
    ----------
    name : str
    own, stock : callable
        Of the same tensors.
    shapes : tuple of shapes
        Of its tensors; all take part in the gradient.
    has_second : bool
        Whether a second derivative is promised, or an error.
    positive : tuple of int
        Which tensors hold probabilities.
    """

    name: str
    own: Callable
    stock: Callable
    shapes: tuple = ((5, 8),)
    has_second: bool = True
    positive: tuple = ()

    def __str__(self) -> str:
        return self.name


def inputs(pair: Pair, dtype: torch.dtype = torch.float32, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    made = []
    for place, shape in enumerate(pair.shapes):
        values = torch.randn(shape, generator=generator, dtype=torch.float64) * 2
        made.append((values.sigmoid() if place in pair.positive else values).to(dtype))
    return made


def leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_()


def layouts(x: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The same values in other strides."""
    yield "contiguous", x
    yield "transposed", x.transpose(0, -1).contiguous().transpose(0, -1)
    gaps = x.new_zeros(*x.shape[:-1], 2 * x.shape[-1])
    gaps[..., ::2] = x
    yield "strided", gaps[..., ::2]
    if x.dim() == 4:
        yield "channels_last", x.contiguous(memory_format=torch.channels_last)


def results(function: Callable, tensors: list[torch.Tensor]) -> tuple[list, list]:
    """Results and gradients."""
    leaves = [leaf(tensor) for tensor in tensors]
    found = function(*leaves)
    ys = list(found) if isinstance(found, tuple) else [found]
    dys = [torch.linspace(-1, 1, max(y.numel(), 1), dtype=torch.float64)[: y.numel()] for y in ys]
    shaped = [dy.reshape(y.shape).to(y.dtype) for dy, y in zip(dys, ys)]
    gradients = torch.autograd.grad(ys, leaves, shaped)
    return [y.detach() for y in ys], list(gradients)


def check(pair: Pair) -> None:
    check_values(pair)
    check_layouts(pair)
    check_gradients(pair)


def check_values(pair: Pair) -> None:
    for dtype, tolerance in TOLERANCE.items():
        tensors = inputs(pair, dtype)
        own, expected = (
            results(pair.own, tensors),
            results(pair.stock, [t.double() for t in tensors]),
        )
        for got, exact in zip([*own[0], *own[1]], [*expected[0], *expected[1]], strict=True):
            assert got.dtype is dtype
            size = max(1.0, float(exact.abs().max())) if exact.numel() else 1.0
            torch.testing.assert_close(got.double(), exact, atol=tolerance * size, rtol=tolerance)


def check_layouts(pair: Pair) -> None:
    """The same bits in every layout, and its strides; nothing shares memory with an input."""
    x, *others = inputs(pair)
    ys, gradients = results(pair.own, [x, *others])
    for layout, turned in layouts(x):
        own_ys, own_gradients = results(pair.own, [turned, *others])
        for got, same in zip(own_ys, ys, strict=True):
            if layout != "channels_last":  # whose sums have an order of their own
                assert torch.equal(got, same), layout
            if got.shape == turned.shape and layout != "strided":
                assert got.stride() == turned.stride(), layout
            assert got.untyped_storage().data_ptr() != turned.untyped_storage().data_ptr()
        for got, same in zip(own_gradients, gradients, strict=True):
            torch.testing.assert_close(got, same, msg=layout)


def check_gradients(pair: Pair) -> None:
    """Central differences in float64, of the gradient too, or a clear error."""
    tensors = [leaf(tensor) for tensor in inputs(pair, torch.float64)]
    assert torch.autograd.gradcheck(pair.own, tensors)
    if pair.has_second:
        assert torch.autograd.gradgradcheck(pair.own, tensors)
        return
    found = pair.own(*tensors)
    y = found[0] if isinstance(found, tuple) else found
    (dx,) = torch.autograd.grad(y.square().sum(), tensors[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        dx.sum().backward()
