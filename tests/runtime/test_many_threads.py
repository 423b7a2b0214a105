"""Many Python threads at once, other libraries' threads beside ours, and what no thread may change."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad
from checking import same_bits, settings
from layers import LAYERS, under
from processes import COMPUTE, run_python

CROWD = """
from concurrent.futures import ThreadPoolExecutor
arrays = [rng.normal(0, 3, (2, 3 + 40_000 * k)).astype(np.float32) for k in range(8)]
def results(pair):
    return fastgrad.gelu(pair[1]).tobytes(), fastgrad.swish_grad(*pair).tobytes()
fastgrad.set_num_threads(1)
expected = [results(pair) for pair in arrays]
fastgrad.set_num_threads(3)
def loop(k):
    for _ in range(200):
        assert results(arrays[k]) == expected[k]
with ThreadPoolExecutor(8) as pool:
    list(pool.map(loop, range(8)))
"""

OWN_KERNEL = """
import numba, threading
@numba.njit(parallel=True)
def own(x):
    total = 0
    for i in numba.prange(x.size):
        total += 1
    return total
def users_loop():
    for _ in range(200):
        assert own(x) == x.size
own(x)
users = threading.Thread(target=users_loop)
users.start()
"""


@pytest.mark.parametrize("layer", LAYERS)
def test_B61_eight_threads_200_calls(layer):
    """Beside a thread with a parallel kernel of the user's own, under each of Numba's layers."""
    run_python(COMPUTE + OWN_KERNEL + CROWD + "users.join()", **under(layer))


def test_B61_on_pytorchs_team():
    """With PyTorch's own operators, and its gradients' threads, in between."""
    code = """
import torch
torch.set_num_threads(2)
class Silu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(fastgrad.silu(x.detach().numpy()))
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(fastgrad.silu_grad(dy.contiguous().numpy(), x.detach().numpy()))
def torch_loop():
    for _ in range(100):
        t = torch.from_numpy(x).requires_grad_()
        Silu.apply(t).backward(torch.from_numpy(dy))
        want = torch.nn.functional.silu(t.detach().requires_grad_())
        assert torch.isfinite(t.grad).all() and t.grad.numpy().tobytes() == grad
grad = fastgrad.silu_grad(dy, x).tobytes()
import threading
users = threading.Thread(target=torch_loop)
users.start()
"""
    after = """
users.join()
from fastgrad.runtime import pool
assert pool._pool._team and torch.get_num_threads() == 2
"""
    run_python(COMPUTE + code + CROWD + after)


def test_first_calls_of_many_threads_at_once(tmp_path):
    code = """
import threading
barrier = threading.Barrier(8)
results = [None] * 8
def first(k):
    barrier.wait()
    results[k] = compute()
threads = [threading.Thread(target=first, args=(k,)) for k in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert results == [compute()] * 8
"""
    run_python(COMPUTE + code, FASTGRAD_CACHE_DIR=str(tmp_path))


def test_no_other_library_is_needed_or_changed():
    """No OpenMP library is loaded, and none of Numba's layers."""
    code = """
compute()
maps = open("/proc/self/maps").read()
assert "gomp" not in maps and "omppool" not in maps and "workqueue" not in maps
assert not any(name.startswith("numba.np.ufunc.omp") for name in sys.modules)
import numba, torch
numba_threads, torch_threads = numba.get_num_threads(), torch.get_num_threads()
fastgrad.set_num_threads(5)
compute()
assert (numba.get_num_threads(), torch.get_num_threads()) == (numba_threads, torch_threads)
"""
    run_python(COMPUTE + code)


def test_no_threads_to_be_had():
    """Where the system gives none, here for lack of address space, the caller computes alone."""
    code = """
import resource
from fastgrad.runtime import pool
fastgrad.set_num_threads(4)
expected = compute()
assert pool._pool.workers == 3
def child():
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (7 << 20),) * 2)  # a thread's stack takes 8 MiB
    fastgrad.set_num_threads(8)
    # glibc keeps the stacks of the parent's three threads for the child's; there are no seven.
    return compute() == expected and 3 <= pool._pool.workers < 7
check([fork(child)])
"""
    run_python(COMPUTE + code)


def test_any_number_of_threads():
    x = np.random.default_rng(0).normal(0, 3, 1 << 20).astype(np.float32)
    expected = fastgrad.silu(x)
    with settings(1_000_000, fastgrad.BLOCK_SIZE):
        assert same_bits(fastgrad.silu(x), expected)


@pytest.mark.parametrize("torch_first", [False, True])
def test_exit_while_threads_are_at_work(torch_first):
    code = """
import threading
compute()
def forever():
    while True:
        compute()
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
compute()
"""
    imports = "import torch; torch.ones(1 << 20).sigmoid()\n" * torch_first
    for _ in range(5):
        run_python(COMPUTE + imports + code)


def test_signals_go_to_python():
    code = """
import signal
count = 0
def handler(*_):
    global count
    count += 1
signal.signal(signal.SIGALRM, handler)
expected = compute()
signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
for _ in range(100):
    assert compute() == expected
signal.setitimer(signal.ITIMER_REAL, 0)
assert count > 20
"""
    run_python(COMPUTE + code)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_B63_sums_do_not_depend_on_threads_or_batch(threads):
    rng = np.random.default_rng(0)
    x, dy = rng.uniform(-1, 1, (2, 10_007, 3)).astype(np.float32)
    beta = rng.uniform(0.5, 2, 3).astype(np.float32)
    with settings(1, fastgrad.BLOCK_SIZE):
        dx, dbeta = fastgrad.swish.grad(dy, x, beta, axis=1)
        row_dx = fastgrad.swish.grad(dy[5:6], x[5:6], beta, axis=1, wrt="x")[0]
    with settings(threads, fastgrad.BLOCK_SIZE):
        for _ in range(20):
            again = fastgrad.swish.grad(dy, x, beta, axis=1)
            assert same_bits(again[0], dx) and same_bits(again[1], dbeta)
    assert same_bits(dx[5:6], row_dx)
    z = beta.astype(np.float64) * x
    s = 1 / (1 + np.exp(-z))
    terms = dy.astype(np.float64) * x.astype(np.float64) ** 2 * s * (1 - s)
    assert (abs(dbeta - terms.sum(axis=0)) <= 1e-5 * abs(terms).sum(axis=0)).all()


def test_B69_flush_to_zero_is_left_alone():
    """Subnormals stay for everybody; where somebody flushes, our threads do as the caller does."""
    code = """
import ctypes, threading
tail = np.full(1 << 18, -100, np.float32)
def subnormals_live():
    return sys.float_info.min / 2 != 0
assert subnormals_live()
fastgrad.set_num_threads(2)
assert (fastgrad.silu(tail) == np.float32(-3.72e-42)).all() and subnormals_live()
seen = []
thread = threading.Thread(target=lambda: (fastgrad.silu(tail), seen.append(subnormals_live())))
thread.start(); thread.join()
assert seen == [True] and subnormals_live()
import torch  # only now: first with threads of our own, then with its team
for _ in range(2):
    if torch.set_flush_denormal(True):
        flushed = fastgrad.silu(tail)
        torch.set_flush_denormal(False)
        assert (flushed == flushed[0]).all() and abs(flushed[0]) < 4e-42
    assert (fastgrad.silu(tail) == np.float32(-3.72e-42)).all()
"""
    run_python(COMPUTE + code)
