"""Both trainings, each in a process of its own, step by step in turn."""

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from fastgrad.demo.photographs import Pixels
from fastgrad.demo.unet.training import Config, Start, Trainer


@dataclass(frozen=True)
class Training:
    """A finished training: loss and seconds of each step, bytes, the pictures denoised."""

    start: Start
    losses: list[float]
    seconds: list[float]
    peak: int
    denoised: list[Pixels]


def train_in_turn(
    config: Config,
    noisy: list[Pixels],
    progress: Callable[[int], Iterable[int]] = range,
) -> tuple[Training, Training]:
    """Train the stock network and the patched one, and let each denoise `noisy`.

    Thread pools of two libraries in one process disturb each other, and what else the machine does
    changes from minute to minute: so there are two processes, and they take turns with every step.
    """
    with _Side(config, patched=False) as stock, _Side(config, patched=True) as patched:
        sides = (stock, patched)
        for number in progress(config.steps):
            for side in sides if number % 2 else sides[::-1]:
                side.step()
        return stock.finish(noisy), patched.finish(noisy)


class _Side:
    """One process with a `Trainer`."""

    def __init__(self, config: Config, patched: bool) -> None:
        self._process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self._results: list[tuple[float, float]] = []
        self._start: Start = self._ask(_make, config, patched)

    def __enter__(self) -> "_Side":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.shutdown()

    def step(self) -> None:
        self._results.append(self._ask(_call, "step"))

    def finish(self, noisy: list[Pixels]) -> Training:
        losses, seconds = ([*part] for part in zip(*self._results, strict=True))
        peak = self._ask(_call, "peak")
        denoised = [self._ask(_call, "denoise", one) for one in noisy]
        return Training(self._start, losses, seconds, peak, denoised)

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._process.submit(function, *arguments).result()


_trainer: Trainer | None = None
"""Of the process that this module is imported in by a `_Side`."""


def _make(config: Config, patched: bool) -> Start:
    global _trainer
    _trainer = Trainer(config, patched)
    return _trainer.start()


def _call(method: str, *arguments: Any) -> Any:
    return getattr(_trainer, method)(*arguments)
