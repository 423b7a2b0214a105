"""fastgrad beside its peers: `python -m fastgrad.bench.compare`.

Time, multiple of the streaming bound, errors against float64 and memory, each contender in a
process of its own, sampled in turn. Lists are separated by commas.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastgrad.bench.contenders import CONTENDERS, SELF, Contender
from fastgrad.bench.extras import require
from fastgrad.bench.machine import describe_machine
from fastgrad.bench.measure import Group
from fastgrad.bench.pool import ContenderFailed, Pool
from fastgrad.bench.report import markdown, print_report
from fastgrad.bench.results import Results
from fastgrad.bench.startup import measure_startup
from fastgrad.bench.workloads import DTYPES, WORKLOADS, Case, Shape, plan

#: The row that is no operator: import and first call of a fresh process.
SECOND_PROCESS = "second_process"

_PEERS = [name for name in CONTENDERS if name != SELF]

Progress = Callable[[Iterable[list[Case]], int], Iterable[list[Case]]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 unless fastgrad itself could not be measured."""
    options = _parser().parse_args(arguments)
    console = _console()
    operators = [name for name in options.op if name != SECOND_PROCESS]
    groups = [] if options.op and not operators else plan(operators, options.shape, options.dtype)
    try:
        results = run(
            groups,
            {name: CONTENDERS[name] for name in (SELF, *options.peers)},
            rounds=options.rounds,
            threads=options.threads,
            seed=options.seed,
            second_process=not options.op or SECOND_PROCESS in options.op,
            progress=_rich_progress(console),
        )
    except ContenderFailed as reason:
        print(f"compare: {reason}", file=sys.stderr)
        return 1
    print_report(results, console)
    if options.json:
        options.json.write_text(json.dumps(results.to_dict(), indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(results))
    return 0


def run(
    groups: Sequence[list[Case]],
    contenders: Mapping[str, Contender],
    *,
    rounds: int,
    threads: int = 2,
    seed: int = 0,
    second_process: bool = False,
    progress: Progress = lambda groups, count: groups,
) -> Results:
    """Measure `groups` with every one of `contenders`.

    Parameters
    ----------
    groups : sequence of list of Case
        From `fastgrad.bench.workloads.plan`.
    contenders : mapping
        By name; fastgrad has to be one of them.
    rounds : int
        Samples of each contender.
    second_process : bool
        Whether to measure the start of a fresh process too.
    progress : callable
        Wraps the groups as they are gone through, given their number.

    Raises
    ------
    ContenderFailed
        If fastgrad itself does not start. A peer that does not is in `missing` of the results.
    """
    settings = {"rounds": rounds, "threads": threads, "seed": seed}
    results = Results(describe_machine(), settings, versions={}, missing={})
    order = random.Random(seed)
    with Pool(contenders, threads=threads, seed=seed) as pool:
        if SELF in pool.missing:
            raise ContenderFailed(f"{SELF} did not start: {pool.missing[SELF]}")
        results.missing = pool.missing
        results.versions = {name: pool[name].versions for name in pool}
        # By size and dtype: one after the other, such groups share their inputs and the stream.
        by_size = sorted(groups, key=lambda cases: (cases[0].elements, cases[0].dtype))
        for cases in progress(by_size, len(groups)):
            results.rows += Group(pool, cases).measure(rounds, order)
    as_planned = [case for cases in groups for case in cases]
    results.rows.sort(key=lambda row: as_planned.index(row.case))
    if second_process:
        results.startup = measure_startup()
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fastgrad.bench.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    operators = [*WORKLOADS, SECOND_PROCESS]
    parser.add_argument(
        "--op", type=_names("operator", operators), default=[], help=", ".join(operators)
    )
    parser.add_argument("--shape", type=_shapes, default=[], help="such as 1024,32x64x56x56")
    parser.add_argument("--dtype", type=_names("dtype", DTYPES), default=[], help=", ".join(DTYPES))
    parser.add_argument(
        "--peers", type=_names("peer", _PEERS), default=_PEERS, help=", ".join(_PEERS)
    )
    parser.add_argument("--rounds", type=_at_least(2), default=11, help="samples of each (11)")
    parser.add_argument("--threads", type=_at_least(1), default=2, help="of every contender (2)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs and the order (0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    return parser


def _names(kind: str, known: Iterable[str]) -> Callable[[str], list[str]]:
    known = list(known)

    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"unknown {kind} {name!r}; known: {', '.join(known)}"
                )
        return names

    return parse


def _shapes(text: str) -> list[Shape]:
    return [_shape(one.strip()) for one in text.split(",") if one.strip()]


def _shape(text: str) -> Shape:
    lengths = text.split("x")
    if not all(length.isdecimal() and int(length) for length in lengths):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no shape; write positive lengths with x between them, as in 8192x4096"
        )
    return tuple(int(length) for length in lengths)


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.strip().isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be an integer of at least {least}, got {text}")
        return int(text)

    return parse


def _console() -> Any:
    console = require("rich.console").Console()
    if not console.is_terminal:
        # A pipe has no width of its own, and a table folded to 80 columns is unreadable.
        console.width = 180
    return console


def _rich_progress(console: Any) -> Progress:
    def progress(groups: Iterable[list[Case]], count: int) -> Iterable[list[Case]]:
        bars = require("rich.progress")
        columns = (
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
        )
        with bars.Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task("starting", total=count)
            for cases in groups:
                bar.update(task, description=str(cases[0]))
                yield cases
                bar.advance(task)

    return progress


if __name__ == "__main__":
    sys.exit(main())
