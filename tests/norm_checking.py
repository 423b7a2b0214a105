"""The test of a norm in one call: `check_norm(Norm(...))`.

It compares value and gradients with a plain float64 reference in four precisions, the gradients with
central differences, and bits across layouts, thread counts, block sizes, in place and not, alone and
in a batch.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

import norm_references as ref
from checking import BLOCK_SIZES, THREADS, layouts, same_bits, settings
from rounding import BFLOAT16, DTYPES, as_float64, dtype_name, error_in_ulp

#: Error allowed, in ULP of the result's dtype at its largest term.
#: Float32: 5.0 were measured over 40,000 rows of 4 and 300 lanes, where PyTorch has up to 20.8.
ULP = {np.dtype(np.float16): 1, BFLOAT16: 1, np.dtype(np.float32): 6, np.dtype(np.float64): 64}
#: A parameter's dtype beside each dtype of x.
OTHER_DTYPE = {
    np.float16: np.float32,
    ml_dtypes.bfloat16: np.float32,
    np.float32: np.float64,
    np.float64: np.float16,
}


# --- Which rows -----------------------------------------------------------------------------------


def by_rows(shape, axes=1):
    """Of each element its row and its channel, where the rows are the last axes."""
    length = int(np.prod(shape[len(shape) - axes :]))
    number = np.arange(int(np.prod(shape))).reshape(shape)
    return number // length, number % length


def by_groups(shape, num_groups=None, data_format="NCHW"):
    """Of each element its row and its channel, where the rows are groups of channels."""
    item, channel = _item_and_channel(shape, data_format)
    count = shape[-1 if data_format == "NHWC" else 1]
    groups = count if num_groups is None else num_groups
    return item * groups + channel // (count // groups), channel


def by_channels(shape, data_format="NCHW"):
    """Of each element its row and its channel, where the rows are the channels."""
    channel = _item_and_channel(shape, data_format)[1]
    return channel, channel


def _item_and_channel(shape, data_format):
    axis = len(shape) - 1 if data_format == "NHWC" else 1
    grid = np.indices(shape, sparse=True)
    return np.broadcast_to(grid[0], shape), np.broadcast_to(grid[axis], shape)


def _sorted(number: np.ndarray) -> np.ndarray:
    """Positions in a flat array, those of one row after those of another."""
    count = int(number.max(initial=-1)) + 1
    return np.argsort(number, axis=None, kind="stable").reshape(count, -1)


# --- The operator and its operands ----------------------------------------------------------------


@dataclass(frozen=True)
class Norm:
    """A norm, and what is right for it.

    Attributes
    ----------
    operator, grad : callable
    places : callable
        ``places(shape)``: the row and the channel of each element.
    shapes : list of tuple
        Whose values are checked in all precisions.
    shape : tuple
        3-D, on which everything else is checked.
    small : tuple
        3-D, on which the gradients are compared with differences of the value.
    arguments : dict
        Further arguments of both calls.
    eps : float
        The default of the operator.
    is_rms : bool
        Without a mean and a beta.
    swish_beta : float, optional
        Where a swish follows.
    has_residual : bool
        Whether it adds one first, and returns the sum.
    recomputed : sequence of type
        Precisions in which backward is also checked without statistics (it is one more kernel).
    over_batch : bool
        Whether rows have elements of all items.
    """

    operator: Callable
    grad: Callable
    places: Callable
    shapes: list[tuple]
    shape: tuple = (3, 6, 43)
    arguments: dict = field(default_factory=dict)
    eps: float = 1e-5
    is_rms: bool = False
    swish_beta: float | None = None
    has_residual: bool = False
    recomputed: tuple = DTYPES
    over_batch: bool = False
    small: tuple = (2, 6, 3)

    def forward(self, data: Data, *, return_stats: bool = True, **keywords):
        """(y,) or (y, sum), then mean and rstd, or rstd."""
        arrays = (data.x, data.residual) if self.has_residual else (data.x,)
        results = self.operator(
            *arrays,
            **self._parameters(data),
            **self.arguments,
            return_stats=return_stats,
            **keywords,
        )
        return results if isinstance(results, tuple) else (results,)

    def backward(self, data: Data, stats=(), **keywords) -> tuple:
        """(dx, dgamma, dbeta), or (dx, dgamma)."""
        given = _both(data) if self.swish_beta is not None else {"gamma": data.gamma}
        incoming = (data.dy, data.dsum) if self.has_residual else (data.dy,)
        stats = dict(zip(("rstd",) if self.is_rms else ("mean", "rstd"), stats))
        kept = data.kept(self)
        return self.grad(*incoming, kept, **given, **stats, **self.arguments, **keywords)

    def _parameters(self, data: Data) -> dict:
        return {"gamma": data.gamma} if self.is_rms else _both(data)


@dataclass(frozen=True)
class Data:
    """The operands of a call, and the gradients of its results."""

    x: np.ndarray
    dy: np.ndarray
    gamma: np.ndarray
    beta: np.ndarray
    residual: np.ndarray
    dsum: np.ndarray
    sum: np.ndarray | None = None

    def kept(self, case: Norm) -> np.ndarray:
        """What backward takes: x, or the rounded sum."""
        if self.sum is not None:
            return self.sum
        return self.x + self.residual if case.has_residual else self.x

    def items(self, chosen) -> Data:
        """Some items of the batch."""
        names = ("x", "dy", "residual", "dsum")
        return dataclasses.replace(
            self, **{own: getattr(self, own)[chosen].copy() for own in names}
        )

    def replaced(self, **arrays) -> Data:
        return dataclasses.replace(self, **arrays)


def _both(data: Data) -> dict:
    return {"gamma": data.gamma, "beta": data.beta}


def ordinary(case: Norm, shape, dtype, parameter_dtype=None, seed: int = 3) -> Data:
    """Values around 1 of a spread of 2, parameters of both signs."""
    rng = np.random.default_rng(seed)
    wide = rng.normal(1, 2, shape), rng.normal(0, 1, shape), rng.normal(0, 1, shape)
    x, residual, dy = (array.astype(dtype) for array in wide)
    dsum = rng.normal(0, 1, shape).astype(dtype)
    axes = case.arguments.get("axes", 0)
    own = shape[-axes:] if axes else (int(case.places(shape)[1].max(initial=-1)) + 1,)
    own_dtype = dtype if parameter_dtype is None else parameter_dtype
    gamma = (rng.uniform(0.5, 2, own) * rng.choice([-1, 1], own)).astype(own_dtype)
    return Data(x, dy, gamma, rng.normal(0, 1, own).astype(own_dtype), residual, dsum)


# --- What is right --------------------------------------------------------------------------------


def expected(case: Norm, data: Data, by_summands: bool) -> dict:
    """Values with their sizes by name: y, dx, dgamma, dbeta; and the statistics."""
    kept = data.kept(case)
    row, channel = case.places(kept.shape)
    order = _sorted(row)
    by_channel = _sorted(channel)
    kinds = {"is_rms": case.is_rms, "by_summands": by_summands}

    def rows_of(array):
        return as_float64(array).reshape(-1)[order]

    def back(rows):
        flat = np.empty(kept.size)
        flat[order] = rows
        return flat

    def over_channels(values, sizes):
        pair = back(values)[by_channel], back(sizes)[by_channel]
        found = ref.channel_sum(*pair, by_summands=by_summands)
        return tuple(own.reshape(data.gamma.shape) for own in found)

    numbers = channel.reshape(-1)[order]
    gamma = as_float64(data.gamma).reshape(-1)[numbers]
    beta = 0.0 if case.is_rms else as_float64(data.beta).reshape(-1)[numbers]
    # A mean is known in float64, and is off by what it adds up only there.
    own_kinds = {**kinds, "by_summands": kept.dtype == np.float64}
    rows = ref.normalised(rows_of(kept), case.eps, **own_kinds)
    y, y_size = ref.affine(rows, gamma, beta)
    dy = rows_of(data.dy)
    size = np.abs(dy)
    if case.swish_beta is not None:
        dy, size = ref.swish_grad(dy, y, case.swish_beta)
        if by_summands:  # what u is a sum of moves the slope
            size = size + np.abs(rows_of(data.dy)) * y_size
        y, y_size = ref.swish(y, y_size, case.swish_beta, by_summands=by_summands)
    dx, dx_size = ref.norm_grad(dy * gamma, size * np.abs(gamma), rows, **kinds)
    if case.has_residual:
        dsum = rows_of(data.dsum)
        dx = dx + dsum
        dx_size = dx_size + np.abs(dsum) if by_summands else np.maximum(dx_size, np.abs(dsum))
    full = {"y": (y, y_size), "dx": (dx, dx_size)}
    found = {
        name: tuple(back(own).reshape(kept.shape) for own in pair) for name, pair in full.items()
    }
    found["dgamma"] = over_channels(dy * rows.z, size * rows.size)
    if not case.is_rms:
        found["dbeta"] = over_channels(dy, size)
    found["mean"], found["rstd"] = rows.mean[:, 0], rows.rstd[:, 0]
    return found


def compare(what: str, got, exact, size, dtype=None) -> None:
    """Within so many ULP of the dtype of `got`, or another, at the larger of the value and its size."""
    dtype = got.dtype if dtype is None else dtype
    assert got.shape == exact.shape, (what, got.shape, exact.shape)
    error = error_in_ulp(got, exact, dtype, size)
    wrong = ~(error <= ULP[dtype])
    if wrong.any():
        worst = np.unravel_index(np.argmax(error), error.shape)
        raise AssertionError(
            f"{what} {dtype_name(got.dtype)}: {wrong.sum()} of {error.size} off, worst "
            f"{error[worst]:.3g} ULP at {worst}: got {got[worst]!r}, exact {exact[worst]!r}, "
            f"largest term {size[worst]:.6g}"
        )


def check_values(case: Norm, data: Data, what: str = "", recomputed: bool = True) -> None:
    """Value, statistics, and gradients with statistics given and not."""
    x = data.x
    compute = np.dtype(np.float32 if x.dtype.itemsize == 2 else x.dtype)
    by_summands = functools.cache(lambda: expected(case, data, True))
    right = by_summands() if x.dtype == compute else expected(case, data, False)
    count = 2 if case.has_residual else 1
    results = case.forward(data)
    stats = results[count:]
    label = f"{case.operator.__name__} {case.arguments} {x.shape} {what}"
    assert results[0].dtype == x.dtype
    compare(f"{label} y", results[0], *right["y"])
    if case.has_residual:
        assert same_bits(results[1], data.kept(case))
    names = ("rstd",) if case.is_rms else ("mean", "rstd")
    for name, own in zip(names, stats, strict=True):
        assert own.dtype == (np.float32 if x.dtype.itemsize == 2 else np.float64), name
        tolerance = 1e-6 if own.dtype == np.float32 else 1e-13
        atol = tolerance * np.abs(as_float64(data.kept(case))).max() if name == "mean" else 0
        np.testing.assert_allclose(own.reshape(-1), right[name], rtol=tolerance, atol=atol)
    for given in (stats, ()) if recomputed else (stats,):
        gradients = case.backward(data, given)
        found = dict(zip(("dx", "dgamma", "dbeta"), gradients))
        assert set(found) == {"dx", "dgamma"} | ({"dbeta"} if not case.is_rms else set())
        assert found["dx"].dtype == x.dtype
        for name, own in found.items():
            assert name == "dx" or own.dtype == data.gamma.dtype, name
            # No result is more exact than what it is computed in.
            unit = min(own.dtype, compute, key=lambda dtype: dtype.itemsize)
            exact, size = (by_summands() if unit == compute else right)[name]
            compare(f"{label} {name} stats={bool(given)}", own, exact, size, unit)


# --- All that holds for every norm ----------------------------------------------------------------


def check_norm(case: Norm) -> None:
    """Everything that holds for every norm."""
    for dtype in DTYPES:
        recomputed = dtype in case.recomputed
        for shape in (case.shape, *case.shapes):
            check_values(case, ordinary(case, shape, dtype), recomputed=recomputed)
        other = ordinary(case, case.shape, dtype, OTHER_DTYPE[dtype])
        check_values(case, other, "parameters of another dtype", recomputed)
        check_layouts(case, dtype)
        check_threads_and_blocks(case, dtype)
        check_out(case, dtype)
        check_nan(case, dtype)
        if not case.over_batch:
            check_batch(case, dtype)
    check_without_statistics(case)
    check_central_differences(case)


def _all(case: Norm, data: Data, stats=None) -> tuple:
    """Results, statistics and gradients; these with the statistics, or with those given."""
    results = case.forward(data)
    own = results[2 if case.has_residual else 1 :] if stats is None else stats
    return (*results, *case.backward(data, own))


def _assert_same(got, wanted, what) -> None:
    assert len(got) == len(wanted), what
    for index, (a, b) in enumerate(zip(got, wanted, strict=True)):
        assert same_bits(a, b), (index, what)


def check_without_statistics(case: Norm) -> None:
    """They change no bit of the value; those that are less exact than x are not used."""
    data = ordinary(case, case.shape, np.float32)
    results = case.forward(data)
    count = 2 if case.has_residual else 1
    _assert_same(case.forward(data, return_stats=False), results[:count], "without statistics")
    coarse = [np.full_like(own, 7, dtype=np.float32) for own in results[count:]]
    _assert_same(case.backward(data, coarse), case.backward(data), "coarse statistics")


def check_layouts(case: Norm, dtype) -> None:
    """Any layout of x, any other of dy: the same bits, and nothing written."""
    data = ordinary(case, case.shape, dtype)
    wanted = _all(case, data)
    stats = wanted[2 if case.has_residual else 1 : -2 if case.is_rms else -3]
    forward, gradients = wanted[: -2 if case.is_rms else -3], case.backward(data, stats)
    for (name, own_x), own_residual in zip(
        layouts(data.x).items(), reversed(layouts(data.residual).values())
    ):
        own = data.replaced(x=own_x, residual=own_residual)
        before = own_x.tobytes(), own_residual.tobytes()
        got = case.forward(own)
        _assert_same(got, forward, name)
        assert got[0].flags.owndata and got[0].flags.writeable and got[0].dtype.isnative
        kept = layouts(data.kept(case))[name] if case.has_residual else own_x
        for other, own_dy in layouts(data.dy).items():
            dy_before = own_dy.tobytes()
            moved = own.replaced(dy=own_dy, sum=kept)
            _assert_same(case.backward(moved, stats), gradients, (name, other))
            assert own_dy.tobytes() == dy_before, (name, other)
        assert (own_x.tobytes(), own_residual.tobytes()) == before, name
    ones = np.ones_like(data.dy)
    _assert_same(
        case.backward(data.replaced(dy=np.broadcast_to(dtype(1), data.x.shape)), stats),
        case.backward(data.replaced(dy=ones), stats),
        "stride 0",
    )


def check_threads_and_blocks(case: Norm, dtype) -> None:
    for shape in (case.shapes[0], (16, 12, 300)):
        data = ordinary(case, shape, dtype)
        wanted = _all(case, data)
        for threads in THREADS:
            for block_size in BLOCK_SIZES:
                with settings(threads, block_size):
                    _assert_same(_all(case, data), wanted, (shape, threads, block_size))


def check_out(case: Norm, dtype) -> None:
    """`out=` of memory of its own, or exactly an operand, in any layout."""
    data = ordinary(case, case.shape, dtype)
    count = 2 if case.has_residual else 1
    results = case.forward(data)
    stats, kept = results[count:], data.kept(case)
    gradients = case.backward(data, stats)
    for name, out in layouts(np.full_like(data.x, np.nan)).items():
        if out.flags.writeable and out.dtype.isnative:
            assert case.backward(data, stats, out=out)[0] is out
            assert same_bits(out, gradients[0]), name
    for order in "CF":
        for place in ("dy", "kept"):
            dy, own = data.dy.copy(order), kept.copy(order)
            out = dy if place == "dy" else own
            moved = data.replaced(dy=dy, sum=own)
            _assert_same(case.backward(moved, stats, out=out), gradients, (order, place))
            assert same_bits(own if place == "dy" else dy, kept if place == "dy" else data.dy)
        x, residual = data.x.copy(order), data.residual.copy(order)
        out = (x, residual) if case.has_residual else x
        got = case.forward(data.replaced(x=x, residual=residual), out=out)
        assert got[0] is x
        _assert_same(got, results, order)


def check_nan(case: Norm, dtype) -> None:
    """A NaN in a row, or in its dy, stays in that row."""
    clean = ordinary(case, case.shape, dtype)
    row = case.places(case.shape)[0]
    wrong = row == row[1, 2, 3]
    y, stats = (results := case.forward(clean))[0], results[2 if case.has_residual else 1 :]
    dx = case.backward(clean, stats)[0]
    x, dy = clean.x.copy(), clean.dy.copy()
    x[1, 2, 3] = dy[1, 2, 3] = np.nan
    data = clean.replaced(x=x)
    got = case.forward(data)
    assert np.isnan(as_float64(got[0])[wrong]).all()
    assert same_bits(got[0][~wrong], y[~wrong])
    for own in (data, clean.replaced(dy=dy)):
        own_stats = case.forward(own)[2 if case.has_residual else 1 :]
        own_dx = case.backward(own, own_stats)[0]
        assert np.isnan(as_float64(own_dx)[wrong]).all()
        assert same_bits(own_dx[~wrong], dx[~wrong])


def check_batch(case: Norm, dtype) -> None:
    """The bits of an item are the same alone, among three, and among a hundred."""
    data = ordinary(case, (100, *case.shape[1:]), dtype)
    count = 2 if case.has_residual else 1
    whole = case.forward(data)
    dx = case.backward(data, whole[count:])[0]
    for chosen in (slice(0, 1), slice(57, 58), slice(40, 43), slice(0, 99)):
        own = data.items(chosen)
        got = case.forward(own)
        _assert_same(got, [array[chosen] for array in whole], chosen)
        assert same_bits(case.backward(own, got[count:])[0], dx[chosen]), chosen


def check_central_differences(case: Norm) -> None:
    """The gradients are those of the value, in float64."""
    data = ordinary(case, case.small, np.float64)
    wrt = {"x": data.x, "gamma": data.gamma}
    if not case.is_rms:
        wrt["beta"] = data.beta

    def loss(own: Data) -> float:
        results = case.forward(own)
        value = np.sum(results[0] * data.dy)
        return value + np.sum(results[1] * data.dsum) if case.has_residual else value

    h = 1e-6
    gradients = case.backward(data, case.forward(data)[2 if case.has_residual else 1 :])
    for (name, array), gradient in zip(wrt.items(), gradients, strict=True):
        numeric = np.empty(array.size)
        for i in range(array.size):
            ends = []
            for step in (h, -h):
                moved = array.copy()
                moved.reshape(-1)[i] += step
                ends.append(loss(data.replaced(**{name: moved})))
            numeric[i] = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(gradient.reshape(-1), numeric, rtol=1e-7, atol=1e-8)
