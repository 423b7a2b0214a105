"""What the demo shows: one table, how its numbers were measured, one picture."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from fastgrad.demo.denoiser import Weights, denoise
from fastgrad.demo.photographs import Photograph, Pixels, add_noise, psnr
from fastgrad.demo.training import Config, Training

LAST = 20
"""Steps that the final loss is the mean of."""

TOLERANCE = 1e-5
"""Largest relative difference of two losses that counts as rounding."""

HOW = f"""\
[bold]How it was measured[/]
- Both trainings run the same loop, in a process each, one after the other: same initial weights,
  same batches, float32 throughout, matrix products by NumPy, whose idle threads sleep at once
  (OPENBLAS_THREAD_TIMEOUT=4; left as they are, they spin and slow down the kernels after them).
- Time in norm and activations: medians over the training steps. fastgrad: around the calls of
  group_norm_swish, gelu and their gradients. autograd: between two marks on the tape, before and
  after the same operators, as the tape is recorded and then run backwards.
- Kept between forward and backward: fastgrad: the inputs of group_norm_swish and gelu, mean and rstd
  of each group. autograd: every array that the tape holds between the two marks, each counted once.
- Peak memory: of the whole process, as Linux counts it, and what the training added to what was
  there before its first step: interpreter, libraries (with fastgrad: Numba), photographs.
- Final loss: mean over the last {LAST} steps."""


@dataclass(frozen=True)
class Example:
    """The held-out crop of a photograph: original, with noise, and without it again."""

    name: str
    original: Pixels
    noisy: Pixels
    denoised: Pixels

    @property
    def gain(self) -> str:
        """Decibels before and after."""
        before, after = psnr(self.noisy, self.original), psnr(self.denoised, self.original)
        return f"{before:.2f} → {after:.2f}"


def examples(photographs: list[Photograph], weights: Weights, config: Config) -> list[Example]:
    """Denoise the held-out crops, with noise that no training step has seen."""
    rng = np.random.default_rng(config.seed + 1)
    result = []
    for photo in photographs:
        noisy = add_noise(photo.crop, config.noise, rng)
        denoised = denoise(weights, noisy, config.patch)
        result.append(Example(photo.name, photo.crop, noisy, denoised))
    return result


def comparison(
    fast: Training, tape: Training, fast_shown: list[Example], tape_shown: list[Example]
) -> Table:
    """Put the two trainings side by side."""
    table = Table(title="Training a patch denoiser, norm and activations in two ways")
    table.add_column("")
    for heading in ("fastgrad", "autograd", "ratio"):
        table.add_column(heading, justify="right")

    def row(name: str, pair: list[float], style: str) -> None:
        a, b = pair
        table.add_row(name, format(a, style), format(b, style), f"{b / a:.2f}")

    both = (fast, tape)
    forward = [1e3 * float(np.median(training.forward)) for training in both]
    backward = [1e3 * float(np.median(training.backward)) for training in both]
    together = [1e3 * _median_of_both(training) for training in both]
    activations = [sum(training.forward) + sum(training.backward) for training in both]
    row("final loss", [float(np.mean(training.losses[-LAST:])) for training in both], ".6e")
    for a, b in zip(fast_shown, tape_shown, strict=True):
        table.add_row(f"{a.name}, noisy → denoised, dB", a.gain, b.gain)
    table.add_section()
    row("norm and activations, ms a step", forward, ".2f")
    row("their gradients, ms a step", backward, ".2f")
    row("both together, ms a step", together, ".2f")
    row("both together, all steps, s", activations, ".2f")
    row("training in all, s", [training.elapsed for training in both], ".1f")
    table.add_section()
    row("kept for the gradients, MB", [training.kept / 1e6 for training in both], ".1f")
    row("peak memory, MB", [training.peak / 1e6 for training in both], ".0f")
    row(
        "added by training, MB",
        [(training.peak - training.start) / 1e6 for training in both],
        ".0f",
    )
    return table


def gains(fast: Training, tape: Training) -> str:
    """What the fused kernels save, in one sentence."""
    return (
        f"Norm and activations with their gradients take {_median_of_both(tape) / _median_of_both(fast):.1f} "
        f"times less time than on the tape, and keep {tape.kept / fast.kept:.1f} times fewer bytes."
    )


def _median_of_both(training: Training) -> float:
    """Seconds of a step in norm and activations, forward and backward."""
    return float(np.median(np.add(training.forward, training.backward)))


def agreement(fast: Training, tape: Training) -> tuple[bool, str]:
    """Whether the losses are equal to rounding, and the sentence that says so."""
    a, b = np.array(fast.losses), np.array(tape.losses)
    difference = np.abs(a - b) / np.abs(b)
    agree = bool(difference.max() <= TOLERANCE)
    verdict = "equal to rounding" if agree else "NOT equal to rounding"
    return agree, (
        f"The losses are {verdict}: relative difference {difference[0]:.1e} at the first step, "
        f"{difference[-1]:.1e} at the last, {difference.max():.1e} at most (allowed: "
        f"{TOLERANCE:.0e}).\nWhere they differ: autograd rounds every intermediate to float32, "
        "fastgrad computes an operator\nor its gradient in one go; and the weights of a step "
        "differ by all roundings before it."
    )


def picture(shown: list[Example], path: Path) -> None:
    """Draw noisy, denoised and original beside each other, a row a photograph."""
    figure = Figure(figsize=(9, 3.3 * len(shown)), layout="constrained")
    rows = figure.subplots(len(shown), 3, squeeze=False)
    for axes, example in zip(rows, shown, strict=True):
        for ax, kind in zip(axes, ("noisy", "denoised", "original"), strict=True):
            pixels = getattr(example, kind)
            quality = "" if kind == "original" else f", {psnr(pixels, example.original):.1f} dB"
            ax.set_title(f"{example.name}: {kind}{quality}")
            ax.imshow(np.clip(pixels + 0.5, 0, 1), interpolation="nearest")
            ax.set_axis_off()
    figure.savefig(path, dpi=120)
