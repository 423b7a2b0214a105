"""Draw episodes until the time is up, show what they find: `make stress`.

    python -m tools.stress --minutes 10 --seed 17 --kind forks --kind crowd

Episode n has the seed SEED + n, and the kinds take turns. So each fault is repeated by its own seed and kind,
with the command that is printed with it. The exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import itertools
import secrets
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .episode import KINDS
from .runner import Episode, Outcome, copy_kernels, run, warm_up

#: After so many, no episode starts any more: most will be the same.
MOST_FAULTS = 10


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"stress: SEED={seed}")
    if {"crowd", "forks"} & set(options.kind or KINDS):
        warm_up()
    episodes = _episodes(options, seed)
    with tempfile.TemporaryDirectory(prefix="fastgrad-stress-") as scratch:
        copy_kernels(Path(scratch))
        outcomes = Run(options, console, Path(scratch)).outcomes(episodes)
    console.print(_table(outcomes))
    faults = [outcome for outcome in outcomes if outcome.fault]
    for outcome in faults:
        console.print(f"{outcome.episode.kind}: {outcome.episode.command}", markup=False)
    return 1 if faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make stress", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="no episode starts later")
    parser.add_argument("--episodes", type=int, default=10**6, help="at most")
    parser.add_argument("--seed", type=int, help="of the first episode; random by default")
    parser.add_argument("--kind", action="append", choices=KINDS, help="again for more")
    parser.add_argument("--seconds", type=float, default=8.0, help="of an episode's loops")
    parser.add_argument("--deadline", type=float, default=240.0, help="seconds of an episode")
    parser.add_argument("--workers", type=int, default=2, help="episodes at once")
    return parser


def _episodes(options: argparse.Namespace, seed: int) -> Iterator[Episode]:
    kinds = itertools.cycle(options.kind or KINDS)
    for number, kind in zip(range(options.episodes), kinds):
        yield Episode(kind, seed + number, options.seconds)


class Run:
    """Episodes, some at once, with a bar that follows the time."""

    def __init__(self, options: argparse.Namespace, console: Console, scratch: Path):
        self._options, self._console, self._scratch = options, console, scratch
        self._outcomes: list[Outcome] = []
        self._lock = threading.Lock()
        self._limit = options.minutes * 60

    def outcomes(self, episodes: Iterator[Episode]) -> list[Outcome]:
        """Run until no episode is left, or the time is up."""
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        start = time.monotonic()
        with (
            Progress(*columns, console=self._console, transient=True) as progress,
            ThreadPoolExecutor(self._options.workers) as pool,
        ):
            bar = progress.add_task("", total=self._limit)
            workers = [
                pool.submit(self._work, episodes, start + self._limit)
                for _ in range(self._options.workers)
            ]
            while not all(worker.done() for worker in workers):
                elapsed = min(time.monotonic() - start, self._limit)
                progress.update(bar, completed=elapsed, description=self._summary())
                time.sleep(0.2)
            for worker in workers:
                worker.result()
        return self._outcomes

    def _work(self, episodes: Iterator[Episode], end: float) -> None:
        while time.monotonic() < end and self._faults() < MOST_FAULTS:
            with self._lock:
                episode = next(episodes, None)
            if episode is None:
                return
            outcome = run(episode, self._scratch, self._options.deadline)
            with self._lock:
                self._outcomes.append(outcome)
            self._report(outcome)

    def _report(self, outcome: Outcome) -> None:
        episode = outcome.episode
        if outcome.fault:
            text = f"FAULT in {episode.kind}, {outcome.fault}\nrepeat: {episode.command}\n"
            self._console.print(text, style="red", markup=False)
        elif not self._console.is_terminal:  # no bar is shown there
            counts = ", ".join(f"{count} {what}" for what, count in outcome.counts.items())
            self._console.print(
                f"{episode.kind} {episode.seed}: {outcome.seconds:.0f} s, {counts}", markup=False
            )

    def _faults(self) -> int:
        return sum(bool(outcome.fault) for outcome in self._outcomes)

    def _summary(self) -> str:
        with self._lock:
            kinds = Counter(outcome.episode.kind for outcome in self._outcomes)
        faults = self._faults()
        done = "  ".join(f"{kind} {kinds[kind]}" for kind in KINDS)
        return f"{done}  faults {faults}"


def _table(outcomes: Sequence[Outcome]) -> Table:
    """Episodes and faults of each kind, and what they counted."""
    table = Table("kind", "episodes", "faults", "seconds", "counted")
    for kind in KINDS:
        own = [outcome for outcome in outcomes if outcome.episode.kind == kind]
        counts = sum((Counter(outcome.counts) for outcome in own), Counter[str]())
        table.add_row(
            kind,
            str(len(own)),
            str(sum(bool(outcome.fault) for outcome in own)),
            f"{sum(outcome.seconds for outcome in own):.0f}",
            ", ".join(f"{count:,} {what}" for what, count in counts.items()),
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
