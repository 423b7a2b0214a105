"""fastgrad beside its peers: `python -m fastgrad.bench.compare`.

Time, multiple of the streaming bound, errors against float64 and memory, each contender in a
process of its own, sampled in turn. Lists are separated by commas.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from fastgrad.bench import arguments
from fastgrad.bench.arguments import NEW_OPERATOR, PROCESSES, SECOND_PROCESS
from fastgrad.bench.articles import plan_articles
from fastgrad.bench.contenders import CONTENDERS, SELF, Contender
from fastgrad.bench.extras import require
from fastgrad.bench.families.activation_gradients import GRADIENTS
from fastgrad.bench.machine import describe_machine
from fastgrad.bench.measure import Group, Sampling
from fastgrad.bench.picture import draw
from fastgrad.bench.pool import ContenderFailed, Pool
from fastgrad.bench.readme import write_section
from fastgrad.bench.repeat import compare_runs, differences, moved_table, summary
from fastgrad.bench.report import markdown, print_report, print_table
from fastgrad.bench.results import NoStoredRun, Results, load
from fastgrad.bench.startup import measure_new_operator, measure_startup
from fastgrad.bench.workloads import KERNELS, Case, Misfit, beside_all, plan

Groups = list[list[Case]]
Progress = Callable[[Iterable[list[Case]], int], Iterable[list[Case]]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 0 unless fastgrad itself could not be measured."""
    options, before = _options(argv)
    console = terminal()
    try:
        results = run(
            options.groups,
            {name: CONTENDERS[name] for name in (SELF, *options.peers)},
            rounds=options.rounds,
            max_rounds=options.max_rounds,
            precision=options.precision,
            threads=options.threads,
            seed=options.seed,
            workload=options.workload,
            thinned=options.thinned,
            processes=options.processes,
            progress=_progress(console),
        )
    except ContenderFailed as reason:
        print(f"compare: {reason}", file=sys.stderr)
        return 1
    _write(results, options)
    print_report(results, console)
    if before:
        _print_moved(before, results, console)
    return 0


def run(
    groups: Sequence[list[Case]],
    contenders: Mapping[str, Contender],
    *,
    rounds: int,
    max_rounds: int = 0,
    precision: float = arguments.DEFAULTS["precision"],
    threads: int = 2,
    seed: int = 0,
    workload: str = "default",
    thinned: bool = False,
    processes: Collection[str] = (),
    progress: Progress = lambda groups, count: groups,
) -> Results:
    """Measure `groups` with every one of `contenders`.

    Parameters
    ----------
    groups : sequence of list of Case
        From `fastgrad.bench.workloads.plan`.
    contenders : mapping
        By name; fastgrad has to be one of them.
    rounds, max_rounds : int
        Samples of each contender, at least and, while a ratio is not known to `precision`, at most.
    precision : float
        Half the 95 % interval that the median of a ratio is to have, in percent of it.
    workload : str
        What the groups are called.
    thinned : bool
        Whether the peers beside `KERNELS` are measured only where `beside_all` says so.
    processes : collection of str
        What to measure of fresh processes too, of `PROCESSES`.
    progress : callable
        Wraps the groups as they are gone through, given their number.

    Raises
    ------
    ContenderFailed
        If fastgrad itself does not start. A peer that does not is in `missing` of the results.
    """
    settings = {
        "workload": workload,
        "thinned": thinned,
        "rounds": rounds,
        "max_rounds": max(rounds, max_rounds),
        "precision": precision,
        "threads": threads,
        "seed": seed,
        "peers": [name for name in contenders if name != SELF],
    }
    sampling = Sampling(rounds, max(rounds, max_rounds), precision / 100)
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
            names = [name for name in pool if not thinned or _in_thinned(name, cases[0])]
            results.rows += Group(pool, cases, names).measure(sampling, order)
    as_planned = [case for cases in groups for case in cases]
    results.rows.sort(key=lambda row: as_planned.index(row.case))
    if SECOND_PROCESS in processes:
        results.startup = measure_startup()
    if NEW_OPERATOR in processes:
        results.new_operator = measure_new_operator()
    return results


def _in_thinned(contender: str, case: Case) -> bool:
    return contender in (SELF, *KERNELS) or beside_all(case)


def _options(argv: Sequence[str] | None) -> tuple[argparse.Namespace, Results | None]:
    """What is to be measured, and the stored run that it repeats."""
    parser = arguments.parser(__doc__)
    options = parser.parse_args(argv)
    try:
        before = load(options.repeat) if options.repeat else None
    except NoStoredRun as reason:
        parser.error(str(reason))
    filtered = bool(options.op or options.shape or options.dtype or options.peers is not None)
    if filtered and not before and options.max_rounds is None:
        options.max_rounds = arguments.MAX_ROUNDS_OF_A_SELECTION
    arguments.settle(options, before.settings if before else {})
    options.thinned = (
        before.settings["thinned"]
        if before
        else options.workload in ("default", "activations") and not filtered
    )
    unknown = [name for name in options.peers if name not in CONTENDERS]
    if unknown:
        parser.error(f"peers of the stored run that are unknown here: {', '.join(unknown)}")
    try:
        options.groups = _groups(options, before)
    except Misfit as reason:
        parser.error(str(reason))
    options.processes = _processes(options, before)
    if not options.groups and not options.processes:
        parser.error("no row that could be measured is of these operators, shapes and dtypes")
    if options.picture:
        require("matplotlib")
    return options, before


def _groups(options: argparse.Namespace, before: Results | None) -> Groups:
    operators = [name for name in options.op if name not in PROCESSES]
    if options.op and not operators:
        return []
    if before:
        planned = _groups_of(row.case for row in before.rows)
    elif options.workload == "articles":
        planned = plan_articles()
    elif options.workload == "activations":
        operators = [name for name in operators or GRADIENTS if name in GRADIENTS]
        found = plan(operators, options.shape, options.dtype, full=True)
        return found if operators else []
    else:
        full = options.workload == "full"
        return plan(operators, options.shape, options.dtype, full=full)
    return [cases for cases in planned if _is_chosen(cases[0], operators, options)]


def _groups_of(cases: Iterable[Case]) -> Groups:
    """Those that differ in mode alone together, in their order."""
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.operator, case.shape, case.dtype), []).append(case)
    return list(groups.values())


def _is_chosen(case: Case, operators: Sequence[str], options: argparse.Namespace) -> bool:
    return (
        (not operators or case.operator in operators)
        and (not options.shape or case.shape in options.shape)
        and (not options.dtype or case.dtype in options.dtype)
    )


def _processes(options: argparse.Namespace, before: Results | None) -> list[str]:
    if options.op:
        return [name for name in PROCESSES if name in options.op]
    if before:
        measured = (before.startup, before.new_operator)
        return [name for name, one in zip(PROCESSES, measured, strict=True) if one is not None]
    return [*PROCESSES] if options.workload in ("default", "full") else []


def _write(results: Results, options: argparse.Namespace) -> None:
    """Before anything is printed: the numbers of minutes are on disk first."""
    if options.json:
        options.json.write_text(json.dumps(results.to_dict(), indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(results))
    if options.picture:
        draw(results, options.picture)
    if options.readme:
        write_section(results, options.readme)


def _print_moved(before: Results, now: Results, console: Any) -> None:
    rows = compare_runs(before, now)
    table = moved_table(rows)
    if table.rows:
        print_table(table, console)
    console.print()
    for line in [*differences(before, now), *summary(rows)]:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def terminal() -> Any:
    """The console that a comparison is printed on."""
    console = require("rich.console").Console()
    if not console.is_terminal:
        # A pipe has no width of its own, and a table folded to 80 columns is unreadable.
        console.width = 180
    return console


def _progress(console: Any) -> Progress:
    return _bar(console) if console.is_terminal else _lines


def _lines(groups: Iterable[list[Case]], count: int) -> Iterable[list[Case]]:
    for number, cases in enumerate(groups, 1):
        print(f"{number}/{count} {cases[0]}", file=sys.stderr, flush=True)
        yield cases


def _bar(console: Any) -> Progress:
    def progress(groups: Iterable[list[Case]], count: int) -> Iterable[list[Case]]:
        bars = require("rich.progress")
        columns = (
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(),
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
