"""Threads and forks: laid in; the hard cases are in their own issue."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fastgrad
from checking import same_bits
from fastgrad.runtime import threads


def test_default_is_omp_num_threads_or_the_processors():
    code = "import fastgrad; print(fastgrad.get_num_threads())"
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}

    def ask(**more: str) -> int:
        command = [sys.executable, "-c", code]
        return int(subprocess.check_output(command, env={**environment, **more}, timeout=60))

    assert ask() == len(os.sched_getaffinity(0))
    assert ask(OMP_NUM_THREADS="3") == 3
    assert ask(OMP_NUM_THREADS="2,1") == 2
    assert ask(OMP_NUM_THREADS="nonsense") == len(os.sched_getaffinity(0))


def test_small_work_is_serial():
    assert threads.cores_for(threads.SERIAL_WORK - 1) == 1
    assert threads.cores_for(threads.SERIAL_WORK) == min(2, fastgrad.get_num_threads())
    assert threads.cores_for(1e9) == fastgrad.get_num_threads()


def test_many_python_threads_at_once():
    x = np.random.default_rng(0).normal(0, 3, 1 << 17).astype(np.float32)
    expected = fastgrad.silu(x)
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: fastgrad.silu(x), range(40)):
            assert same_bits(got, expected)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_child_computes():
    x = np.random.default_rng(0).normal(0, 3, 1 << 17).astype(np.float32)
    expected = fastgrad.silu(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if same_bits(fastgrad.silu(x), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("count", [1, 5])
def test_set_num_threads(count):
    old = fastgrad.get_num_threads()
    try:
        fastgrad.set_num_threads(count)
        assert fastgrad.get_num_threads() == count
    finally:
        fastgrad.set_num_threads(old)
