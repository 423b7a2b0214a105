"""Forks of every kind, at any moment: children compute the parent's bits and end by themselves.

Meanwhile other threads of the parent compute, or compile operators that were never seen before; PyTorch may
have its team at work, too. A child that hangs says where (its threads' stacks) and is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

import fastgrad

from .arrays import Rng
from .judge import Fault
from .operators import THREADS
from .programs import random_program
from .works import Work, check_alone, random_works

#: Seconds that a child may take: for a few calls, or a few compilations, on a busy machine.
PATIENCE = 100.0
WAYS = ("plain", "plain", "nested", "idle", "other work", "pool", "behind Python's back")


def episode(rng: Rng, seconds: float) -> Counter[str]:
    """Fork in random ways until the time is up, then wait for the children."""
    warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
    if rng.random() < 0.25:
        import torch

        torch.linspace(-3, 3, 200_000).sigmoid()
    works, others = random_works(rng), random_works(rng)
    expected = [work() for work in works]
    computing, compiling = int(rng.integers(0, 4)), bool(rng.random() < 0.3)
    end, done = time.monotonic() + seconds, Counter[str]()
    with _busy(works, expected, computing, compiling, int(rng.integers(1 << 30))):
        children: list[tuple[int, str]] = []
        while time.monotonic() < end:
            way = str(rng.choice(WAYS[: 6 if computing or compiling else 7]))
            fastgrad.set_num_threads(int(rng.choice(THREADS)))
            if way == "pool":
                _check_pool(works, expected)
            else:
                children.append((_start(way, works, expected, others), way))
            done[f"{way} forks"] += 1
            if len(children) >= 4:
                _wait(children)
            time.sleep(float(rng.exponential(0.02)))
        _wait(children)
    check_alone(works, set(enumerate(expected)), f"before {sum(done.values())} forks")
    return done


@contextlib.contextmanager
def _busy(
    works: list[Work], expected: list[int], computing: int, compiling: bool, seed: int
) -> Iterator[None]:
    """Threads that compute and compile meanwhile.

    Raises
    ------
    Fault
        If one of them got something else than `expected`, or fails.
    """
    stop, failures = threading.Event(), list[str]()

    def guarded(loop: Callable[[], None]) -> None:
        try:
            while not stop.is_set():
                loop()
        except Exception:
            failures.append(traceback.format_exc())

    def compute() -> None:
        for work, value in zip(works, expected, strict=True):
            if work() != value:
                raise Fault(f"a thread beside forks: other bits: {work}")

    rng = np.random.default_rng(seed)

    def compile_() -> None:
        program = random_program(rng, 2)
        program.operator()(*(np.ones(9, np.float32) for _ in program.arrays))

    loops = [compute] * computing + [compile_] * compiling
    threads = [threading.Thread(target=guarded, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise Fault(failures[0])


def _start(way: str, works: list[Work], expected: list[int], others: list[Work]) -> int:
    """A child that exits 0 if all is well in it."""

    def compute() -> bool:
        return [work() for work in works] == expected

    def nested() -> bool:
        _wait([(_fork(compute), "nested")])
        return compute()

    def other_work() -> bool:
        check_alone(others, {(i, work()) for i, work in enumerate(others)}, "in a child")
        return compute()

    if way == "behind Python's back":  # no hook of os.register_at_fork runs
        return _fork(compute, ctypes.PyDLL(None).fork)
    work = {"idle": lambda: True, "nested": nested, "other work": other_work}.get(way, compute)
    return _fork(work)


def _fork(work: Callable[[], bool], fork: Callable[[], int] = os.fork) -> int:
    pid = fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 2
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


def _wait(children: list[tuple[int, str]]) -> None:
    """Wait for all `children`, and forget them.

    Raises
    ------
    Fault
        If one does not end in time, or with another code than 0.
    """
    end = time.monotonic() + PATIENCE
    while children:
        pid, way = children.pop()
        done, status = os.waitpid(pid, os.WNOHANG)
        while not done and time.monotonic() < end:
            time.sleep(0.005)
            done, status = os.waitpid(pid, os.WNOHANG)
        if not done:
            os.kill(pid, signal.SIGUSR1)  # the stacks of its threads
            time.sleep(1)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise Fault(f"a child ({way}) hangs")
        code = os.waitstatus_to_exitcode(status)
        if code:
            meaning = "other bits" if code == 2 else f"exit code {code}"
            raise Fault(f"a child ({way}): {meaning}")


_pool_work: list[Work] = []


def _in_pool(index: int) -> int:
    return _pool_work[index]()


def _check_pool(works: list[Work], expected: list[int]) -> None:
    """A multiprocessing pool of forked processes computes what this one does."""
    _pool_work[:] = works
    with multiprocessing.get_context("fork").Pool(2) as pool:
        try:
            got = pool.map_async(_in_pool, range(len(works)), chunksize=1).get(PATIENCE)
        except multiprocessing.TimeoutError:
            for child in multiprocessing.active_children():
                if child.pid is not None:  # 0 would be everybody
                    os.kill(child.pid, signal.SIGUSR1)
            time.sleep(1)
            raise Fault("a pool of forked processes hangs") from None
    if got != expected:
        raise Fault("a pool of forked processes: other bits")
