"""What `make stress` has found, each in its smallest form."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import fastgrad
from fastgrad import maths as m
from processes import COMPUTE, FORK, run_python
from rounding import error_in_ulp


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


@fastgrad.elementwise
def one_plus_erf(z):
    return 1 + m.erf(z)


@pytest.mark.parametrize(("dtype", "z"), [(np.float32, 9.2), (np.float64, 26.0)])
def test_slope_of_one_plus_erf_keeps_its_tail(dtype, z):
    """Operators: 42 and 930 ULP, as the rounding of √2·z was magnified."""
    z = np.array([z, -z], dtype)
    slope = one_plus_erf.grad(np.ones_like(z), z)[0]
    with mpmath.workdps(50):
        exact = float(2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-(mpmath.mpf(float(z[0])) ** 2)))
    assert (error_in_ulp(slope, np.full(2, exact), dtype) <= 4).all()


@fastgrad.elementwise
def inverse_root(x):
    return x**-0.5


def test_slope_of_an_inverse_root_overflows_no_sooner_than_it_must():
    """Operators: -inf, as the half came after the division."""
    x = np.full(3, 1.38335e-26, np.float32)
    exact = -0.5 * x.astype(np.float64) ** -1.5
    assert (error_in_ulp(inverse_root.grad(np.ones_like(x), x)[0], exact, np.float32) <= 4).all()


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
    run_python(FORK + code, seconds=10)


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
