"""One process: PyTorch's modules, or those of fastgrad, as the parent asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastgrad.bench.contenders.protocol import Prepared
from fastgrad.bench.timing import choose_repetitions, seconds_per_call, wait_until_idle
from fastgrad.bench.torch_modules.kept import bytes_kept
from fastgrad.bench.torch_modules.tasks import TASKS, Side


@dataclass(frozen=True)
class Answer:
    """What a process says about a task before it is timed.

    Parameters
    ----------
    kept : int
        Bytes that the forward keeps for the backward.
    values : list of ndarray
        Some elements of the result and of each gradient.
    """

    kept: int
    values: list[np.ndarray]


class ModuleWorker:
    """Answers the requests of the parent; see `fastgrad.bench.worker`."""

    def __init__(self, side: Side, seed: int) -> None:
        self._side = side
        self._seed = seed
        self._prepared: dict[str, tuple[Prepared, int]] = {}

    def prepare(self, name: str) -> Answer:
        """Make the task `name`, and forget any other."""
        self._prepared.clear()
        bound = TASKS[name].bind(self._side, self._seed)
        answer = Answer(bytes_kept(bound.forward, bound.parameters), bound.values())
        prepared = Prepared(bound.step, _no_arrays, code="")
        self._prepared[name] = prepared, choose_repetitions(prepared)
        return answer

    def sample(self, name: str) -> float:
        """Seconds of a step, over one sample."""
        seconds = seconds_per_call(*self._prepared[name])
        wait_until_idle()
        return seconds


def _no_arrays(_: Any) -> tuple[np.ndarray, ...]:
    return ()
