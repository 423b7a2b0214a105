"""A run as tables: for the terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastgrad.bench.accuracy import Accuracy
from fastgrad.bench.articles import CLAIMS, Claim
from fastgrad.bench.contenders import CONTENDERS, SELF
from fastgrad.bench.extras import require
from fastgrad.bench.machine import BUSY
from fastgrad.bench.results import Results, Row
from fastgrad.bench.spread import spread
from fastgrad.bench.tables import (
    NOTHING,
    Cell,
    Table,
    duration,
    markdown_table,
    megabytes,
    rate,
    ratio_cell,
    rich_table,
    shape_text,
    short,
    with_spread,
)
from fastgrad.bench.target import Verdict
from fastgrad.bench.targets import judge
from fastgrad.bench.workloads import KERNELS

_MODES = {"out": "out=", "in-place": "in-place", "allocate": "allocating"}

# Bytes of a peak that are worth a row: calls that write into memory made before need a page or two.
_WORTH_A_ROW = 1 << 20

# Whose code is always shown: it is no function of a library.
_COMPOSED = "composed"

_NOTES = (
    "time: of a call of fastgrad. per second: samples, the first axis being the batch; elements of a "
    "flat array. × bound: time over that of as many bytes in the fastest float32 addition of the "
    "same round; * all arrays fit into the last-level cache, where that is no lower limit.",
    "Under a peer: its time over fastgrad's, formed in each round; above 1 fastgrad is faster. "
    "Everywhere: median ± half the distance of the quartiles. An allocating call includes freeing "
    "its result; who cannot write into memory made before (out=) returns a new array there too. "
    "–: does not take part.",
    "Errors: the largest over all elements, against float64. Float32 in units in the last place "
    "of the gradient or of the largest of its terms, 16-bit in those of the result; results of norms "
    "in those of the largest term always. The reference of float64 results is float64 too: its own "
    "errors count with theirs.",
    "Memory: the high-water mark of the process's resident set (VmHWM) in one call, results "
    "included, over what was there before it. Calls that take less than 1 MB with everyone are in "
    "the JSON alone. Beside the articles' claims: fastgrad's bytes over the peer's.",
    "compiled and autograd time a gradient over a forward that ran before, untimed, and kept for it what "
    "it wanted; the others start from the inputs. Gradients of norms take what a forward saved, which ran "
    "before, untimed: statistics with fastgrad and where aten has a kernel, else a graph of autograd; "
    "jax and mindspore compute it again. The peak of jax is what XLA planned for the call. Of sigmoid and "
    "tanh aten's kernels take the result instead of the input, of logsigmoid a buffer too; where aten has "
    "no kernel of a gradient torch runs autograd's graph of its own functions.",
    "Every contender runs in a process of its own with the same number of threads and the default "
    "waiting policy of its OpenMP; the next one starts when its threads are asleep.",
)


def print_report(results: Results, console: Any) -> None:
    """Show `results` on a rich console."""
    text = require("rich.text")
    for line in _heading(results):
        console.print(text.Text(line), soft_wrap=True)
    for table in _tables(results):
        print_table(table, console)
    for note in _NOTES:
        console.print(text.Text(note, style="dim"))
    codes = _codes(results)
    shown = codes if _is_of_one_operator(results) else [one for one in codes if _COMPOSED in one[0]]
    for title, code in shown:
        console.print(text.Text(f"\n{title}"))
        console.print(text.Text(code, style="cyan"))
    if len(shown) < len(codes):
        console.print(
            text.Text("\nThe code of the others: --markdown FILE, or --op of one operator")
        )


def print_table(table: Table, console: Any) -> None:
    """Show `table`, in parts where the console is too narrow."""
    for part in table.parts(console.width):
        console.print()
        console.print(rich_table(part))


def markdown(results: Results) -> str:
    """The same as Markdown."""
    parts = ["# fastgrad beside its peers", "\n".join(f"- {line}" for line in _heading(results))]
    parts += [markdown_table(table) for table in _tables(results)]
    parts += list(_NOTES)
    parts += [f"{title}\n\n```python\n{code}\n```" for title, code in _codes(results)]
    return "\n\n".join(parts) + "\n"


def machine_line(results: Results) -> str:
    machine = results.machine
    return (
        f"{machine['processor']}, {machine['processors']} processors, "
        f"{machine['last_level_cache'] >> 20} MiB last-level cache, "
        f"{machine['memory'] / 2**30:.0f} GiB; Python {machine['python']}"
    )


def versions_text(versions: dict[str, str]) -> str:
    return ", ".join(f"{library} {version}" for library, version in versions.items())


def _heading(results: Results) -> list[str]:
    machine, settings = results.machine, results.settings
    lines = [
        machine_line(results),
        f"{machine['date']}, commit {machine['commit'] or 'unknown'}; workload "
        f"{settings['workload']}, {settings['threads']} threads, {settings['rounds']} to "
        f"{settings['max_rounds']} rounds, seed {settings['seed']}",
    ]
    if settings["thinned"]:
        lines.append(
            f"peers beside {' and '.join(KERNELS)} are measured in some rows; in all of them with "
            "--workload full, --peers, --op, --shape or --dtype"
        )
    if machine["busy"] > BUSY:
        lines.append(
            f"busy: other processes used {machine['busy']:.0%} of the processors when the run "
            "began; repeat it on a quiet machine before trusting a number"
        )
    lines += [
        f"{name}: {about(name)} ({versions_text(versions)})"
        for name, versions in results.versions.items()
    ]
    lines += [f"missing: {name}: {reason}" for name, reason in results.missing.items()]
    bandwidths = {name: _bandwidth(results.rows, name) for name in results.versions}
    found = ", ".join(f"{name} {value:.1f} GB/s" for name, value in bandwidths.items() if value)
    return [*lines, f"streaming addition, the fastest of a round being the bound: {found}"]


def about(contender: str) -> str:
    known = CONTENDERS.get(contender)
    return known.about if known else "no longer known"


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
        *_time_tables(results),
        _error_table(results),
        _memory_table(results),
        article_table(results),
        _startup_table(results),
        _new_operator_table(results),
        _failure_table(results),
        verdict_table(judge(results)),
    ]
    return [table for table in tables if table.rows]


def _peers(results: Results) -> list[str]:
    return [name for name in results.versions if name != SELF]


def _time_tables(results: Results) -> Iterator[Table]:
    """One an operator, of those who take part in it."""
    peers = _peers(results)
    columns = ["shape", "dtype", "mode", "time", "per second", "× bound", *peers]
    for operator in dict.fromkeys(row.case.operator for row in results.rows):
        rows = [_time_row(row, peers) for row in results.rows if row.case.operator == operator]
        yield Table(operator, columns, rows, labels=3).with_values()


def _time_row(row: Row, peers: Sequence[str]) -> list[Cell]:
    multiple = with_spread(row.bound_multiple.get(SELF))
    return [
        *_labels(row)[1:],
        Cell(_MODES[row.case.mode]),
        Cell(duration(row.milliseconds.get(SELF))),
        Cell(rate(row.throughput.get(SELF))),
        Cell(multiple + ("*" if row.in_cache and multiple != NOTHING else "")),
        *(_peer_cell(row, peer) for peer in peers),
    ]


def _peer_cell(row: Row, peer: str) -> Cell:
    return Cell("failed", "bad") if peer in row.failures else ratio_cell(row.ratios.get(peer))


def _error_table(results: Results) -> Table:
    """The worst of each operator and dtype: errors hardly depend on the shape."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in results.rows:
        groups.setdefault((row.case.operator, row.case.dtype), []).append(row)
    rows = [
        [
            Cell(operator),
            Cell(dtype),
            *(Cell(worst_error(group, name)) for name in results.versions),
        ]
        for (operator, dtype), group in groups.items()
    ]
    columns = ["operator", "dtype", *results.versions]
    return Table("Largest error: ULP (absolute)", columns, rows, labels=2).with_values()


def worst_error(rows: Sequence[Row], contender: str) -> str:
    errors: list[Accuracy] = [row.accuracy[contender] for row in rows if contender in row.accuracy]
    if not errors:
        return NOTHING
    ulp = max(error.ulp for error in errors)
    absolute = max(error.absolute for error in errors)
    return f"{short(ulp)} ({absolute:.1e})"


def _memory_table(results: Results) -> Table:
    rows = [
        [
            *_labels(row),
            Cell(_MODES[row.case.mode]),
            *(Cell(_memory_text(row, name)) for name in results.versions),
        ]
        for row in results.rows
        if row.bytes_kept or max(row.peak_bytes.values(), default=0) >= _WORTH_A_ROW
    ]
    columns = ["operator", "shape", "dtype", "mode", *results.versions]
    title = "Memory of a call, MB: peak (kept between forward and backward)"
    return Table(title, columns, rows, labels=4).with_values()


def _memory_text(row: Row, contender: str) -> str:
    peak, kept = row.peak_bytes.get(contender), row.bytes_kept.get(contender)
    return megabytes(peak) if kept is None else f"{megabytes(peak)} ({megabytes(kept)})"


def article_table(results: Results) -> Table:
    """The articles' claims beside what was measured of them."""
    columns = ["claim", "shape", "dtype", "against"]
    columns += ["speed: article", "here", "memory: article", "bytes kept here", "peak here"]
    rows = [row for claim in CLAIMS for row in _claim_rows(claim, results)]
    return Table("The articles' claims against autodiff", columns, rows, labels=4, folds=True)


def _claim_rows(claim: Claim, results: Results) -> Iterator[list[Cell]]:
    speed = NOTHING if claim.speed is None else f"{claim.speed:.2f}"
    memory = NOTHING if claim.memory is None else f"{claim.memory:.2f}"
    if not claim.measurable:
        if results.settings["workload"] == "articles":
            labels = (claim.text, f"{len(claim.shapes)} shapes", claim.dtype)
            absent = f"{claim.operator} is not there yet: issue {claim.issue}"
            yield [Cell(text) for text in (*labels, absent, speed, "", memory, "", "")]
        return
    for row in results.rows:
        if claim.covers(row.case):
            for peer, ratio in row.ratios.items():
                yield [
                    *(Cell(claim.text), *_labels(row)[1:], Cell(peer)),
                    *(Cell(speed), ratio_cell(ratio), Cell(memory)),
                    Cell(_share_of(row.bytes_kept, peer)),
                    Cell(_share_of(row.peak_bytes, peer)),
                ]


def _share_of(counts: dict[str, int], peer: str) -> str:
    if not counts.get(peer) or SELF not in counts:
        return NOTHING
    return f"{counts[SELF] / counts[peer]:.2f}"


def _startup_table(results: Results) -> Table:
    columns = ["import", "first call", "both", "whole process"]
    startup = results.startup
    if startup is None:
        return Table("", columns, [])
    spreads = (startup.imports, startup.first_call, startup.both, startup.process)
    return Table(
        "Second process: import and first call, seconds",
        columns,
        [[Cell(with_spread(one)) for one in spreads]],
    )


def _new_operator_table(results: Results) -> Table:
    columns = ["forward", "backward", "both", "both, in the next process"]
    found = results.new_operator
    if found is None:
        return Table("", columns, [])
    spreads = (found.forward, found.backward, found.both, found.later)
    return Table(
        "A new operator in a fresh process, an empty cache: to its first results, seconds",
        columns,
        [[Cell(with_spread(one)) for one in spreads]],
    )


def _failure_table(results: Results) -> Table:
    rows = [
        [*_labels(row), Cell(_MODES[row.case.mode]), Cell(name), Cell(reason, "bad")]
        for row in results.rows
        for name, reason in row.failures.items()
    ]
    columns = ["operator", "shape", "dtype", "mode", "contender", "reason"]
    return Table("Failed", columns, rows, labels=4, folds=True)


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """What has to be reached, what was seen, and where."""
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
    columns = ["number", "must", "aim", "seen", "verdict", "where"]
    return Table("Numbers to reach", columns, rows, folds=True)


def _codes(results: Results) -> list[tuple[str, str]]:
    """What a user of each contender writes for an operator, in the first of its modes, and whose it is."""
    whose: dict[tuple[str, str], list[str]] = {}
    seen = set()
    for row in results.rows:
        for name, code in row.code.items():
            if (name, row.case.operator) not in seen:
                seen.add((name, row.case.operator))
                whose.setdefault((row.case.operator, code), []).append(name)
    return [(f"{operator}: {', '.join(names)}", code) for (operator, code), names in whose.items()]


def _is_of_one_operator(results: Results) -> bool:
    return len({row.case.operator for row in results.rows}) <= 1


def _labels(row: Row) -> list[Cell]:
    return [Cell(row.case.operator), Cell(shape_text(row.case.shape)), Cell(row.case.dtype)]
