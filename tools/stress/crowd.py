"""Many Python threads at once, beside other libraries' threads, while the settings change.

2 to 8 threads call the library's operators; another one changes the number of threads and the size of a tile
all the time. In some episodes PyTorch's operators run as well, and its import may fall between the calls; in
others a parallel kernel of the user's own, under one of Numba's threading layers. All that they got is
compared, bit for bit, with what one thread gets afterwards, alone.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import fastgrad

from .arrays import Rng
from .judge import Fault
from .operators import BLOCKS, THREADS
from .works import Work, check_alone, random_works

OTHERS = ("nobody", "nobody", "torch", "torch", "numba")


def episode(rng: Rng, seconds: float) -> Counter[str]:
    """A crowd of calls, until the time is up."""
    # Numba's workqueue may be used by one thread at a time, as it is here.
    os.environ["NUMBA_THREADING_LAYER"] = str(rng.choice(["omp", "workqueue"]))
    seen: list[tuple[int, int]] = []
    works, other, crowd = random_works(rng), str(rng.choice(OTHERS)), int(rng.integers(2, 9))
    delay = float(rng.choice([0, seconds / 4]))
    if rng.random() < 0.5:
        seen = [
            (index, work()) for index, work in enumerate(works)
        ]  # else all begin with first calls
    others_work = (
        OTHER_WORK[other]() if rng.random() < 0.4 else None
    )  # else it is imported beside the crowd
    seeds = [int(seed) for seed in rng.integers(0, 1 << 30, crowd + 1)]
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(crowd + 2) as pool:
        calls = [pool.submit(_call, works, seed, end) for seed in seeds[1:]]
        settings = pool.submit(_change_settings, seeds[0], end)
        others = pool.submit(_do_others_work, others_work, other, end, delay)
        seen += [result for call in calls for result in call.result()]
        settings.result()
        done = Counter(calls=len(seen), others=others.result())
    check_alone(works, set(seen), f"{crowd} threads, and {other}")
    return done


def _call(works: list[Work], seed: int, end: float) -> list[tuple[int, int]]:
    """Random works, again and again: which, and what it gave."""
    rng, seen = np.random.default_rng(seed), list[tuple[int, int]]()
    while not seen or time.monotonic() < end:
        index = int(rng.integers(len(works)))
        seen.append((index, works[index]()))
    return seen


def _change_settings(seed: int, end: float) -> None:
    rng = np.random.default_rng(seed)
    while time.monotonic() < end:
        fastgrad.set_num_threads(int(rng.choice(THREADS)))
        fastgrad.set_block_size(int(rng.choice(BLOCKS)))
        time.sleep(float(rng.exponential(0.003)))


def _do_others_work(work: Callable[[], bool] | None, other: str, end: float, delay: float) -> int:
    """Call another library's parallel operator, after `delay` where it is still to be imported."""
    if work is None:
        time.sleep(delay)
        work = OTHER_WORK[other]()
    count = 0
    while time.monotonic() < end:
        if not work():
            raise Fault(f"{other}'s own operator goes wrong beside fastgrad's")
        count += 1
        time.sleep(0.002)
    return count


def _torch() -> Callable[[], bool]:
    import torch

    x = torch.linspace(-3, 3, 200_000)
    expected = torch.sigmoid(x)
    return lambda: bool((torch.sigmoid(x) == expected).all())


def _numba() -> Callable[[], bool]:
    import numba

    @numba.njit(parallel=True)
    def count(n):
        total = 0
        for _ in numba.prange(n):
            total += 1
        return total

    return lambda: count(300_000) == 300_000


#: Each makes a call that tells whether its result is right.
OTHER_WORK: dict[str, Callable[[], Callable[[], bool]]] = {
    "nobody": lambda: lambda: True,
    "torch": _torch,
    "numba": _numba,
}
