"""Norms and their gradients over the rows of a 2-D array, written plainly in float64.

Nothing of fastgrad is called here. A value comes with the size of its largest term, at which an error
is measured. Where a result is no narrower than what it is computed in, a mean or a sum counts by the
size of what it adds up (`by_summands`), and a slope amplifies what comes in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from references import sigmoid


@dataclass(frozen=True)
class Normalised:
    """Rows in units of their spread.

    Attributes
    ----------
    z : ndarray
        (x - mean) · rstd.
    mean, rstd : ndarray
        One a row, as a column.
    size : ndarray
        |z|, or what z is a sum of.
    """

    z: np.ndarray
    mean: np.ndarray
    rstd: np.ndarray
    size: np.ndarray


def row_mean(x):
    """The mean, with what it leaves over added to it."""
    mean = x.mean(axis=1, keepdims=True)
    return mean + (x - mean).mean(axis=1, keepdims=True)


def normalised(x, eps, *, is_rms=False, by_summands=False) -> Normalised:
    """In two passes: the mean, then squared distances from it."""
    mean = np.zeros((len(x), 1)) if is_rms else row_mean(x)
    centred = x - mean
    rstd = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + eps)
    size = np.abs(centred) * rstd
    if by_summands and not is_rms:
        size = (np.abs(x) + np.abs(x).mean(axis=1, keepdims=True)) * rstd
    return Normalised(centred * rstd, mean, rstd, size)


def given(x, mean, rstd) -> Normalised:
    """With statistics that do not depend on `x`."""
    size = np.maximum(np.abs(x), np.abs(mean)) * rstd
    return Normalised((x - mean) * rstd, mean, rstd, size)


def affine(rows: Normalised, gamma, beta):
    """z · gamma + beta, and its size."""
    return rows.z * gamma + beta, np.maximum(rows.size * np.abs(gamma), np.abs(beta))


def swish(u, size, slope, *, by_summands=False):
    """u · sigmoid(slope · u), and its size."""
    s = sigmoid(slope * u)
    amplified = 1 + np.abs(slope * u) if by_summands else 1.0
    return u * s, size * s * amplified


def swish_grad(dy, u, slope):
    """The gradient of `u`, and its size: the slope is a sum of two terms."""
    s = sigmoid(slope * u)
    second = slope * u * s * sigmoid(-slope * u)
    return dy * (s + second), np.abs(dy) * np.maximum(s, np.abs(second))


def norm_grad(g, size, rows: Normalised, *, is_rms=False, by_summands=False):
    """rstd · (g - mean(g) - z · mean(g · z)), and its size; `size` is that of g."""
    mean_g = np.zeros_like(rows.rstd) if is_rms else row_mean(g)
    mean_gz = row_mean(g * rows.z)
    dx = rows.rstd * (g - mean_g - rows.z * mean_gz)
    if by_summands:
        mean_g = np.zeros_like(rows.rstd) if is_rms else size.mean(axis=1, keepdims=True)
        mean_gz = (size * rows.size).mean(axis=1, keepdims=True)
    terms = (size, np.abs(mean_g), rows.size * np.abs(mean_gz))
    return dx, rows.rstd * np.maximum.reduce(np.broadcast_arrays(*terms))


def channel_sum(values, sizes, *, by_summands=False):
    """Over the rows of a 2-D array, one a channel; and the size of the sums."""
    largest = sizes.sum(axis=1) if by_summands else sizes.max(axis=1, initial=0.0)
    return values.sum(axis=1), largest
