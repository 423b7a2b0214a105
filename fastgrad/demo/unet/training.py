"""The training loop, the same for the stock network and the patched one."""

import time
from dataclasses import dataclass

import numpy as np
import torch

from fastgrad.bench.timing import wait_until_idle
from fastgrad.bench.torch_modules.kept import bytes_kept
from fastgrad.demo.photographs import Pixels, load_photographs, sample_patches
from fastgrad.demo.training import memory, reset_peak_memory
from fastgrad.demo.unet import network


@dataclass(frozen=True)
class Config:
    """What is trained, on what, and for how long."""

    patch: int = 32
    channels: int = 32
    batch: int = 16
    steps: int = 150
    learning_rate: float = 2e-3
    noise: float = 0.15
    seed: int = 0


@dataclass(frozen=True)
class Start:
    """What is known before the first step: seconds of a step that comes first, bytes kept in one."""

    first_step: float
    kept: int
    report: str


class Trainer:
    """A network, its optimiser and its batches, all from one seed.

    Parameters
    ----------
    config : Config
        The same on both sides.
    patched : bool
        Whether `fastgrad.torch.patch` has changed the network.
    """

    def __init__(self, config: Config, patched: bool) -> None:
        self.config = config
        torch.manual_seed(config.seed)
        self._network = network.UNet(config.channels)
        self._report = _patch(self._network) if patched else ""
        self._optimizer = torch.optim.Adam(self._network.parameters(), config.learning_rate)
        self._schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimizer, config.steps)
        self._photographs = load_photographs()
        self._rng = np.random.default_rng(config.seed)
        self._start_memory = 0

    def start(self) -> Start:
        """Run forward and backward once, which compiles kernels or loads them, and change nothing."""
        batch = self._batch(np.random.default_rng(self.config.seed + 1))
        began = time.perf_counter()
        network.loss(self._network, *batch).backward()
        seconds = time.perf_counter() - began
        self._optimizer.zero_grad()
        kept = bytes_kept(lambda: network.loss(self._network, *batch), self._network.parameters())
        self._start_memory = reset_peak_memory()
        return Start(seconds, kept, self._report)

    def step(self) -> tuple[float, float]:
        """One step of training: its loss and its seconds."""
        batch = self._batch(self._rng)
        began = time.perf_counter()
        loss = network.loss(self._network, *batch)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        seconds = time.perf_counter() - began
        self._schedule.step()
        wait_until_idle()  # threads that still spin would be in the way of the other side
        return loss.item(), seconds

    def peak(self) -> int:
        """Bytes that the steps have added, at most, to what the process had before."""
        return memory("VmHWM") - self._start_memory

    def denoise(self, noisy: Pixels) -> Pixels:
        """A whole picture, by the network as it is now."""
        picture = torch.from_numpy(noisy).movedim(-1, 0)[None]
        found = network.denoise(self._network, picture, torch.tensor([self.config.noise]))
        return found[0].movedim(0, -1).numpy()

    def _batch(self, rng: np.random.Generator) -> tuple[torch.Tensor, ...]:
        """Clean patches, noise, and how strong it is in each patch."""
        count, patch = self.config.batch, self.config.patch
        rows = sample_patches(self._photographs, count, patch, rng)
        clean = rows.reshape(count, patch, patch, 3).transpose(0, 3, 1, 2)
        noise = rng.standard_normal(clean.shape, dtype=np.float32)
        sigma = np.exp(rng.normal(-1.8, 1.0, count)).astype(np.float32)
        arrays = (np.ascontiguousarray(clean), noise, sigma)
        return tuple(torch.from_numpy(array) for array in arrays)


def _patch(model: torch.nn.Module) -> str:
    import fastgrad.torch

    return str(fastgrad.torch.patch(model))
