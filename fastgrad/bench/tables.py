"""Tables that both the terminal and Markdown can show, and how their numbers are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fastgrad.bench.extras import require
from fastgrad.bench.spread import Spread

#: What stands where there is nothing to show.
NOTHING = "–"

_STYLES = {"good": "green", "bad": "red", "": ""}

# Characters that a rich table adds to each column and at its edges.
_PADDING = 3
_EDGES = 2


class Cell(NamedTuple):
    """Text, and whether it speaks for (`good`) or against (`bad`) fastgrad."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under a title.

    Parameters
    ----------
    labels : int
        The leading columns that say what a row is; they are repeated in each part of a table that
        is too wide.
    folds : bool
        Its cells are text, which may be folded instead.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    labels: int = 1
    folds: bool = False

    def with_values(self) -> Table:
        """Without the columns that are empty in all rows."""
        kept = [
            index
            for index in range(len(self.columns))
            if index < self.labels or any(row[index].text != NOTHING for row in self.rows)
        ]
        return self._only(self.title, kept)

    def parts(self, width: int) -> list[Table]:
        """This table, in as many parts as it takes for each to fit into `width` characters."""
        widths = [self._width(index) for index in range(len(self.columns))]
        room = max(0, width - _EDGES - sum(widths[: self.labels]))
        values = widths[self.labels :]
        chunks = _chunks(values, room)
        if self.folds or len(chunks) == 1:
            return [self]
        # As narrow as that number of parts may be, so that the last one does not hold a single column.
        narrow = next(room for room in range(room + 1) if len(_chunks(values, room)) <= len(chunks))
        labels = list(range(self.labels))
        return [
            self._only(
                f"{self.title} ({number} of {len(chunks)})",
                labels + [self.labels + index for index in chunk],
            )._with_filled_rows()
            for number, chunk in enumerate(_chunks(values, narrow), 1)
        ]

    def _with_filled_rows(self) -> Table:
        filled = [row for row in self.rows if any(c.text != NOTHING for c in row[self.labels :])]
        return replace(self, rows=filled)

    def _width(self, index: int) -> int:
        texts = [self.columns[index], *(row[index].text for row in self.rows)]
        return _PADDING + max(len(line) for text in texts for line in text.split("\n"))

    def _only(self, title: str, indices: Sequence[int]) -> Table:
        columns = [self.columns[index] for index in indices]
        rows = [[row[index] for index in indices] for row in self.rows]
        return replace(self, title=title, columns=columns, rows=rows)


def _chunks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Indices of columns, in order, that fit into `room` together; one that does not stands alone."""
    chunks: list[list[int]] = [[]]
    left = room
    for index, width in enumerate(widths):
        if chunks[-1] and width > left:
            chunks.append([])
            left = room
        chunks[-1].append(index)
        left -= width
    return chunks


def rich_table(table: Table) -> Any:
    """For a rich console."""
    rich = require("rich.table")
    text = require("rich.text")
    shown = rich.Table(title=table.title, title_justify="left", box=require("rich.box").SIMPLE_HEAD)
    for column in table.columns:
        shown.add_column(column, overflow="fold")
    for row in table.rows:
        shown.add_row(*(text.Text(cell.text, style=_STYLES[cell.tone]) for cell in row))
    return shown


def markdown_table(table: Table, heading: str = "##") -> str:
    """With its title as a heading."""
    lines = [
        f"{heading} {table.title}\n",
        "| " + " | ".join(table.columns) + " |",
        "|" + "---|" * len(table.columns),
    ]
    lines += [
        "| " + " | ".join(_in_markdown(cell.text) for cell in row) + " |" for row in table.rows
    ]
    return "\n".join(lines)


def _in_markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")


def short(value: float) -> str:
    """Three digits, whatever the size."""
    return f"{value:.0f}" if 100 <= value < 1e5 else f"{value:.3g}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.0095 else f"{100 * share:.0f} %"


def with_spread(value: Spread | None, unit: str = "") -> str:
    """Median, and half the distance of the quartiles as a share of it."""
    if value is None:
        return NOTHING
    return f"{short(value.median)}{unit} ±{percent(value.share)}"


def duration(milliseconds: Spread | None) -> str:
    if milliseconds is None or milliseconds.median >= 1:
        return with_spread(milliseconds, " ms")
    parts = (milliseconds.median, milliseconds.low, milliseconds.high)
    return with_spread(Spread(*(1e3 * part for part in parts)), " µs")


def rate(value: Spread | None) -> str:
    """A number in a second, with a prefix."""
    if value is None:
        return NOTHING
    for size, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value.median >= size:
            return f"{short(value.median / size)}{prefix}"
    return short(value.median)


def ratio_cell(value: Spread | None) -> Cell:
    """Coloured where its quartiles are on one side of 1."""
    tone = ""
    if value is not None and value.low > 1:
        tone = "good"
    elif value is not None and value.high < 1:
        tone = "bad"
    return Cell(with_spread(value), tone)


def megabytes(count: int | None) -> str:
    if count is None:
        return NOTHING
    return short(count / 1e6) if count >= 1e6 else f"{count / 1e6:.2f}"


def shape_text(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))
