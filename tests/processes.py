"""Python programs in processes of their own, each with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

#: `fork`, for programs. Python 3.12 warns of every fork beside threads, such as those of NumPy's BLAS.
FORK = """
import os, warnings
warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)

def fork(work):
    '''A child that exits 0 if `work` returns something true.'''
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return pid
"""

#: What most programs begin with: data, and `compute`, whose bytes must be the same everywhere.
COMPUTE = (
    FORK
    + """
import sys
import numpy as np
import fastgrad

rng = np.random.default_rng(0)
x, dy = rng.normal(0, 3, (2, 1 << 18)).astype(np.float32)

def compute(_=None):
    dx, dbeta = fastgrad.swish.grad(dy, x, 1.3)
    return fastgrad.gelu(x).tobytes() + dx.tobytes() + np.float64(dbeta).tobytes()

def check(pids, seconds=30):
    '''Each child is to end by itself, with exit code 0, in time.'''
    import time
    end = time.monotonic() + seconds
    for pid in pids:
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            assert time.monotonic() < end, f"child {pid} hangs"
            time.sleep(0.005)
        assert os.waitstatus_to_exitcode(status) == 0, f"child {pid} ended with {status}"
"""
)


def run_python(code: str, *, seconds: float = 100, **environment: str) -> str:
    """What the program prints; it must end in time, with exit code 0, and complain of nothing."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        raise AssertionError(f"no end after {seconds} s\n{output}\n{errors}") from None
    assert process.returncode == 0, f"exit code {process.returncode}\n{output}\n{errors}"
    assert errors == "", errors
    return output
