"""What `make stress` has found, each in its smallest form."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad
from fastgrad import maths as m
from processes import COMPUTE, run_python


@fastgrad.elementwise
def product(a, b, c):
    return a * (b * m.exp(c))


@pytest.mark.parametrize(
    ("dtype", "small", "exponent"), [(np.float32, 1e-33, 80.0), (np.float64, 1e-250, 700.0)]
)
def test_a_large_exponential_between_small_operands(dtype, small, exponent):
    """Operators seed 12: `scaled2` lost digits, or all of them, of a result that is a normal number."""
    a, c = np.full(3, small, dtype), np.full(3, exponent, dtype)
    expected = a * (a * np.exp(c))
    assert abs(product(a, a, c) / expected - 1).max() < 1e-5


def test_infinite_gradients_of_both_signs_sum_to_nan_without_a_warning():
    """Operators seed 62: pytest makes an error of NumPy's warning, as many a program does."""
    x = np.ones(200_000, np.float32)
    dy = x.copy()
    dy[0], dy[-1] = np.inf, -np.inf
    (dbeta,) = fastgrad.swish.grad(dy, x, 1.0, wrt="beta")
    assert np.isnan(dbeta)


def test_fork_while_a_compilation_wants_to_log():
    """Forks seed 8: the hooks of a fork took logging's lock and waited for fastgrad's; the compiling
    thread, in Numba, the other way round.
    """
    code = """
import fastgrad, logging, os, threading, time
from fastgrad.runtime.locks import compile_lock
compiling = threading.Event()
def compile_and_log():
    with compile_lock:
        compiling.set()
        time.sleep(0.3)
        logging.getLogger("numba").debug("as it does")
thread = threading.Thread(target=compile_and_log)
thread.start()
compiling.wait()
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
thread.join()
"""
    run_python("import warnings; warnings.simplefilter('ignore')\n" + code, seconds=10)


def test_a_pipe_in_the_place_of_a_source_while_it_is_compiled(tmp_path):
    """Cache faults seed 10: reading the pipe waited for ever."""
    code = """
from pathlib import Path
from fastgrad.functional._run import ProgramRunner
prepare = ProgramRunner._walk
def walk(self, precision):
    walk = prepare(self, precision)
    for path in Path(os.environ["FASTGRAD_CACHE_DIR"]).glob("sigmoid_*.py"):
        path.unlink()
        os.mkfifo(path)
    return walk
ProgramRunner._walk = walk
assert fastgrad.sigmoid(np.zeros(3, np.float32)).tolist() == [0.5] * 3
"""
    run_python(COMPUTE + code, seconds=20, FASTGRAD_CACHE_DIR=str(tmp_path))
