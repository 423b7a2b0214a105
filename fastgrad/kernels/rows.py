"""The walk over rows: as many passes over a row as its reductions need, then the next row.

A row is `length` lanes in logical order: the trailing axes of a layer norm, the channels and places of one
group of a group norm. Passes: those of the program, each over the whole row, which stays in the cache
between them. Buffers: one tile of `CHUNK` elements for each operand that is gathered and each result that is
staged (with five, 2048 · 5 · 8 bytes = 80 KB), and the sums. Traffic: operands and results once where a row
fits into the cache, else operands once a pass.

Sums are taken over a chunk, over a piece of chunks, and over the pieces of a row, in this order: the bits of
a row depend on its length and channels alone. Few long rows are split: every pass is a launch of its own over
the pieces of all rows, whose sums the next one puts together, with the same bits.

The gradient of a channel is summed by blocks of rows that are as few as the shape says, and then over these.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .buffers import carved
from .template import Fields, constants, local_name

if TYPE_CHECKING:
    from ..program.row_emit import Pass, RowText

__all__ = ["CHUNK", "source"]

#: Elements that are summed at a time, and the size of a tile.
CHUNK = 2048
#: Lanes that are summed in the compute dtype, in many partial sums; what they give is summed in float64.
SUMMED = 512

#: Lanes of a strip, and those of all rows that go through one together: about what the second-level cache
#: holds of two operands.
_STRIP, _TOGETHER = 2048, 1 << 16

_TILES = '''

@kernel("{types}")
def tiles({arguments}):
    """All passes over the rows `lo` to `hi`."""
{start}
{rows}
    store_fence()
    return True
'''

_PIECES = '''

@kernel("{types}")
def pieces({arguments}):
    """The pass `per_unit` over the pieces `lo` to `hi` of all rows; after the last, the rows' own results."""
{start}
    if per_unit == PASSES:
        for row in range(lo, hi):
{per_row_in_piece}
{finish}
{row_results_in_piece}
        return True
    for unit in range(lo * per_partial, hi * per_partial):
{unit}
        origin = row * length
        offset = row % row_groups * (length // inner)
{per_row}
{split}
    store_fence()
    return True
'''


def source(text: RowText, of_pieces: RowText, fields: Fields) -> str:
    """The text of `tiles` and `pieces`.

    Parameters
    ----------
    text, of_pieces : RowText
        Their passes: those of `pieces` keep no values between them.
    fields : Fields
        Operands, results, channel sums (`sums`) and numbers of the program.
    """
    sizes = [
        f"CHUNK, SUMMED, PASSES, STRIP = {CHUNK}, {SUMMED}, {len(text.passes)}, {_STRIP}\n",
    ]
    walks = [_Source(text, fields).tiles(), _Source(of_pieces, fields).pieces()]
    return "".join([constants(), *sizes, *walks])


class _Source:
    """Puts the text of a walk together."""

    def __init__(self, text: RowText, fields: Fields):
        self._text, self._fields = text, fields
        program, precision = text.program, text.precision
        self._channels = [local_name(name) for name in program.channels]
        self._sums = [name for name, _ in fields.sums]
        self._per_row = [local_name(name) for name in program.per_row]
        self._row_results = [local_name(r.name) for r in program.results if r.kind == "row"]
        self._numbers = [local_name(name) for name in program.numbers]
        self._kind = precision.compute

    def _piece(self, own: Pass) -> list[str]:
        """A pass over the lanes `begin` to `end` of a row, tile by tile."""
        is_last = own is self._text.passes[-1]
        fields = self._fields if is_last else Fields(self._fields.operands, (), (), ())
        by_run = self._text.by_run
        by_channel = by_run and own.reads_channels
        if by_run:
            tiles = [f"{name}_t = {name}[offset + channel]" for name in self._channels]
            tiles += [f"{name}_f = f({name}_t)" for name in self._channels]
        else:
            tiles = [f"{name}_t = window({name}, offset + position, m)" for name in self._channels]
            tiles += [f"{name}_t = window(ub_{name}, offset + position, m)" for name in self._sums]
        # Rows that go through the last pass together have a part of the buffer each.
        kept_at = "(row - first_row) * length + position" if self._has_strips else "position"
        tiles += [f"{name}_t = window(ub_{name}, {kept_at}, m)" for name in self._text.kept_names]
        tiles_in = fields.tiles_in(0, named=True).rstrip("\n").split("\n")
        run = "run" if by_channel else "span"
        start = [f"run_end = (begin // {run} + 1) * {run}"]
        to_next = ["if position == run_end:", f"    run_end += {run}"]
        if by_channel:
            start.append("channel = begin // inner")
            to_next.append("    channel = position // inner")
        return [
            *(f"{name}_p = 0.0" for name in own.totals),
            "position = begin",
            *(start if by_run else []),
            "while position < end:",
            f"    m = min(CHUNK, {'min(end, run_end)' if by_run else 'end'} - position)",
            "    start = origin + position",
            *_indented([*_needed([*tiles_in, *tiles], own.tile), *own.tile]),
            *_indented(fields.tiles_out(0).rstrip("\n").split("\n")),
            "    position += m",
            *_indented(to_next if by_run else []),
        ]

    def tiles(self) -> str:
        """The walk over whole rows."""
        rows = self._by_strips() if self._has_strips else self._by_rows()
        size = "together * length" if self._has_strips else "length"
        buffers = [(f"ub_{name}", self._kind, size) for name in self._text.kept_names]
        return _TILES.format(**self._common(buffers), rows=_lines(4, rows))

    def pieces(self) -> str:
        """The walk over pieces of rows."""
        return _PIECES.format(
            **self._common([]),
            per_row=_lines(8, self._row_operands),
            per_row_in_piece=_lines(12, self._row_operands),
            unit=_lines(8, _UNITS_BY_RUN if self._text.by_run else _UNITS_BY_LANE),
            split=_lines(8, self._split()),
            finish=_lines(12, self._combined(len(self._text.passes)) or ["pass"]),
            row_results_in_piece=_lines(12, self._text.row_results),
        )

    @property
    def _row_operands(self) -> list[str]:
        return [f"{name} = {name}_rows[row]" for name in self._per_row]

    def _common(self, more_buffers: Sequence[tuple[str, str, str]]) -> dict[str, str]:
        """Signature and start of both walks."""
        signature = [
            *((name, "int64") for name in _INTEGERS),
            ("shape", "int64[::1]"),
            ("layouts", "int64[:, ::1]"),
            *(
                (name, f"{kind}[::1]")
                for name, kind in (*self._fields.operands, *self._fields.results)
            ),
            *((name, f"{self._kind}[::1]") for name in self._channels),
            *((f"{name}_rows", "float64[::1]") for name in (*self._per_row, *self._row_results)),
            *((name, "float64[::1]") for name in self._sums),
            ("piece_sums", "float64[:, ::1]"),
            *((name, "float64") for name in self._numbers),
        ]
        arrays = [name for name, kind in signature if "[" in kind]
        # Those first that loops write to: their places are chosen best.
        sums = [] if self._text.by_run else [f"ub_{name}" for name in self._sums]
        buffers = [(name, self._kind, "channels") for name in sums]
        buffers += [
            (f"ub_{name}", kind, "min(CHUNK, length)")
            for name, kind in (*self._fields.results, *self._fields.operands)
        ]
        borrowed = [f"{name} = borrowed({name})" for name in arrays]
        cleared = [f"{name}[:] = 0" for name in sums]
        start = [
            *borrowed,
            *self._fields.layouts(),
            *_START,
            *carved([*buffers, *more_buffers]),
            *cleared,
        ]
        return {
            "types": ", ".join(kind for _, kind in signature),
            "arguments": ", ".join(name for name, _ in signature),
            "start": _lines(4, start),
        }

    def _flushed(self, when: str, start: str, lanes: str) -> list[str]:
        """After some rows these go to the sums, which are float64."""
        if self._text.by_run or not self._sums:
            return []
        calls = [f"    flush({name}, {start}, ub_{name}, {lanes})" for name in self._sums]
        return [f"if {when}:", *calls]

    def _by_rows(self) -> list[str]:
        """All passes over one row, then the next."""
        flushed = self._flushed(_AFTER_ROWS, "partial * channels", "0, channels")
        return [
            "for row in range(lo * per_unit, min(rows, hi * per_unit)):",
            *_indented([*_ROW, "partial = row // per_partial", *self._row_operands]),
            *_indented([*self._passes(self._text.passes), *self._text.last.before]),
            *_indented([*self._text.row_results, *flushed]),
        ]

    @property
    def _has_strips(self) -> bool:
        """Whether the last pass goes through some rows together, a strip of lanes at a time.

        So the sums of a strip's channels, and its parameters, stay in the first-level cache.
        """
        return bool(self._sums) and not self._text.by_run and not self._text.passes[-1].totals

    def _by_strips(self) -> list[str]:
        """All passes but the last over each of some rows; then the last, strip by strip, over all of them."""
        *passes, last = self._text.passes
        kept = [f"row_numbers[row - first_row, {k}]" for k in range(len(last.reads))]
        save = [f"{own} = {name}" for own, name in zip(kept, last.reads, strict=True)]
        load = [f"{name} = {own}" for own, name in zip(kept, last.reads, strict=True)]
        return [
            f"row_numbers = np.empty((together, {max(len(kept), 1)}))",
            "next_row = lo * per_unit",
            "while next_row < min(rows, hi * per_unit):",
            "    first_row = next_row",
            "    next_row = min(first_row + together, rows, (first_row // per_unit + 1) * per_unit)",
            "    partial = first_row // per_partial",
            "    for row in range(first_row, next_row):",
            *_indented(_indented([*_ROW, *self._row_operands, *self._passes(passes)])),
            *_indented(_indented([*last.before, *save, *self._text.row_results])),
            "    for begin in range(0, length, STRIP):",
            "        end = min(begin + STRIP, length)",
            "        for row in range(first_row, next_row):",
            *_indented(_indented(_indented([*_ROW, *load, *last.numbers, *self._piece(last)]))),
            *_indented(self._flushed(_AFTER_BLOCK, "partial * channels", "0, channels")),
        ]

    def _passes(self, passes: Sequence[Pass]) -> list[str]:
        """Passes over a whole row."""
        lines: list[str] = []
        for own in passes:
            lines += [*own.before, *own.numbers]
            lines += [f"{name} = 0.0" for name in own.totals]
            lines += [
                "for piece in range(count):",
                "    begin, end = bounds(piece, block, parts, part, length)",
            ]
            lines += _indented([*self._piece(own), *_merge(own, _of_piece)])
            lines += own.after
        return lines

    def _split(self) -> list[str]:
        """The pass `per_unit` over one piece."""
        lines: list[str] = []
        for index, own in enumerate(self._text.passes):
            column = self._column(index)
            lines += [*own.before, f"if per_unit == {index}:"]
            lines.append("    begin, end = bounds(piece, block, parts, part, length)")
            lines += _indented([*own.numbers, *self._piece(own)])
            lines += [
                f"    piece_sums[row * count + piece, {column + k}] = {name}_p"
                for k, name in enumerate(own.totals)
            ]
            if own.reads_channels:
                lines += _indented(self._flushed(_AFTER_ROWS_OF_A_PIECE, "0", _LANES_OF_A_PIECE))
            lines.append("    continue")
            if index < len(self._text.passes) - 1:
                lines += self._sums_of(index, own)
        return lines

    def _combined(self, passes: int) -> list[str]:
        """The numbers of a row once all of its pieces have been through all passes."""
        lines: list[str] = []
        for index, own in enumerate(self._text.passes[:passes]):
            lines += [*own.before, *self._sums_of(index, own)]
        return [*lines, *self._text.last.before]

    def _sums_of(self, index: int, own: Pass) -> list[str]:
        column = self._column(index)
        lines = [f"{name} = 0.0" for name in own.totals]
        if own.totals:
            lines += [
                "for other in range(count):",
                "    begin, end = bounds(other, block, parts, part, length)",
            ]
            stored = {
                name: f"piece_sums[row * count + other, {column + k}]"
                for k, name in enumerate(own.totals)
            }
            lines += _indented(_merge(own, stored.__getitem__))
        return [*lines, *own.after]

    def _column(self, index: int) -> int:
        return sum(len(own.totals) for own in self._text.passes[:index])


_INTEGERS = (
    *("lo", "hi", "rows", "per_unit", "length", "inner", "run", "span", "row_groups", "channels"),
    *("per_partial", "block", "parts", "part", "store"),
)


#: Rows whose channel gradients are added up in the compute dtype, each channel in a lane of its own.
_ADDED_ROWS = 16
_AFTER_BLOCK = f"next_row % per_unit % {_ADDED_ROWS} == 0 or next_row == rows"
_AFTER_ROWS = (
    f"(row + 1) % ({_ADDED_ROWS} * row_groups) == 0 or (row + 1) % per_unit == 0 or row + 1 == rows"
)
_AFTER_ROWS_OF_A_PIECE = f"row_groups > 1 or (row + 1) % {_ADDED_ROWS} == 0 or row + 1 == rows"
_LANES_OF_A_PIECE = "offset + begin, offset + end"

#: What unit of a split launch is which piece of which row, and where its channels are summed. By lane a
#: piece of all rows is one core's work, as they have the same channels.
_UNITS_BY_RUN = (
    "row = unit // count",
    "piece = unit % count",
    "partial = row * parts + piece % parts",
)
_UNITS_BY_LANE = ("row = unit % rows", "piece = unit // rows", "partial = 0")

#: Where a row begins, and which channels it has.
_ROW = ("origin = row * length", "offset = row % row_groups * (length // inner)")

_START = (
    "row_length = np.float64(length)",
    "count = (length + block - 1) // block * parts",
    "together = 1",
    f"while together < {_ADDED_ROWS} and 2 * together * length <= {_TOGETHER}:",
    "    together *= 2",
)


def _needed(tiles: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Those lines that name a tile, or a number of a channel, which `lines` or one of them reads."""
    needed: list[str] = []
    for line in reversed(tiles):
        name, _, _ = line.partition(" = ")
        if (
            line.startswith(" ")
            or not name.endswith(("_t", "_f"))
            or any(re.search(rf"\b{name}\b", other) for other in (*needed, *lines))
        ):
            needed.insert(0, line)
    return needed


def _of_piece(name: str) -> str:
    return f"{name}_p"


def _merge(own: Pass, piece: Callable[[str], str]) -> list[str]:
    """Lines that add the totals of a piece, found by name, to those of the row."""
    lines = [f"{name} += {piece(name)}" for name in own.sums]
    for mean, squares in own.moments:
        more = f"end - begin, {piece(mean)}, {piece(squares)}"
        lines.append(f"{mean}, {squares} = merge_moments(begin, {mean}, {squares}, {more})")
    return lines


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines if line]


def _lines(indent: int, lines: Sequence[str]) -> str:
    return textwrap.indent("\n".join(lines), " " * indent)
