"""Profile one call: `python -m fastgrad.profile time|assembly|memory|hardware`.

time      what dispatch, launch, walk and each pass take, the bytes, the balance of the cores
assembly  the hot loop, annotated, with its vector width
memory    what is kept for backward and the peak, beside autodiff
hardware  the processor's counters, by perf
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import fastgrad
from fastgrad.bench.arguments import at_least, names_of, shapes
from fastgrad.bench.extras import require
from fastgrad.bench.machine import describe_machine
from fastgrad.bench.tables import Table, rich_table, shape_text, short
from fastgrad.bench.workloads import DTYPES, FEATURE_MAP, Shape
from fastgrad.profile import (
    assembly,
    assembly_report,
    hardware,
    hardware_report,
    memory,
    report,
    shares,
)
from fastgrad.profile.balance import balance_of
from fastgrad.profile.subject import Subject, known_operators, subject_of

# Share of the processors in use by others above which times say little.
_BUSY = 0.1
# Calls that `perf` counts take about so long.
_COUNTED_SECONDS = 1.0

_Text = Callable[..., None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 where what was asked for cannot be had on this machine."""
    options = _parser().parse_args(arguments)
    if options.threads:
        fastgrad.set_num_threads(options.threads)
    show = _Show(_console())
    code = 0
    for index, case in enumerate(itertools.product(options.op, options.shape, options.dtype)):
        if index:
            show.console.print()
        code = max(code, _COMMANDS[options.command](show, *case, options))
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fastgrad.profile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = known_operators()
    parser.add_argument("command", choices=_COMMANDS)
    parser.add_argument(
        "--op", type=names_of("operator", known), default=["swish_grad"], help=", ".join(known)
    )
    parser.add_argument(
        "--shape", type=shapes, default=[FEATURE_MAP], help=f"such as {_written(FEATURE_MAP)}"
    )
    parser.add_argument(
        "--dtype", type=names_of("dtype", DTYPES), default=["float32"], help=", ".join(DTYPES)
    )
    parser.add_argument("--rounds", type=at_least(2), default=11, help="samples of each time (11)")
    parser.add_argument("--threads", type=at_least(1), help="all that this process may use")
    return parser


class _Show:
    """Prints text, tables and warnings on a rich console.

    Parameters
    ----------
    console : rich.console.Console
    """

    def __init__(self, console: Any) -> None:
        self.console = console
        self._text = require("rich.text").Text

    def lines(self, *lines: str, style: str = "") -> None:
        for line in filter(None, lines):
            self.console.print(self._text(line, style=style), soft_wrap=True)

    def table(self, table: Table) -> None:
        self.console.print()
        self.console.print(rich_table(table))

    def track(self, rounds: Iterable[int]) -> Iterable[int]:
        return require("rich.progress").track(
            rounds, description="rounds", console=self.console, transient=True
        )


# --- Commands -------------------------------------------------------------------------------------


def _time(show: _Show, operator: str, shape: Shape, dtype: str, options: Any) -> int:
    machine = describe_machine()
    subject = subject_of(operator, shape, dtype)
    threads = fastgrad.get_num_threads()
    show.lines(_title(subject), f"{machine['processor']}, {threads} thread{'s' * (threads > 1)}")
    if machine["busy"] > _BUSY:
        show.lines(
            f"busy: other processes use {machine['busy']:.0%} of the processors; repeat this on a "
            "quiet machine before trusting a number",
            style="red",
        )
    times = shares.measure(subject, options.rounds, show.track)
    show.table(report.share_table(subject, times))
    show.lines(*report.traffic_lines(subject, times))
    for index, one in enumerate(times.launches):
        show.table(report.walk_table(subject, times, index))
        show.lines(report.verdict(times, index))
        if one.launch.cores == 1:
            show.lines(
                "One core computes all of it: a second one is not worth waking, or not allowed."
            )
            continue
        balance = balance_of(one.launch)
        show.table(report.balance_table(balance, times, index))
        show.lines(report.balance_line(balance))
    show.lines("", report.NOTES, style="dim")
    return 0


def _assembly(show: _Show, operator: str, shape: Shape, dtype: str, options: Any) -> int:
    subject = subject_of(operator, (1,), dtype)
    for program in subject.programs:
        text, triple = assembly.assembly_of(program, subject.precision)
        loop = assembly.hot_loop(text, triple)
        if loop is None:
            show.lines(f"{program.name}: no loop computes anything", style="red")
            continue
        show.lines(f"{program.name}, {dtype}: the hot loop of its tiles, for {assembly.target()}")
        show.lines(*assembly_report.width_lines(loop, subject.precision))
        show.lines(assembly_report.scalar_warning(loop), style="red")
        if estimate := assembly.throughput(loop):
            cycles, version = estimate
            show.lines(f"llvm-mca {version}: {short(cycles)} cycles a turn, data in the cache.")
        show.table(assembly_report.class_table(loop))
        show.lines(assembly_report.listing(loop), style="cyan")
    return 0


def _memory(show: _Show, operator: str, shape: Shape, dtype: str, options: Any) -> int:
    usages, missing = memory.measure(operator, shape, dtype)
    show.lines(f"{operator} {shape_text(shape)} {dtype}: its operator forward and backward")
    array_bytes = math.prod(shape) * DTYPES[dtype].itemsize
    show.table(memory.usage_table(usages, array_bytes))
    show.lines(missing, style="red")
    show.lines(*memory.NOTES, *memory.scratch_lines(operator, dtype))
    for name, own in usages.items():
        show.lines(f"\n{name}:")
        show.lines(own.code, style="cyan")
    return 0


def _hardware(show: _Show, operator: str, shape: Shape, dtype: str, options: Any) -> int:
    subject = subject_of(operator, shape, dtype)
    calls = hardware.calls_in(_COUNTED_SECONDS, subject.call)
    show.lines(_title(subject))
    try:
        counters = hardware.count(subject.call, calls)
    except hardware.NoCounters as reason:
        show.lines(str(reason), style="red")
        return 1
    elements = subject.case.elements
    show.table(hardware_report.counter_table(counters, calls, elements))
    show.lines(*hardware_report.derived_lines(counters, calls, elements))
    show.lines(hardware_report.missing_line(counters), style="red")
    show.lines(hardware_report.NOTE, style="dim")
    return 0


_COMMANDS = {"time": _time, "assembly": _assembly, "memory": _memory, "hardware": _hardware}


def _title(subject: Subject) -> str:
    case = subject.case
    code = subject.code.replace("\n", "; ")
    return f"{case.operator} {shape_text(case.shape)} {case.dtype}: {code}"


def _written(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _console() -> Any:
    console = require("rich.console").Console(highlight=False)
    if not console.is_terminal:
        # A pipe has no width of its own, and a table folded to 80 columns is unreadable.
        console.width = 180
    return console


if __name__ == "__main__":
    sys.exit(main())
