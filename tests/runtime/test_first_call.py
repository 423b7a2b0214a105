"""Importing compiles nothing; a first call works wherever, and however, Python was started."""

from __future__ import annotations

from processes import COMPUTE, run_python


def test_B67_import_compiles_and_writes_nothing(tmp_path):
    code = """
import sys
before = set(sys.modules)
import fastgrad
new = {name.partition(".")[0] for name in set(sys.modules) - before}
heavy = {"numba", "llvmlite", "scipy", "torch", "jax", "tqdm", "matplotlib", "pytest"}
assert not heavy & new, heavy & new
"""
    run_python(code, FASTGRAD_CACHE_DIR=str(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


def test_numba_disable_jit_is_for_the_users_functions(tmp_path):
    """It makes Numba compile nothing at all, and cuts down Numba's own functions."""
    code = """
assert abs(fastgrad.sigmoid(np.zeros(1 << 17, np.float32)) - 0.5).max() == 0
assert len(fastgrad.swish.grad(dy, x)) == 2
import numba
@numba.njit
def plain(x):
    return type(x).__name__  # no compiled function could
assert plain(1.0) == "float" and numba.config.DISABLE_JIT
"""
    run_python(COMPUTE + code, FASTGRAD_CACHE_DIR=str(tmp_path), NUMBA_DISABLE_JIT="1")


def test_working_directory_that_is_gone(tmp_path):
    code = """
os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
assert fastgrad.sigmoid(np.zeros(3, np.float32)).tolist() == [0.5] * 3
try:
    os.getcwd()
except FileNotFoundError:
    pass
else:
    raise AssertionError("the working directory was changed")
"""
    start = f"import os; os.chdir({str(tmp_path)!r})\n"
    run_python(start + COMPUTE + code, FASTGRAD_CACHE_DIR=str(tmp_path / "cache"))


def test_optimised_and_without_bytecode(tmp_path):
    code = "assert compute() == compute()"
    environment = {"PYTHONOPTIMIZE": "2", "PYTHONDONTWRITEBYTECODE": "1"}
    run_python(COMPUTE + code, FASTGRAD_CACHE_DIR=str(tmp_path), **environment)
