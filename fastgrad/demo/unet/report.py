"""What the demo shows: one table, what it says, one picture."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from fastgrad.bench.spread import ratio, spread
from fastgrad.demo.photographs import Photograph, Pixels, add_noise, psnr
from fastgrad.demo.unet.sides import Training
from fastgrad.demo.unet.training import Config

LAST = 20
"""Steps that the final loss is the mean of."""

TOLERANCE = 1e-5
"""Largest relative difference of the first two losses that counts as rounding."""

# Nearer to 1 a ratio is no difference that is worth a word.
_EQUAL = 0.02

HOW = f"""\
[bold]How it was measured[/]
- Two processes, the stock network and the patched one, from one seed, on the same batches, in float32;
  they take turns with every step, and each waits until its threads are asleep.
- Time: of a step with its optimiser, median over all; the ratio is formed step by step. Convolutions,
  the optimiser and all else but norms and activations are PyTorch's own on both sides.
- Kept between forward and backward: every storage that the graph holds, once; parameters do not count.
- Added by training: peak memory of the process (VmHWM) over what it had before its first step.
- Final loss: mean over the last {LAST} steps. PyTorch allocates as it does by default; with
  THP_MEM_ALLOC_ENABLE=1 both sides may be faster: make compare-torch shows modules with both."""


@dataclass(frozen=True)
class Example:
    """The held-out crop of a photograph, and what both networks made of it."""

    name: str
    original: Pixels
    noisy: Pixels
    stock: Pixels | None = None
    patched: Pixels | None = None


def noisy_examples(photographs: list[Photograph], config: Config) -> list[Example]:
    """The held-out crops, with noise that no training step has seen."""
    rng = np.random.default_rng(config.seed + 2)
    return [
        Example(photo.name, photo.crop, add_noise(photo.crop, config.noise, rng))
        for photo in photographs
    ]


def denoised(examples: list[Example], stock: Training, patched: Training) -> list[Example]:
    """The same with what the networks made of them."""
    return [
        Example(one.name, one.original, one.noisy, by_stock, by_patched)
        for one, by_stock, by_patched in zip(
            examples, stock.denoised, patched.denoised, strict=True
        )
    ]


def comparison(stock: Training, patched: Training, examples: list[Example]) -> Table:
    """Put the two trainings side by side."""
    table = Table(title="Training a diffusion U-Net")
    table.add_column("")
    for heading in ("PyTorch", "patched", "PyTorch / patched"):
        table.add_column(heading, justify="right")

    both = (stock, patched)
    table.add_row("loss of the first step", *(f"{one.losses[0]:.7f}" for one in both))
    table.add_row("final loss", *(f"{np.mean(one.losses[-LAST:]):.4f}" for one in both))
    for one in examples:
        table.add_row(f"{one.name}, noisy → denoised, dB", *_gains(one))
    table.add_section()
    times = [f"{1e3 * spread(one.seconds).median:.1f}" for one in both]
    found = ratio(stock.seconds, patched.seconds)
    quartiles = f"{found.median:.3f} ({found.low:.3f} to {found.high:.3f})"
    table.add_row("step, ms", *times, quartiles)
    for name, sizes in (
        ("kept for the backward, MB", [one.start.kept for one in both]),
        ("added by training, MB", [one.peak for one in both]),
    ):
        share = f"{sizes[0] / max(1, sizes[1]):.2f}"
        table.add_row(name, *(f"{size / 1e6:.1f}" for size in sizes), share)
    table.add_row("the step before all, s", *(f"{one.start.first_step:.2f}" for one in both))
    return table


def _gains(example: Example) -> list[str]:
    before = psnr(example.noisy, example.original)
    found = (example.stock, example.patched)
    return [f"{before:.2f} → {psnr(one, example.original):.2f}" for one in found if one is not None]


def gains(stock: Training, patched: Training) -> str:
    """What patching has changed, in one sentence."""
    speed = ratio(stock.seconds, patched.seconds).median
    kept = patched.start.kept / stock.start.kept
    if abs(speed - 1) < _EQUAL:
        said = "A patched step takes as long as a stock one"
    elif speed > 1:
        said = f"A patched step is {speed:.2f} times faster"
    else:
        said = f"A patched step is {1 / speed:.2f} times SLOWER"
    return f"{said}, and its graph keeps {100 * kept:.0f} % of the bytes."


def agreement(stock: Training, patched: Training) -> tuple[bool, str]:
    """Whether the losses are equal to rounding at first, and the sentence that says so."""
    a, b = np.array(patched.losses), np.array(stock.losses)
    difference = np.abs(a - b) / np.abs(b)
    agree = bool(difference[0] <= TOLERANCE)
    verdict = "equal to rounding" if agree else "NOT equal to rounding"
    return agree, (
        f"The losses of the first step are {verdict}: relative difference {difference[0]:.1e} (allowed: "
        f"{TOLERANCE:.0e}). It is {np.median(difference):.1e} in the median of all steps and "
        f"{difference.max():.1e} at most: training amplifies roundings."
    )


def picture(stock: Training, patched: Training, examples: list[Example], path: Path) -> None:
    """Draw the crops, a row a photograph, and the two curves of the loss below them."""
    figure = Figure(figsize=(12, 3.3 * len(examples) + 3.2), layout="constrained")
    grid = figure.add_gridspec(len(examples) + 1, 4)
    kinds = {"noisy": "noisy", "stock": "PyTorch", "patched": "patched", "original": "original"}
    for row, example in enumerate(examples):
        for column, (kind, name) in enumerate(kinds.items()):
            pixels = getattr(example, kind)
            quality = "" if kind == "original" else f", {psnr(pixels, example.original):.1f} dB"
            ax = figure.add_subplot(grid[row, column])
            ax.set_title(f"{example.name}: {name}{quality}")
            ax.imshow(np.clip(pixels + 0.5, 0, 1), interpolation="nearest")
            ax.set_axis_off()
    curves, times = (figure.add_subplot(grid[-1, part]) for part in (slice(2), slice(2, 4)))
    for name, style, training in (("PyTorch", "-", stock), ("patched", "--", patched)):
        curves.plot(training.losses, style, label=name)
        times.plot(1e3 * np.array(training.seconds), ".", markersize=3, label=name)
    curves.set(
        xlabel="step", ylabel="loss", yscale="log", title="Loss: the curves lie on each other"
    )
    times.set(xlabel="step", ylabel="ms", ylim=(0, None), title="Time of a step")
    for ax in (curves, times):
        ax.legend()
    figure.savefig(path, dpi=100)
