"""Reductions over a tile."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

from fastgrad.vector_unit.reductions import reduce_max, reduce_sum


@njit
def sum_of(tile):
    return reduce_sum(tile)


@njit
def max_of(tile):
    return reduce_max(tile)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 67, 2048])
def test_reductions(size, dtype):
    tile = np.random.default_rng(size).normal(0, 100, size).astype(dtype)
    assert max_of(tile) == tile.max()
    exact = math.fsum(tile)
    assert abs(sum_of(tile) - exact) <= 1e-15 * size * np.abs(tile).sum()
    tile[size // 2] = np.nan
    assert np.isnan(max_of(tile))
    assert np.isnan(sum_of(tile))
    tile[size // 2] = np.inf
    assert max_of(tile) == sum_of(tile) == np.inf


def test_sum_is_taken_in_float64():
    assert sum_of(np.array([1e8, 1.0, -1e8], np.float32)) == 1.0
    assert sum_of(np.array([3e38, 3e38], np.float32)) == 2 * float(np.float32(3e38))
