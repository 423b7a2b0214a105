"""The tables of a run, and the numbers to reach."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastgrad.bench.contenders import SELF
from fastgrad.bench.extras import require
from fastgrad.bench.machine import BUSY
from fastgrad.bench.report import print_table, verdict_table
from fastgrad.bench.spread import Spread
from fastgrad.bench.tables import (
    NOTHING,
    Cell,
    Table,
    duration,
    megabytes,
    ratio_cell,
    short,
)
from fastgrad.bench.target import Find, Seen, Target, verdicts_on
from fastgrad.bench.torch_modules.results import ModuleResults, Row
from fastgrad.bench.workloads import KERNELS

_STOCK, _THP = KERNELS

_NOTES = (
    "time: of one forward and backward in float32, parameters and inputs with gradients; a block has the "
    "convolutions in it, which are PyTorch's on both sides. Under torch and torch-thp: their time over "
    "fastgrad's, formed in each round; above 1 fastgrad is faster. Median ± half the distance of the "
    "quartiles. torch-thp: PyTorch with THP_MEM_ALLOC_ENABLE=1, which is off by default.",
    "kept: bytes that the graph holds between forward and backward, each storage once, inputs included "
    "and parameters not. difference: the largest relative one of result and gradients (Euclidean).",
    "Each contender runs in a process of its own with the same number of threads; they take turns in an "
    "order shuffled each round.",
)


def print_modules(results: ModuleResults, console: Any) -> None:
    """Show `results` on a rich console."""
    text = require("rich.text")
    for line in _heading(results):
        console.print(text.Text(line), soft_wrap=True)
    for table in (
        _times(results),
        _overheads(results),
        verdict_table(verdicts_on(TARGETS, results)),
    ):
        if table.rows:
            print_table(table, console)
    for note in _NOTES:
        console.print(text.Text(note, style="dim"), soft_wrap=True)


def _heading(results: ModuleResults) -> Iterator[str]:
    machine = results.machine
    versions = {key: value for of in results.versions.values() for key, value in of.items()}
    settings = results.settings
    yield f"{machine['processor']}, {settings['threads']} threads, {settings['rounds']} rounds"
    yield ", ".join(f"{name} {version}" for name, version in versions.items())
    if (who := settings.get("keep_memory", "none")) != "none":
        yield f"The C library keeps what is freed (fastgrad.torch.keep_memory) in: {who}."
    if machine["busy"] > BUSY:
        yield f"Others use {100 * machine['busy']:.0f} % of the processors: times say little."
    for name, reason in results.missing.items():
        yield f"{name} did not take part: {reason}"


def _times(results: ModuleResults) -> Table:
    columns = ["", "inputs", "torch", "torch-thp", "fastgrad", *(f"× {one}" for one in KERNELS)]
    columns += ["kept, MB", "with torch", "share", "difference"]
    rows = [_time_row(row) for row in results.rows if row.kind != "overhead"]
    modules = [row for row in results.rows if row.kind == "module"]
    means = [_geometric_mean(modules, peer) for peer in KERNELS]
    if any(mean is not None for mean in means):
        cells = [Cell("modules, geometric mean"), *(Cell(NOTHING) for _ in range(4))]
        cells += [Cell(NOTHING if mean is None else short(mean)) for mean in means]
        rows.append(cells + [Cell(NOTHING)] * 4)
    return Table("Forward and backward", columns, rows).with_values()


def _time_row(row: Row) -> list[Cell]:
    share = row.share_kept(_STOCK)
    return [
        Cell(row.name),
        Cell(row.shape),
        *(Cell(duration(row.milliseconds(name))) for name in (*KERNELS, SELF)),
        *(ratio_cell(row.ratio(peer)) for peer in KERNELS),
        Cell(megabytes(row.kept.get(SELF))),
        Cell(megabytes(row.kept.get(_STOCK))),
        Cell(NOTHING if share is None else short(share)),
        Cell(NOTHING if row.difference is None else f"{row.difference:.1e}"),
    ]


def _overheads(results: ModuleResults) -> Table:
    rows = []
    for row in results.rows:
        if row.kind == "overhead":
            times = [duration(row.milliseconds(name)) for name in (*KERNELS, SELF)]
            rows.append([Cell(one) for one in (row.shape, *times, _microseconds(row))])
    columns = ["silu, elements", *KERNELS, SELF, "fastgrad beyond torch"]
    return Table("One small call, forward and backward", columns, rows)


def _microseconds(row: Row) -> str:
    beyond = row.overhead(_STOCK)
    if beyond is None:
        return NOTHING
    return f"{beyond.median:.1f} µs ±{(beyond.high - beyond.low) / 2:.1f}"


def _geometric_mean(rows: Sequence[Row], peer: str) -> float | None:
    ratios = [found.median for row in rows if (found := row.ratio(peer))]
    return statistics.geometric_mean(ratios) if ratios else None


def _of(kind: str, value: Callable[[Row], Spread | float | None]) -> Find:
    """A value of each row of a kind."""

    def find(results: ModuleResults) -> Iterator[Seen]:
        for row in results.rows:
            found = value(row) if row.kind == kind else None
            if found is not None:
                yield Seen(found.median if isinstance(found, Spread) else found, row.name)

    return find


def _mean_against(peer: str) -> Find:
    def find(results: ModuleResults) -> Iterator[Seen]:
        rows = [row for row in results.rows if row.kind == "module"]
        mean = _geometric_mean(rows, peer)
        if mean is not None:
            yield Seen(mean, f"of {len(rows)} modules")

    return find


def _times_of(kind: str) -> Find:
    return _of(kind, lambda row: row.ratio(_STOCK))


TARGETS = (
    Target(
        "silu of 1,024 elements, µs beyond PyTorch's",
        30,
        20,
        _of("overhead", lambda row: row.overhead(_STOCK)),
        at_most=True,
    ),
    Target("modules, geometric mean against PyTorch", 3, 6, _mean_against(_STOCK)),
    Target("modules, geometric mean against PyTorch with THP", 1.7, 3, _mean_against(_THP)),
    Target("ResBlock, step time of PyTorch over fastgrad's", 1.03, 1.14, _times_of("res block")),
    Target(
        "ResBlock, bytes kept with fastgrad over those without",
        0.75,
        0.6,
        _of("res block", lambda row: row.share_kept(_STOCK)),
        at_most=True,
    ),
    Target("Bottleneck, throughput over PyTorch's", 1.05, 1.18, _times_of("bottleneck")),
)
