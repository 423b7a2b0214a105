"""The test of an operator of several arrays in one call: `check_pair(PairCase(...))`.

Forward and every gradient against a plain float64 reference in four precisions, for all ways in which the
arrays can be broadcast; the same bits across layouts, thread counts, block sizes, in place and not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from checking import BLOCK_SIZES, THREADS, layouts, same_bits, settings
from rounding import DTYPES, as_float64, error_in_ulp

SHAPE = (3, 5, 43)
#: Shapes that broadcast to SHAPE: every kind of summed axes, also such as do not follow each other.
BROADCAST = ((43,), (5, 1), (3, 1, 1), (1, 5, 43), (3, 1, 43), (1, 1, 1), ())


@dataclass
class PairCase:
    """An operator of two or more arrays, and what is right for it.

    Attributes
    ----------
    operator : Operator
    forward : callable
        float64 reference of the arrays.
    slopes : callable
        For each array, the slope and the size of the terms that it is a sum of.
    arguments : dict
        Further arguments of the call.
    ulp, slope_ulp : float
        Error in float32 and float64, in ULP of the largest term.
    scale : callable, optional
        The size of the value's terms; of the value itself by default.
    reference_ulp : float
        ULP of the float64 reference itself, for float64.
    """

    operator: Callable
    forward: Callable
    slopes: Callable
    arguments: dict = field(default_factory=dict)
    ulp: float = 6.0
    slope_ulp: float = 12.0
    scale: Callable | None = None
    reference_ulp: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        return self.operator.arrays

    def call(self, *arrays, **keywords):
        return self.operator(*arrays, **self.arguments, **keywords)

    def grad(self, dy, *arrays, **keywords):
        return self.operator.grad(dy, *arrays, wrt=self.names, **self.arguments, **keywords)


def check_pair(case: PairCase) -> None:
    """Everything that holds for every elementwise operator of several arrays."""
    for dtype in DTYPES:
        arrays = [_values(SHAPE, dtype, seed) for seed, _ in enumerate(case.names)]
        dy = _values(SHAPE, dtype, 9)
        _check_values(case, dy, arrays)
        _check_broadcast(case, dy, arrays)
        _check_layouts(case, dy, arrays)
        _check_out(case, dy, arrays)
        _check_threads_and_blocks(case, dtype)


def _values(shape, dtype, seed) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, shape).astype(dtype)


def _check_values(case: PairCase, dy, arrays) -> None:
    exact = [as_float64(array) for array in arrays]
    value = case.forward(*exact)
    scale = value if case.scale is None else case.scale(*exact)
    more = case.reference_ulp if arrays[0].dtype == np.float64 else 0.0
    _compare(case.call(*arrays), value, scale, arrays[0].dtype, case.ulp + more)
    found = case.grad(dy, *arrays)
    exact_dy = as_float64(dy)
    for got, (slope, size) in zip(found, case.slopes(*exact), strict=True):
        size = np.abs(size * exact_dy)
        _compare(got, slope * exact_dy, size, arrays[0].dtype, case.slope_ulp + more)
    if dy.dtype != np.float32:
        return  # which gradients are wanted is a matter of the program, not of the precision
    for k, name in enumerate(case.names):
        keywords = {"wrt": name, **case.arguments}
        assert same_bits(case.operator.grad(dy, *arrays, **keywords)[0], found[k]), name


def _compare(got, exact, scale, dtype, allowed) -> None:
    error = error_in_ulp(got, exact, dtype, np.abs(scale))
    assert error.max() <= (1.0 if dtype.itemsize == 2 else allowed), (dtype, error.max())


def _check_broadcast(case: PairCase, dy, arrays) -> None:
    """A broadcast operand is as one that is written out; its gradient is summed to its own shape."""
    places = range(len(arrays)) if dy.dtype == np.float32 else [len(arrays) - 1]
    for k, shape in itertools.product(places, BROADCAST):
        name = case.names[k]
        own = list(arrays)
        own[k] = _values(shape, arrays[k].dtype, 5)
        written_out = [np.ascontiguousarray(np.broadcast_to(array, SHAPE)) for array in own]
        assert same_bits(case.call(*own), case.call(*written_out)), (name, shape)
        found, full = case.grad(dy, *own), case.grad(dy, *written_out)
        for j, (got, right) in enumerate(zip(found, full, strict=True)):
            if j != k:
                assert same_bits(got, right), (name, shape)
        assert found[k].shape == shape and found[k].dtype == own[k].dtype
        _check_sum(case, dy, written_out, k, shape, found[k])
        # A float32 operand beside others of 16 bits keeps its dtype.
        if arrays[k].dtype.itemsize == 2 and shape == BROADCAST[0]:
            wide = list(own)
            wide[k] = own[k].astype(np.float32)
            assert same_bits(case.call(*wide), case.call(*own))
            assert case.grad(dy, *wide)[k].dtype == np.float32


def _check_sum(case: PairCase, dy, arrays, k, shape, got) -> None:
    slope, size = case.slopes(*map(as_float64, arrays))[k]
    aligned = (1,) * (3 - len(shape)) + shape
    axes = tuple(axis for axis in range(3) if aligned[axis] != SHAPE[axis])
    terms = as_float64(dy) * slope
    exact = terms.sum(axes, keepdims=True).reshape(shape)
    sizes = np.abs(as_float64(dy) * size).sum(axes, keepdims=True).reshape(shape)
    unit = {2: 2.0**-8, 4: 2.0**-20, 8: 2.0**-48}[got.dtype.itemsize]
    np.testing.assert_array_less(np.abs(as_float64(got) - exact), unit * sizes + 1e-300)


def _check_layouts(case: PairCase, dy, arrays) -> None:
    y, gradients = case.call(*arrays), case.grad(dy, *arrays)
    for name in layouts(arrays[0]):
        own = [layouts(array)[name] for array in arrays]
        mixed = [*own[:1], *arrays[1:]]
        for operands in (own, mixed):
            before = [operand.tobytes() for operand in operands]
            assert same_bits(case.call(*operands), y), name
            for got, right in zip(case.grad(layouts(dy)[name], *operands), gradients, strict=True):
                assert same_bits(got, right), name
            assert [operand.tobytes() for operand in operands] == before


def _check_out(case: PairCase, dy, arrays) -> None:
    y, gradients = case.call(*arrays), case.grad(dy, *arrays)
    for order in "CF":
        outs = tuple(np.empty_like(dy, order=order) for _ in arrays)
        assert all(
            got is out for got, out in zip(case.grad(dy, *arrays, out=outs), outs, strict=True)
        )
        for out, right in zip(outs, gradients, strict=True):
            assert same_bits(out, right)
    own = [array.copy() for array in arrays]
    for got, right in zip(case.grad(dy, *own, out=tuple(own)), gradients, strict=True):
        assert same_bits(got, right)  # each gradient in the place of its operand
    own = [array.copy() for array in arrays]
    assert same_bits(case.call(*own, out=own[-1]), y)


def _check_threads_and_blocks(case: PairCase, dtype) -> None:
    """Also for sums: rows of a length that no tile fits, and a wide row."""
    for shape, own in (((701, 150), (150,)), ((11, 9000), (9000,)), ((701, 150), (701, 1))):
        dy = _values(shape, dtype, 1)
        arrays = [_values(shape, dtype, 2), *(_values(own, dtype, 3) for _ in case.names[1:])]
        expected = [case.call(*arrays), *case.grad(dy, *arrays)]
        for threads in THREADS:
            for block_size in BLOCK_SIZES:
                with settings(threads, block_size):
                    got = [case.call(*arrays), *case.grad(dy, *arrays)]
                for a, b in zip(got, expected, strict=True):
                    assert same_bits(a, b), (shape, threads, block_size)
