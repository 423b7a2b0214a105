"""``python -m fastgrad.demo``: train, compare, draw."""

import argparse
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from fastgrad.demo import report
from fastgrad.demo.denoiser import GROUPS, PLACES
from fastgrad.demo.photographs import load_photographs
from fastgrad.demo.training import Config, first_step, in_own_process, train

NEXT = """\
[bold]What to try next[/]
  make test       all checks
  make compare    time, memory and error of a single operator against its peers
  .venv/bin/python -c 'import fastgrad; fastgrad.show(fastgrad.group_norm_swish)'
                  how one line of maths becomes the kernel that just ran"""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fastgrad.demo",
        description="Train a patch denoiser on two photographs with NumPy and fastgrad, and again "
        "with composed autodiff; compare time, memory and loss.",
    )
    parser.add_argument("--steps", type=int, default=Config.steps, help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=Config.batch, help="default: %(default)s")
    parser.add_argument("--hidden", type=int, default=Config.hidden, help="default: %(default)s")
    parser.add_argument(
        "--output", type=Path, default=Path("demo.png"), help="default: %(default)s"
    )
    given = parser.parse_args(argv)
    for name in ("steps", "batch", "hidden"):
        if getattr(given, name) < 1:
            parser.error(f"--{name} must be at least 1, not {getattr(given, name)}")
    if not given.output.parent.is_dir():
        parser.error(f"--output: there is no folder {given.output.parent}")
    if given.hidden % (GROUPS * PLACES):
        parser.error(f"--hidden must be a multiple of {GROUPS * PLACES}, not {given.hidden}")
    return given


def main(argv: list[str] | None = None) -> int:
    """Run the demo; 1 where the two trainings disagree."""
    given = arguments(argv)
    config = Config(steps=given.steps, batch=given.batch, hidden=given.hidden)
    console = Console(highlight=False)
    began = time.perf_counter()

    console.print(
        f"A denoiser of {config.patch} × {config.patch} colour patches, {config.hidden} hidden "
        f"channels, trained for {config.steps} steps of {config.batch} patches:\n"
        "matrix products by NumPy; group norm with swish, and gelu, first by fastgrad, then composed in "
        "autograd.",
        soft_wrap=True,
    )
    # NumPy's BLAS lets its idle threads spin for a while after a product, in the way of whatever uses
    # the cores next. In both trainings they go to sleep at once instead; read when NumPy is imported.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    # A whole batch: arrays as large as in training are spread over the cores, by kernels of their own.
    ready = in_own_process(first_step, "denoiser", config, config.batch)
    console.print(
        f"The kernels of a step were ready after {ready:.1f} s; they are kept, and only loaded from now on.",
        soft_wrap=True,
    )
    fast = in_own_process(train, "denoiser", config)
    tape = in_own_process(train, "tape", config)

    photographs = load_photographs()
    shown = report.examples(photographs, fast.weights, config)
    tape_shown = report.examples(photographs, tape.weights, config)
    agree, sentence = report.agreement(fast, tape)
    console.print(report.comparison(fast, tape, shown, tape_shown))
    console.print(report.gains(fast, tape), soft_wrap=True)
    console.print(sentence, style=None if agree else "bold red", soft_wrap=True)
    console.print(f"\n{report.HOW}\n", soft_wrap=True)
    report.picture(shown, given.output)
    console.print(f"Picture: {given.output.resolve()}", soft_wrap=True)
    console.print(f"All this took {time.perf_counter() - began:.0f} s.\n\n{NEXT}", soft_wrap=True)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
