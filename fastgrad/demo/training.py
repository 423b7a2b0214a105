"""The training loop that both denoisers run, and what it measures of them."""

import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fastgrad.demo.photographs import (
    Photograph,
    Pixels,
    add_noise,
    brightness,
    load_photographs,
    sample_patches,
)

if TYPE_CHECKING:
    from fastgrad.demo.denoiser import Weights


@dataclass(frozen=True)
class Config:
    """What is trained, on what, and for how long."""

    patch: int = 8
    hidden: int = 1024
    batch: int = 1024
    steps: int = 300
    noise: float = 0.1
    learning_rate: float = 1e-3
    seed: int = 0

    @property
    def width(self) -> int:
        """Numbers in a patch."""
        return self.patch * self.patch * 3


class Stopwatch:
    """Sum of the times between `start` and `stop`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0

    def start(self) -> None:
        """Go on."""
        self._started = time.perf_counter()

    def stop(self) -> None:
        """Halt, and add what has passed."""
        self.seconds += time.perf_counter() - self._started

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


@dataclass
class Meter:
    """What one training step spends on its activations."""

    forward: Stopwatch = field(default_factory=Stopwatch)
    backward: Stopwatch = field(default_factory=Stopwatch)
    kept: int = 0

    def keep(self, *arrays: Pixels) -> None:
        """Note the bytes of the arrays that are kept between forward and backward."""
        self.kept = sum(array.nbytes for array in arrays)


@dataclass(frozen=True)
class Training:
    """A finished training and its measurements, in seconds and bytes.

    Attributes
    ----------
    weights, losses
        What came of it; a loss a step.
    elapsed
        The time of all steps.
    forward, backward
        For each step, the time in its activations and in their gradients.
    kept
        What a step keeps for the gradients of its activations.
    peak, start
        Memory of the process: at its most, and before the first step.
    """

    weights: "Weights"
    losses: list[float]
    elapsed: float
    forward: list[float]
    backward: list[float]
    kept: int
    peak: int
    start: int


Result = TypeVar("Result")
Step = Callable[["Weights", Pixels, Pixels, Meter], tuple[float, "Weights"]]


def in_own_process(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function in a fresh process, so that its memory is its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def first_step(module: str, config: Config, batch: int) -> float:
    """Seconds of one step of `batch` patches: the time to compile the kernels, or to load them."""
    from fastgrad.demo.denoiser import initial_weights

    weights, patches = initial_weights(config), np.ones((batch, config.width), np.float32)
    began = time.perf_counter()
    _step_of(module)(weights, patches, patches, Meter())
    return time.perf_counter() - began


def train(module: str, config: Config) -> Training:
    """Train the denoiser with the `loss_and_gradient` of a module of this package."""
    from fastgrad.demo.denoiser import initial_weights

    photographs = load_photographs()
    rng = np.random.default_rng(config.seed)
    weights = initial_weights(config)
    optimizer = Adam(weights, config)
    loss_and_gradient = _step_of(module)
    first_step(module, config, batch=2)  # a whole one would leave memory behind that training uses

    losses, forward, backward, meter = [], [], [], Meter()
    start = reset_peak_memory()
    began = time.perf_counter()
    for _ in progress(config.steps, module):
        meter = Meter()
        noisy, clean = _batch(photographs, config, rng)
        loss, gradient = loss_and_gradient(weights, noisy, clean, meter)
        weights = optimizer.step(weights, gradient)
        losses.append(loss)
        forward.append(meter.forward.seconds)
        backward.append(meter.backward.seconds)
    elapsed = time.perf_counter() - began
    peak = memory("VmHWM")
    return Training(weights, losses, elapsed, forward, backward, meter.kept, peak, start)


def _step_of(module: str) -> Step:
    step: Step = import_module(f"fastgrad.demo.{module}").loss_and_gradient
    return step


def _batch(
    photographs: list[Photograph], config: Config, rng: np.random.Generator
) -> tuple[Pixels, Pixels]:
    """Noisy patches and clean ones, both without the brightness of the noisy ones."""
    clean = sample_patches(photographs, config.batch, config.patch, rng)
    noisy = add_noise(clean, config.noise, rng)
    level = brightness(noisy)
    return noisy - level, clean - level


def progress(steps: int, title: str) -> Any:
    """A progress bar over the steps, where there is a terminal to show it."""
    from tqdm import tqdm

    return tqdm(range(steps), desc=f"training, {title}", unit="step", disable=None)


class Adam:
    """Adam, its rate falling to 0 along half a cosine."""

    def __init__(self, weights: "Weights", config: Config) -> None:
        self.config = config
        self.steps = 0
        self.means = [np.zeros_like(weight) for weight in weights]
        self.squares = [np.zeros_like(weight) for weight in weights]

    def step(self, weights: "Weights", gradient: "Weights") -> "Weights":
        """Return the weights after one step."""
        self.steps += 1
        decay = 0.5 + 0.5 * np.cos(np.pi * self.steps / (self.config.steps + 1))
        unbias_mean, unbias_square = 1 - 0.9**self.steps, 1 - 0.99**self.steps
        rate = float(self.config.learning_rate * decay / unbias_mean)
        new = []
        for weight, slope, mean, square in zip(
            weights, gradient, self.means, self.squares, strict=True
        ):
            mean += np.float32(0.1) * (slope - mean)
            square += np.float32(0.01) * (slope * slope - square)
            new.append(weight - rate * mean / (np.sqrt(square / unbias_square) + 1e-8))
        return type(weights)(*new)


def memory(field: str) -> int:
    """Bytes of this process: `VmRSS` (now) or `VmHWM` (its peak), as Linux counts them."""
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {field}: the demo needs Linux")
    return int(found[1]) * 1024


def reset_peak_memory() -> int:
    """Let the peak start from what is in use now, and return that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # not allowed in some containers: then the peak counts from the process' start
        print("the peak memory includes the set-up of the process", file=sys.stderr)
    return memory("VmRSS")
