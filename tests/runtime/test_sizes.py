"""Sizes: nothing at all, and more elements than 32 bits count.

A large array here takes little memory: the same pages, mapped again and again, make a contiguous array of
any length, and views with a stride of 0 read one row as often as one likes.
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np
import pytest

import fastgrad
from checking import same_bits
from rounding import DTYPES

BEYOND = (1 << 31) + 8
#: The source's shape: 80,000 rows of 36,864 columns are 2.9e9 elements.
ROWS, COLUMNS = 80_000, 36_864

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_PROT_NONE, _MAP_FIXED, _MAP_NORESERVE = 0, 0x10, 0x4000
_PIECE = 64 << 20


@pytest.fixture
def repeating():
    """Makes contiguous arrays of `size` elements that are the same `piece` of memory, over and over.

    What is written into one must repeat as often: threads write in any order.
    """
    places = []

    def make(size: int, dtype, piece: int = _PIECE) -> np.ndarray:
        length = -(-size * np.dtype(dtype).itemsize // piece) * piece
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        start = _libc.mmap(None, length, _PROT_NONE, flags, -1, 0)
        assert start != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
        places.append((start, length))
        file = os.memfd_create("repeating")
        os.ftruncate(file, piece)
        access = mmap.PROT_READ | mmap.PROT_WRITE
        for offset in range(0, length, piece):
            at = _libc.mmap(start + offset, piece, access, mmap.MAP_SHARED | _MAP_FIXED, file, 0)
            assert at == start + offset
        os.close(file)
        buffer = (ctypes.c_char * length).from_address(start)
        return np.frombuffer(buffer, dtype)[:size]

    yield make
    for start, length in places:
        _libc.munmap(start, length)


@pytest.mark.parametrize("size", [BEYOND - 9, BEYOND - 8, BEYOND])
def test_B16_contiguous(repeating, size):
    x, out = repeating(size, np.float16), repeating(size, np.float16)
    x[:] = 0
    x[-5:] = [1, -2, 3, -4, 5]
    assert fastgrad.silu(x, out=out) is out
    assert same_bits(out[-5:], fastgrad.silu(x[-5:].copy()))
    # In place, the first and the last piece included.
    out = fastgrad.silu_grad(out, x, out=out)
    assert out.shape == (size,)


def test_B16_rows_of_stride_0(repeating):
    row = np.random.default_rng(0).normal(0, 3, COLUMNS).astype(np.float16)
    x = np.lib.stride_tricks.as_strided(row, (ROWS, COLUMNS), (0, 2))
    rows_of_whole_pages = 1000 * row.nbytes
    assert rows_of_whole_pages % mmap.PAGESIZE == 0
    out = repeating(x.size, np.float16, rows_of_whole_pages).reshape(ROWS, COLUMNS)
    assert out.strides[0] * (ROWS - 1) + out.strides[1] * (COLUMNS - 1) == 2 * 2_949_119_999
    fastgrad.gelu(x, out=out)
    assert same_bits(out[-1], fastgrad.gelu(row))


def test_B16_sums_of_stride_0():
    """The gradient of a number: 2^31 + 8 equal terms."""
    x = np.broadcast_to(np.float32(0.5), (BEYOND,))
    dy = np.broadcast_to(np.float32(1), (BEYOND,))
    (dbeta,) = fastgrad.swish.grad(dy, x, 1.0, wrt="beta")
    (one,) = fastgrad.swish.grad(dy[:1], x[:1], 1.0, wrt="beta")
    assert dbeta == pytest.approx(one * BEYOND, rel=1e-12)


def test_B16_far_away_in_every_direction(repeating):
    """Elements of an axis that are far apart, forwards and backwards: byte offsets beyond 2^32."""
    large = repeating(BEYOND, np.float32)
    step = BEYOND - 1
    large[:1], large[-1:] = 2, -3
    expected = fastgrad.silu(np.array([2, -3], np.float32))
    ends = np.lib.stride_tricks.as_strided(large, (2,), (4 * step,))
    assert same_bits(fastgrad.silu(ends), expected)
    assert same_bits(fastgrad.silu(ends[::-1]), expected[::-1])
    out = np.lib.stride_tricks.as_strided(large, (2,), (4 * step,))
    fastgrad.silu(ends, out=out)
    assert same_bits(large[:1], expected[:1]) and same_bits(large[-1:], expected[1:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2), (0, 1 << 40)])
def test_empty(dtype, shape):
    x = np.empty(shape, dtype)
    for layout in (x, x.T, x[::-1]):
        assert fastgrad.gelu(layout).shape == layout.shape
        dx, dbeta = fastgrad.swish.grad(layout, layout, 1.5)
        assert dx.shape == layout.shape and dx.dtype == dtype and dbeta == 0.0
    out = np.empty(shape, dtype)
    assert fastgrad.silu(x, out=out) is out
    channels = fastgrad.swish.grad(x, x, np.ones(shape[0], np.float32), axis=0)[1]
    assert channels.tolist() == [0.0] * shape[0]
