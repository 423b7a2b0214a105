"""``python -m fastgrad.demo.unet``: train, compare, draw."""

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from fastgrad.bench.extras import require
from fastgrad.demo.photographs import load_photographs

NEXT = """\
[bold]What to try next[/]
  make compare-torch    modules and blocks of PyTorch beside fastgrad's, time and memory
  docs/pytorch.md       patching a model of your own"""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    from fastgrad.demo.unet.network import GROUPS
    from fastgrad.demo.unet.training import Config

    parser = argparse.ArgumentParser(
        prog="python -m fastgrad.demo.unet",
        description="Train a small diffusion U-Net on two photographs in PyTorch, as it is and patched "
        "by fastgrad; compare time, memory and loss.",
    )
    for name in ("steps", "batch", "channels", "patch"):
        default = getattr(Config, name)
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    parser.add_argument(
        "--output", type=Path, default=Path("demo-torch.png"), help="default: %(default)s"
    )
    given = parser.parse_args(argv)
    for name, part in (("steps", 1), ("batch", 1), ("channels", GROUPS), ("patch", 4)):
        if getattr(given, name) < 1 or getattr(given, name) % part:
            parser.error(f"--{name} must be a multiple of {part}, not {getattr(given, name)}")
    if not given.output.parent.is_dir():
        parser.error(f"--output: there is no folder {given.output.parent}")
    return given


def main(argv: list[str] | None = None) -> int:
    """Run the demo; 1 where the two trainings begin differently."""
    require("torch", extra="torch")
    given = arguments(argv)
    from fastgrad.demo.unet import report
    from fastgrad.demo.unet.sides import train_in_turn
    from fastgrad.demo.unet.training import Config

    config = Config(
        steps=given.steps, batch=given.batch, channels=given.channels, patch=given.patch
    )
    console = Console(highlight=False)
    began = time.perf_counter()
    console.print(
        f"A diffusion U-Net of {config.channels} channels, trained for {config.steps} steps of "
        f"{config.batch} patches of {config.patch} × {config.patch} pixels, by PyTorch as it is and "
        "patched by fastgrad.torch.patch, in turn.",
        soft_wrap=True,
    )
    examples = report.noisy_examples(load_photographs(), config)
    stock, patched = train_in_turn(config, [one.noisy for one in examples], _progress)
    examples = report.denoised(examples, stock, patched)

    agree, sentence = report.agreement(stock, patched)
    console.print(patched.start.report, markup=False)
    console.print(report.comparison(stock, patched, examples))
    console.print(report.gains(stock, patched), soft_wrap=True)
    console.print(sentence, style=None if agree else "bold red", soft_wrap=True)
    console.print(f"\n{report.HOW}\n", soft_wrap=True)
    report.picture(stock, patched, examples, given.output)
    console.print(f"Picture: {given.output.resolve()}", soft_wrap=True)
    console.print(f"All this took {time.perf_counter() - began:.0f} s.\n\n{NEXT}", soft_wrap=True)
    return 0 if agree else 1


def _progress(steps: int) -> Iterable[int]:
    """A progress bar over the steps, where there is a terminal to show it."""
    from tqdm import tqdm

    return tqdm(range(steps), desc="training both", unit="step", disable=None)


if __name__ == "__main__":
    sys.exit(main())
