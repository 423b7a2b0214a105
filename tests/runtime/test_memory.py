"""Large results: their memory is used again, and never while anybody has it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fastgrad
from checking import same_bits
from fastgrad.runtime import memory

F32 = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def fresh():
    memory.clear()
    yield
    memory.clear()


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_freed_memory_is_used_again():
    first = memory.empty((1 << 20,), F32)
    place = address(first)
    del first
    assert address(memory.empty((1024, 1024), F32)) == place
    assert address(memory.empty(((1 << 20) - 100,), F32)) == place
    small = memory.empty((1 << 19,), F32)  # half of the block would be wasted
    assert address(small) != place


def test_memory_in_use_is_not():
    first = memory.empty((1 << 20,), F32)
    view = first.reshape(2, -1)[1, ::7]
    del first
    second = memory.empty((1 << 20,), F32)
    assert not np.shares_memory(view, second)
    exported = memoryview(second)
    del second
    third = memory.empty((1 << 20,), F32)
    assert address(third) != address(np.asarray(exported))


def test_what_is_remembered_is_bounded():
    kept = [memory.empty((8 << 20,), F32) for _ in range(20)]
    assert sum(block.nbytes for block in memory._blocks) <= memory.LIMIT
    assert len({address(array) for array in kept}) == 20
    del kept
    memory.empty((6 << 20,), F32)
    assert sum(block.nbytes for block in memory._blocks) <= memory.LIMIT
    assert memory.empty((memory.LIMIT,), F32).flags.owndata
    assert memory.empty((100,), F32).flags.owndata


def test_results_are_apart_from_each_other():
    x = np.random.default_rng(0).normal(0, 3, 1 << 19).astype(np.float32)
    expected = fastgrad.silu(x).copy()
    results = [fastgrad.silu(x) for _ in range(5)]
    for index, result in enumerate(results):
        assert not any(np.shares_memory(result, other) for other in results[:index])
        assert same_bits(result, expected)
    with ThreadPoolExecutor(8) as pool:
        for got in list(pool.map(lambda _: fastgrad.silu(x), range(60))):
            assert same_bits(got, expected)


def test_axes_stay_in_the_order_of_x():
    x = np.zeros((3, 400, 500, 2), np.float32)
    for like in (x, np.asfortranarray(x), x.transpose(2, 0, 3, 1), x[:, ::-1], x[:, ::2]):
        assert memory.empty_like(like, F32).strides == np.empty_like(like).strides
        assert fastgrad.silu(like).strides == np.empty_like(like).strides


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_while_locked():
    with memory._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if memory.empty((1 << 20,), F32).size == 1 << 20 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
