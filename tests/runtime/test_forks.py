"""Forks of every kind: the child computes the parent's bits, on as many cores, and ends by itself."""

from __future__ import annotations

import pytest

from layers import LAYERS, under
from processes import COMPUTE, run_python

#: Ways to make a child, each after the parent has launched kernels in parallel.
WAYS = {
    "os_fork": """
expected = compute()
check([fork(lambda: compute() == expected) for _ in range(4)])
assert compute() == expected
""",
    "grandchild": """
expected = compute()
def again():
    check([fork(lambda: compute() == expected)])
    return compute() == expected
check([fork(again)])
""",
    "child_that_does_not_compute": """
compute()
check([fork(lambda: True)])
""",
    "first_call_in_the_child": """
import numba
first, second = [fork(lambda: len(compute()) > 0) for _ in range(2)]
check([first, second])
compute()
""",
    "multiprocessing_fork": """
import multiprocessing
expected = compute()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(compute, range(6)) == [expected] * 6
""",
    "joblib_loky": """
import joblib
expected = compute()
assert joblib.Parallel(n_jobs=2)(joblib.delayed(compute)() for _ in range(4)) == [expected] * 4
from joblib.externals.loky import get_reusable_executor
get_reusable_executor().shutdown(wait=True)
""",
    "joblib_multiprocessing": """
import joblib
expected = compute()
with joblib.parallel_config("multiprocessing"):
    assert joblib.Parallel(n_jobs=2)(joblib.delayed(compute)() for _ in range(4)) == [expected] * 4
""",
    "data_loader": """
import torch
expected = compute()
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return compute() == expected
torch.ones(1 << 20).sigmoid()  # its team is at work, too
assert compute() == expected
loader = torch.utils.data.DataLoader(Data(), num_workers=2, multiprocessing_context="fork")
assert all(bool(good) for good in loader)
assert compute() == expected
""",
    "prefork_server": """
import signal, socket
expected = compute()
server = socket.create_server(("127.0.0.1", 0))
def serve():
    for _ in range(3):
        connection, _ = server.accept()
        connection.sendall(b"right" if compute() == expected else b"wrong")
        connection.close()
    return True
workers = [fork(serve) for _ in range(2)]
answers = []
for _ in range(6):
    with socket.create_connection(server.getsockname(), timeout=30) as client:
        answers.append(client.recv(100))
assert answers == [b"right"] * 6, answers
check(workers)
""",
    "while_other_threads_compute": """
import threading
expected = compute()
stop = threading.Event()
def loop():
    while not stop.is_set():
        assert compute() == expected
threads = [threading.Thread(target=loop) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(15):
    check([fork(lambda: compute() == expected)])
stop.set()
for thread in threads:
    thread.join()
""",
    "behind_pythons_back": """
import ctypes
expected = compute()
pid = ctypes.PyDLL(None).fork()  # no hook of os.register_at_fork runs
if pid == 0:
    os._exit(0 if compute() == expected else 1)
check([pid])
""",
}


@pytest.mark.parametrize("way", WAYS)
def test_B60_child_computes(way):
    run_python(COMPUTE + WAYS[way])


def test_B60_spawned_pool(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        COMPUTE
        + """
if __name__ == "__main__":
    import multiprocessing
    expected = compute()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(compute, range(4)) == [expected] * 4
"""
    )
    run_python(f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')")


@pytest.mark.parametrize("layer", LAYERS)
def test_B60_beside_the_users_own_parallel_kernel(layer):
    """Numba kills a child that launches on its own OpenMP layer. Ours does not."""
    code = """
import numba
@numba.njit(parallel=True)
def own(x):
    total = 0.0
    for i in numba.prange(x.size):
        total += x[i]
    return total
expected, total = compute(), own(x)
assert compute() == expected and abs(own(x) - total) <= 1
check([fork(lambda: compute() == expected) for _ in range(2)])
"""
    run_python(COMPUTE + code, **under(layer))


def test_child_is_parallel_again():
    code = """
from fastgrad.runtime import pool
fastgrad.set_num_threads(3)
expected = compute()
def child():
    assert pool._pool is None
    return compute() == expected and pool._pool.workers == 2
check([fork(child)])
"""
    run_python(COMPUTE + code)


def test_child_that_imports_pytorch_uses_its_team():
    """The parent had none; where it had one, its threads are not in the child."""
    code = """
from fastgrad.runtime import pool
expected = compute()
def child():
    import torch
    torch.ones(1 << 20).sigmoid()
    has_team = compute() == expected and pool._pool._team
    return has_team and fork_and_check(False)
def fork_and_check(team):
    check([fork(lambda: compute() == expected and bool(pool._pool._team) == team)])
    return True
check([fork(child)])
"""
    run_python(COMPUTE + code)


def test_fork_while_another_thread_compiles(tmp_path):
    """The child would inherit Numba's lock, locked for ever, and a half-made kernel."""
    code = """
import threading, time
import numba
failures = []
def first_calls():
    try:
        for dtype in (np.float32, np.float64, np.float16):
            fastgrad.gelu(np.ones(10, dtype))
            fastgrad.silu_grad(np.ones(10, dtype), np.ones(10, dtype))
    except BaseException as error:
        failures.append(error)
thread = threading.Thread(target=first_calls)
thread.start()
pids = []
while thread.is_alive():
    pids.append(fork(lambda: abs(fastgrad.sigmoid(np.zeros(5, np.float32)) - 0.5).max() == 0))
    time.sleep(0.4)
thread.join()
check(pids, 60)
assert len(pids) > 2 and not failures, failures
"""
    run_python(
        COMPUTE + code,
        FASTGRAD_CACHE_DIR=str(tmp_path),
    )
