"""What the measured norms are in float64, written plainly.

Errors are judged at the size of the largest of the terms that a value is the sum of, in 16 bit too: near
its mean a row has values that are next to nothing, of which no float32 knows more than of the mean. The
size of a sum over many is what independent errors of theirs add up to: the root of the sum of their squares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fastgrad.bench.forms import PARAMETERS, NormForm, Shape
from fastgrad.bench.references import Expected

Array = np.ndarray[Any, np.dtype[np.float64]]
Operands = Mapping[str, Array]

#: Added to the variance, and to the mean square of an RMS norm: everyone's defaults, or given to them.
EPS, EPS_OF_RMS = 1e-5, 1e-6


@dataclass(frozen=True)
class NormReference:
    """One result of a norm.

    Parameters
    ----------
    name : str
        ``"y"``, ``"sum"``, ``"dx"``, ``"dgamma"`` or ``"dbeta"``.
    form : NormForm
        Its rows.
    is_rms, has_swish : bool
        Without a mean and a beta; with a swish after it.
    """

    name: str
    form: NormForm
    is_rms: bool = False
    has_swish: bool = False

    def expected(
        self, operands: Operands, shape: Shape, dtype: np.dtype[Any], times: int
    ) -> Expected:
        """The result at `shape`, as part of a batch that repeats those items `times` times."""
        arrays = _in_rows(self.form, operands)
        x = _input(arrays, dtype)
        if self.name == "sum":
            found = x
        else:
            rows = _normalised(x.value, self.form.row_axes, self.is_rms)
            u = _affine(rows, arrays["gamma"], arrays.get("beta"))
            if self.name == "y":
                found = _swish(u) if self.has_swish else u
            else:
                incoming = _sized(arrays["dy"])
                g = _swish_gradient(incoming, u) if self.has_swish else incoming
                found = self._gradient(g, rows, arrays)
        if self.name.removeprefix("d") in PARAMETERS:
            return _of_batch(found, times)
        return Expected(*(self.form.stored(part, shape) for part in _at_least_its_value(found)))

    def _gradient(self, g: _Sized, rows: _Rows, arrays: Operands) -> _Sized:
        if self.name == "dgamma":
            return _channel_sum(_Sized(g.value * rows.z, g.size * rows.size))
        if self.name == "dbeta":
            return _channel_sum(g)
        gamma = arrays["gamma"]
        dz = _Sized(g.value * gamma, g.size * np.abs(gamma))
        dx = _norm_gradient(dz, rows, self.form.row_axes, self.is_rms)
        if "dsum" not in arrays:
            return dx
        dsum = arrays["dsum"]
        return _Sized(dx.value + dsum, np.maximum(dx.size, np.abs(dsum)))


class _Sized(NamedTuple):
    """Values, and the sizes of the largest terms that they are the sum of."""

    value: Array
    size: Array


class _Rows(NamedTuple):
    """(x - mean) · rstd, the size of its terms, and rstd."""

    z: Array
    size: Array
    rstd: Array


def _sized(values: Array) -> _Sized:
    return _Sized(values, np.abs(values))


def _at_least_its_value(found: _Sized) -> _Sized:
    return _Sized(found.value, np.maximum(found.size, np.abs(found.value)))


def _of_batch(found: _Sized, times: int) -> Expected:
    """A sum over the items, all of which are there `times` times, and so are their errors."""
    whole = _at_least_its_value(found)
    return Expected(times * whole.value.reshape(-1), times * whole.size.reshape(-1))


def _in_rows(form: NormForm, operands: Operands) -> dict[str, Array]:
    """All operands as (items, groups, channels of a group, places), parameters too."""
    views = {name: form.view(array) for name, array in operands.items() if name not in PARAMETERS}
    _, groups, channels, _ = next(iter(views.values())).shape
    return views | {
        name: operands[name].reshape(groups, channels, 1) for name in PARAMETERS if name in operands
    }


def _input(arrays: Operands, dtype: np.dtype[Any]) -> _Sized:
    """What is normalised: a sum is rounded to the dtype of the result before."""
    if "residual" not in arrays:
        return _sized(arrays["sum"] if "sum" in arrays else arrays["x"])
    x, residual = arrays["x"], arrays["residual"]
    rounded = (x + residual).astype(dtype).astype(np.float64)
    return _Sized(rounded, np.maximum(np.abs(x), np.abs(residual)))


def _normalised(x: Array, axes: tuple[int, ...], is_rms: bool) -> _Rows:
    zero = np.zeros(())
    mean = _Sized(zero, zero) if is_rms else _mean(_sized(x), axes)
    centred = x - mean.value
    variance = (centred * centred).mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(variance + (EPS_OF_RMS if is_rms else EPS))
    return _Rows(centred * rstd, np.maximum(np.abs(x), mean.size) * rstd, rstd)


def _affine(rows: _Rows, gamma: Array, beta: Array | None) -> _Sized:
    value, size = rows.z * gamma, rows.size * np.abs(gamma)
    return (
        _Sized(value, size) if beta is None else _Sized(value + beta, np.maximum(size, abs(beta)))
    )


def _sigmoid(u: Array) -> Array:
    return 1 / (1 + np.exp(-u))


# The rounding of u, as large as its terms, counts too: in the tails a slope makes more of it than of u.


def _swish(u: _Sized) -> _Sized:
    s = _sigmoid(u.value)
    slope = s + u.value * s * _sigmoid(-u.value)
    return _Sized(u.value * s, u.size * np.maximum(s, np.abs(slope)))


def _swish_gradient(dy: _Sized, u: _Sized) -> _Sized:
    """dy · (s + u · s · (1 - s)), two terms."""
    s, rest = _sigmoid(u.value), _sigmoid(-u.value)
    second = u.value * s * rest
    curvature = s * rest * (2 + u.value * (rest - s))
    size = np.max([s, np.abs(second), u.size * np.abs(curvature)], axis=0)
    return _Sized(dy.value * (s + second), dy.size * size)


def _norm_gradient(dz: _Sized, rows: _Rows, axes: tuple[int, ...], is_rms: bool) -> _Sized:
    """rstd · (dz - mean(dz) - z · mean(dz · z))."""
    slope = _mean(_Sized(dz.value * rows.z, dz.size * rows.size), axes)
    value, size = dz.value - rows.z * slope.value, np.maximum(dz.size, rows.size * slope.size)
    if not is_rms:
        mean = _mean(dz, axes)
        value, size = value - mean.value, np.maximum(size, mean.size)
    return _Sized(rows.rstd * value, rows.rstd * size)


def _mean(terms: _Sized, axes: tuple[int, ...]) -> _Sized:
    value = terms.value.mean(axes, keepdims=True)
    size = np.sqrt((terms.size * terms.size).sum(axes, keepdims=True))
    return _Sized(value, np.maximum(np.abs(value), size * value.size / terms.value.size))


def _channel_sum(terms: _Sized) -> _Sized:
    """Over the items and places; its size is what the errors of independent terms add up to."""
    size = np.sqrt((terms.size * terms.size).sum((0, 3)))
    return _Sized(terms.value.sum((0, 3)), size)
