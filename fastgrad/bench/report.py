"""A run as tables: for the terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastgrad.bench.accuracy import Accuracy
from fastgrad.bench.contenders import CONTENDERS, SELF
from fastgrad.bench.extras import require
from fastgrad.bench.results import Results, Row
from fastgrad.bench.spread import Spread, spread
from fastgrad.bench.targets import Verdict, judge

_MODES = {"out": "out=", "in-place": "in-place", "allocate": "allocating"}

# Share of the processors in use by others above which times say little.
_BUSY = 0.1

_NOTES = (
    "time: of a call of fastgrad. × bound: over the time that the fastest float32 addition of the "
    "same rounds needs for as many bytes; * all arrays fit into the "
    "last-level cache, where that is no lower limit.",
    "Peers: their time over fastgrad's, formed in each round; above 1 fastgrad is faster. "
    "Everywhere: median (quartiles). An allocating call includes freeing its result.",
    "Errors: the largest over all elements, against float64. Float32 in units in the last place "
    "of the gradient or of the larger of its two terms, 16-bit in those of the result.",
    "Every contender runs in a process of its own with the same number of threads and the default "
    "waiting policy of its OpenMP; the next one starts when its threads are asleep.",
)


class Cell(NamedTuple):
    """Text, and whether it speaks for (`good`) or against (`bad`) fastgrad."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Table:
    """Something that both the terminal and Markdown can show."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def print_report(results: Results, console: Any) -> None:
    """Show `results` on a rich console."""
    text = require("rich.text")
    for line in _heading(results):
        console.print(text.Text(line), soft_wrap=True)
    for table in _tables(results):
        console.print()
        console.print(_rich_table(table))
    for note in _NOTES:
        console.print(text.Text(note, style="dim"))
    for title, code in _composed_code(results):
        console.print(text.Text(f"\n{title}"))
        console.print(text.Text(code, style="cyan"))


def markdown(results: Results) -> str:
    """The same as Markdown."""
    parts = ["# fastgrad beside its peers", "\n".join(f"- {line}" for line in _heading(results))]
    parts += [_markdown_table(table) for table in _tables(results)]
    parts += list(_NOTES)
    parts += [f"{title}\n\n```python\n{code}\n```" for title, code in _composed_code(results)]
    return "\n\n".join(parts) + "\n"


def _heading(results: Results) -> list[str]:
    machine, settings = results.machine, results.settings
    lines = [
        f"{machine['processor']}, {machine['processors']} processors, "
        f"{machine['last_level_cache'] >> 20} MiB last-level cache, "
        f"{machine['memory'] / 2**30:.0f} GiB; Python {machine['python']}",
        f"{settings['threads']} threads, {settings['rounds']} rounds, seed {settings['seed']}",
    ]
    if machine["busy"] > _BUSY:
        lines.append(
            f"busy: other processes used {machine['busy']:.0%} of the processors when the run "
            "began; repeat it on a quiet machine before trusting a number"
        )
    for name, versions in results.versions.items():
        found = ", ".join(f"{library} {version}" for library, version in versions.items())
        lines.append(f"{name}: {CONTENDERS[name].about} ({found})")
    lines += [f"missing: {name}: {reason}" for name, reason in results.missing.items()]
    bandwidths = {name: _bandwidth(results.rows, name) for name in results.versions}
    found = ", ".join(f"{name} {value:.1f} GB/s" for name, value in bandwidths.items() if value)
    return [*lines, f"streaming addition, the fastest of a round being the bound: {found}"]


def _bandwidth(rows: Sequence[Row], contender: str) -> float:
    """Median over all rounds, in GB/s; 0 for those who do not take part."""
    taken = [
        row.stream_bytes / seconds / 1e9
        for row in rows
        for seconds in row.stream_samples.get(contender, [])
    ]
    return spread(taken).median if taken else 0.0


def _tables(results: Results) -> list[Table]:
    tables = [
        _time_table(results),
        _error_table(results),
        _bytes_table(results),
        _startup_table(results),
        _failure_table(results),
        _verdict_table(judge(results)),
    ]
    return [table for table in tables if table.rows]


def _peers(results: Results) -> list[str]:
    return [name for name in results.versions if name != SELF]


def _time_table(results: Results) -> Table:
    peers = _peers(results)
    rows = [
        [
            *_labels(row),
            Cell(_MODES[row.case.mode]),
            Cell(_duration(row.milliseconds.get(SELF))),
            Cell(_spread(row.bound_multiple.get(SELF)) + ("*" if row.in_cache else "")),
            *(_ratio(row.ratios.get(peer)) for peer in peers),
        ]
        for row in results.rows
    ]
    columns = ["operator", "shape", "dtype", "mode", "time", "× bound"]
    return Table("Time", [*columns, *(f"{peer} ×" for peer in peers)], rows)


def _error_table(results: Results) -> Table:
    """The worst of each operator and dtype: errors hardly depend on the shape."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in results.rows:
        groups.setdefault((row.case.operator, row.case.dtype), []).append(row)
    rows = [
        [
            Cell(operator),
            Cell(dtype),
            *(
                Cell(_worst([row.accuracy[name] for row in group if name in row.accuracy]))
                for name in results.versions
            ),
        ]
        for (operator, dtype), group in groups.items()
    ]
    return Table("Largest error: ULP (absolute)", ["operator", "dtype", *results.versions], rows)


def _bytes_table(results: Results) -> Table:
    rows = [
        [*_labels(row), *(Cell(_megabytes(row.bytes_kept.get(name))) for name in results.versions)]
        for row in results.rows
        if row.bytes_kept
    ]
    columns = ["operator", "shape", "dtype", *results.versions]
    return Table("Kept between forward and backward", columns, rows)


def _startup_table(results: Results) -> Table:
    columns = ["import", "first call", "both", "whole process"]
    startup = results.startup
    if startup is None:
        return Table("", columns, [])
    spreads = (startup.imports, startup.first_call, startup.both, startup.process)
    return Table(
        "Second process: import and first call, seconds",
        columns,
        [[Cell(_spread(one)) for one in spreads]],
    )


def _failure_table(results: Results) -> Table:
    rows = [
        [*_labels(row), Cell(_MODES[row.case.mode]), Cell(name), Cell(reason, "bad")]
        for row in results.rows
        for name, reason in row.failures.items()
    ]
    return Table("Failed", ["operator", "shape", "dtype", "mode", "contender", "reason"], rows)


def _verdict_table(verdicts: Sequence[Verdict]) -> Table:
    tones = {"reached": "good", "missed": "bad"}
    rows = []
    for verdict in verdicts:
        target, seen = verdict.target, verdict.seen
        sign = "≤" if target.at_most else "≥"
        rows.append(
            [
                Cell(target.text),
                Cell(f"{sign} {target.must:g}"),
                Cell("" if target.aim is None else f"{sign} {target.aim:g}"),
                Cell("" if seen is None else f"{seen.value:.4g}"),
                Cell(verdict.state, tones.get(verdict.state, "")),
                Cell("" if seen is None else f"{seen.where} (worst of {verdict.count})"),
            ]
        )
    return Table("Numbers to reach", ["number", "must", "aim", "seen", "verdict", "where"], rows)


def _composed_code(results: Results) -> list[tuple[str, str]]:
    """The code behind the peer that is no library function, each once."""
    codes = {
        row.case.operator: row.code["composed"] for row in results.rows if "composed" in row.code
    }
    return [(f"composed, {operator}:", code) for operator, code in codes.items() if code]


def _labels(row: Row) -> list[Cell]:
    shape = "×".join(map(str, row.case.shape))
    return [Cell(row.case.operator), Cell(shape), Cell(row.case.dtype)]


def _spread(value: Spread | None) -> str:
    if value is None:
        return "–"
    return f"{_short(value.median)} ({_short(value.low)}–{_short(value.high)})"


def _duration(milliseconds: Spread | None) -> str:
    if milliseconds is None or milliseconds.median >= 1:
        return _spread(milliseconds) + " ms"
    parts = (milliseconds.median, milliseconds.low, milliseconds.high)
    return _spread(Spread(*(1e3 * part for part in parts))) + " µs"


def _ratio(value: Spread | None) -> Cell:
    tone = ""
    if value is not None and value.low > 1:
        tone = "good"
    elif value is not None and value.high < 1:
        tone = "bad"
    return Cell(_spread(value), tone)


def _short(value: float) -> str:
    """Three digits, whatever the size."""
    return f"{value:.0f}" if 100 <= value < 1e5 else f"{value:.3g}"


def _worst(errors: Sequence[Accuracy]) -> str:
    if not errors:
        return "–"
    ulp = max(error.ulp for error in errors)
    absolute = max(error.absolute for error in errors)
    return f"{_short(ulp)} ({absolute:.1e})"


def _megabytes(count: int | None) -> str:
    return "–" if count is None else f"{count / 1e6:.3g} MB"


def _rich_table(table: Table) -> Any:
    rich_table = require("rich.table")
    box = require("rich.box")
    shown = rich_table.Table(title=table.title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in table.columns:
        shown.add_column(column, overflow="fold")
    text = require("rich.text")
    styles = {"good": "green", "bad": "red", "": ""}
    for row in table.rows:
        shown.add_row(*(text.Text(cell.text, style=styles[cell.tone]) for cell in row))
    return shown


def _markdown_table(table: Table) -> str:
    lines = [
        f"## {table.title}\n",
        "| " + " | ".join(table.columns) + " |",
        "|" + "---|" * len(table.columns),
    ]
    for row in table.rows:
        lines.append("| " + " | ".join(cell.text.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines)
