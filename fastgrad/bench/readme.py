"""The section of the README that a run fills: `python -m fastgrad.bench.readme RUN.json`.

It stands between two comments, which a reader of the README does not see.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fastgrad.bench.contenders import SELF
from fastgrad.bench.report import (
    about,
    article_table,
    machine_line,
    versions_text,
    worst_error,
)
from fastgrad.bench.results import NoStoredRun, Results, Row, load
from fastgrad.bench.spread import spread
from fastgrad.bench.tables import NOTHING, Cell, Table, markdown_table, shape_text, short

BEGIN = "<!-- compare: begin. What follows is generated: make compare README=1 -->"
END = "<!-- compare: end -->"


class NoSection(Exception):
    """A file has no place for the section; the text says what it lacks."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 if the section was written."""
    parser = argparse.ArgumentParser(prog="fastgrad.bench.readme", description=__doc__)
    parser.add_argument("run", type=Path, help="what `compare --json` stored")
    parser.add_argument("readme", type=Path, nargs="?", default=Path("README.md"))
    options = parser.parse_args(arguments)
    try:
        write_section(load(options.run), options.readme)
    except (NoStoredRun, NoSection) as reason:
        print(f"readme: {reason}", file=sys.stderr)
        return 1
    return 0


def write_section(results: Results, file: Path) -> None:
    """Put `results` between the two comments of `file`.

    Raises
    ------
    NoSection
        If it does not hold both, in this order.
    """
    before, after = around_section(file)
    file.write_text(f"{before}{BEGIN}\n\n{section(results)}\n{END}{after}")


def around_section(file: Path) -> tuple[str, str]:
    """The text before and after the section."""
    try:
        text = file.read_text()
    except OSError as error:
        raise NoSection(f"{file}: {error.strerror}") from None
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoSection(f"{file} lacks the lines {BEGIN!r} and {END!r}")
    return before, after


def section(results: Results) -> str:
    """The run in short: what it was made of, an operator and dtype a line, and what is behind."""
    parts = [
        "\n".join(_made_of(results)),
        *(markdown_table(table, heading="###") for table in _tables(results)),
        _READ_THIS,
        *_articles(results),
        "### Where fastgrad is behind\n\n" + "\n".join(_behind(results)),
    ]
    return "\n\n".join(parts) + "\n"


_READ_THIS = (
    "Under a peer: its time over fastgrad's, above 1 fastgrad is faster: the median over all sizes and "
    "modes that were measured, and the least and the largest of them. × bound: time over that of the "
    "bytes in a streaming addition, of arrays beyond the cache. Error: the largest, in units in the "
    "last place (and absolute), against float64. –: does not take part."
)


def _made_of(results: Results) -> Iterator[str]:
    machine, settings = results.machine, results.settings
    yield (
        f"`make compare` on {machine['date']}, commit {machine['commit'] or 'unknown'}: "
        f"{machine_line(results)}; {settings['threads']} threads each, workload "
        f"`{settings['workload']}`, {len(results.rows)} rows.\n"
    )
    for name, versions in results.versions.items():
        yield f"- {name}: {about(name)} ({versions_text(versions)})"
    for name, reason in results.missing.items():
        yield f"- {name}: **missing**: {reason}"


def _tables(results: Results) -> list[Table]:
    """One table for all operators that the same peers take part in."""
    operators: dict[tuple[str, ...], list[str]] = {}
    for operator in dict.fromkeys(row.case.operator for row in results.rows):
        rows = [row for row in results.rows if row.case.operator == operator]
        peers = tuple(name for name in results.versions if any(name in row.ratios for row in rows))
        operators.setdefault(peers, []).append(operator)
    return [_table(results, peers, together) for peers, together in operators.items()]


def _table(results: Results, peers: Sequence[str], operators: Sequence[str]) -> Table:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in results.rows:
        if row.case.operator in operators:
            groups.setdefault((row.case.operator, row.case.dtype), []).append(row)
    rows = [
        [
            Cell(operator),
            Cell(dtype),
            Cell(_bound_multiple(group)),
            *(Cell(_ratio(group, peer)) for peer in peers),
            Cell(worst_error(group, SELF)),
        ]
        for (operator, dtype), group in groups.items()
    ]
    columns = ["operator", "dtype", "× bound", *peers, "error of fastgrad"]
    return Table(", ".join(operators), columns, rows, labels=2)


def _bound_multiple(rows: Sequence[Row]) -> str:
    beyond_cache = [row for row in rows if not row.in_cache and SELF in row.bound_multiple]
    return _over_rows([row.bound_multiple[SELF].median for row in beyond_cache])


def _ratio(rows: Sequence[Row], peer: str) -> str:
    return _over_rows([row.ratios[peer].median for row in rows if peer in row.ratios])


def _over_rows(values: Sequence[float]) -> str:
    if not values:
        return NOTHING
    if len(values) == 1:
        return short(values[0])
    return f"{short(spread(values).median)} ({short(min(values))}–{short(max(values))})"


def _articles(results: Results) -> list[str]:
    table = article_table(results)
    return [markdown_table(table, heading="###")] if table.rows else []


def _behind(results: Results) -> Iterator[str]:
    """Of each operator, dtype and peer the rows whose median is below 1: how many, and the worst."""
    rows_of: dict[tuple[str, str, str], list[Row]] = {}
    for row in results.rows:
        for peer in row.ratios:
            rows_of.setdefault((row.case.operator, row.case.dtype, peer), []).append(row)
    found = False
    for (operator, dtype, peer), rows in rows_of.items():
        behind = [row for row in rows if row.ratios[peer].median < 1]
        if behind:
            found = True
            yield f"- {operator}, {dtype}, against {peer}: {_how_far(behind, len(rows), peer)}"
    if not rows_of:
        yield "Nothing was compared."
    elif not found:
        yield "Nowhere in this run."
    failed = sorted({name for row in results.rows for name in row.failures})
    if failed:
        yield f"- failed in some rows, which are left out above: {', '.join(failed)}"


def _how_far(behind: Sequence[Row], measured: int, peer: str) -> str:
    """The number of rows behind, the worst of them, and how many of them the noise may explain."""
    worst = min(behind, key=lambda row: row.ratios[peer].median)
    mode = "" if worst.case.mode == "out" else f" {worst.case.mode}"
    least = f"{short(worst.ratios[peer].median)} at {shape_text(worst.case.shape)}{mode}"
    unsure = sum(row.ratios[peer].high >= 1 for row in behind)
    noise = f", in {unsure} of them within the quartiles" if unsure else ""
    return f"{len(behind)} of {measured} rows, the worst {least}{noise}"


if __name__ == "__main__":
    sys.exit(main())
