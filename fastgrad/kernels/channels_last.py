"""The walk over items whose channels are the last axis: line by line, all channels of a line at once.

A row is one group of channels of an item, as in `rows`; its lines lie apart, so all rows of an item are
walked together. Passes: those of the program, over pieces of an item, in blocks of lines. Buffers: a block
for each operand that is gathered and each result that is staged (`_BLOCK_LANES` elements: with three,
200 KB), and for each number of a row, and each sum, a vector with an element a channel. Traffic: operands and
results once where an item fits into the cache, else operands once a pass.

A channel is summed over a block in the compute dtype, over the blocks of a piece in float64, then over the
channels of a row, then over the pieces: the bits depend on the shape alone. They are not those of
channels that come first, whose sums run along a channel.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .buffers import carved
from .template import Fields, constants, local_name

if TYPE_CHECKING:
    from ..program.row_emit import Pass, RowText

__all__ = ["channels_last_source"]

#: Elements of a block of lines, and lines whose sums stay in the compute dtype, at most.
_BLOCK_LANES, _BLOCK_LINES = 16384, 32

_WALK = '''

@kernel("{types}")
def tiles({arguments}):
    """The stage `stage` over these units, or all stages over these items if it is negative.

    Each pass has two: over the pieces of all items, and over the items, whose sums it puts together.
    """
{start}
    for unit in range(lo * per_unit, min(units, hi * per_unit)):
        for own in range(max(stage, 0), 2 * PASSES if stage < 0 else stage + 1):
            is_alone = stage >= 0 and own % 2 == 0
            item = unit // pieces if is_alone else unit
            first_piece = unit % pieces if is_alone else 0
            last_piece = first_piece + 1 if is_alone else pieces
            partial = unit // per_unit
{stages}
    store_fence()
    return True
'''

_INTEGERS = (
    *(
        "lo",
        "hi",
        "stage",
        "units",
        "per_unit",
        "lines",
        "groups",
        "per_group",
        "pieces",
        "piece_lines",
    ),
    "store",
)

_START = (
    "channels = groups * per_group",
    f"block = max(1, min({_BLOCK_LINES}, {_BLOCK_LANES} // channels))",
    "row_length = np.float64(lines) * np.float64(per_group)",
)


def channels_last_source(text: RowText, fields: Fields) -> str:
    """The text of the kernel.

    Parameters
    ----------
    text : RowText
        The passes, with the loops of `ChannelLanes`.
    fields : Fields
        Operands, results, channel sums and numbers of the program.
    """
    return "".join([constants(), f"PASSES = {len(text.passes)}\n", _Source(text, fields).text()])


class _Source:
    """Puts the text together."""

    def __init__(self, text: RowText, fields: Fields):
        self._text, self._fields = text, fields
        program = text.program
        self._channels = [local_name(name) for name in program.channels]
        self._sums = [name for name, _ in fields.sums]
        self._per_row = [local_name(name) for name in program.per_row]
        self._row_results = [local_name(r.name) for r in program.results if r.kind == "row"]
        self._numbers = [local_name(name) for name in program.numbers]
        self._kind = text.precision.compute

    def text(self) -> str:
        """The kernel."""
        signature = self._signature()
        stages: list[str] = []
        for index, own in enumerate(self._text.passes):
            stages += [f"if own == {2 * index}:", *_indented(self._pass(index, own))]
            stages += [f"if own == {2 * index + 1}:", *_indented(self._combined(index, own))]
        arrays = [name for name, kind in signature if "[" in kind]
        start = [
            *(f"{name} = borrowed({name})" for name in arrays),
            *self._fields.layouts(),
            *_START,
            *self._buffers(),
        ]
        return _WALK.format(
            types=", ".join(kind for _, kind in signature),
            arguments=", ".join(name for name, _ in signature),
            start=_lines(4, start),
            stages=_lines(12, stages),
        )

    def _signature(self) -> list[tuple[str, str]]:
        fields = (*self._fields.operands, *self._fields.results)
        return [
            *((name, "int64") for name in _INTEGERS),
            ("shape", "int64[::1]"),
            ("layouts", "int64[:, ::1]"),
            *((name, f"{kind}[::1]") for name, kind in fields),
            *((name, f"{self._kind}[::1]") for name in self._channels),
            *((f"{name}_rows", "float64[::1]") for name in (*self._per_row, *self._row_results)),
            *((name, "float64[::1]") for name in self._sums),
            ("piece_sums", "float64[:, ::1]"),
            ("row_sums", "float64[:, ::1]"),
            *((name, "float64") for name in self._numbers),
        ]

    def _buffers(self) -> list[str]:
        """Blocks of operands and results, and vectors of an element a channel."""
        passes = self._text.passes
        fields = (*self._fields.operands, *self._fields.results)
        narrow = {f"{name}_v" for own in passes for name in own.reads}
        narrow |= {f"{name}_lo_v" for own in passes for name in own.in_two}
        sums = {name: squared for own in passes for name, squared in own.accumulators.items()}
        narrow |= {f"{name}_l" for name, squared in sums.items() if not squared}
        wide = {f"{name}_v" for name in sums}
        if any(own.moments for own in passes):
            wide |= {"about_l", "shift_l", "squares_l"}
        wide |= {f"{name}_v" for own in passes for pair in own.moments for name in pair}
        own = [
            *((name, self._kind) for name in sorted(narrow)),
            *((name, "float64") for name in sorted(wide)),
        ]
        vectors = [(name, kind, "channels") for name, kind in own]
        blocks = [(f"ub_{name}", kind, "block * channels") for name, kind in fields]
        return [*carved(blocks, vectors), *(f"{name}[:] = 0" for name, _ in own)]

    # --- A pass over pieces

    def _pass(self, index: int, own: Pass) -> list[str]:
        is_last = index == len(self._text.passes) - 1
        fields = self._fields if is_last else Fields(self._fields.operands, (), (), ())
        tiles_in = _needed(fields.tiles_in(0, named=True).rstrip("\n").split("\n"), own.tile)
        tiles_out = fields.tiles_out(0).rstrip("\n").split("\n")
        names = [name for name, _ in (*fields.operands, *fields.results)]
        used = [name for name in names if any(f"{name}_b" in line for line in own.tile)]
        cleared = [f"{name}_v" for name in own.accumulators]
        cleared += [f"{name}_v" for pair in own.moments for name in pair]
        return [
            *self._vectors(index, own),
            "for piece in range(first_piece, last_piece):",
            *_indented(
                [
                    "begin = piece * piece_lines",
                    "end = min(begin + piece_lines, lines)",
                    *(f"{name}[:] = 0.0" for name in cleared),
                    "for position in range(begin, end, block):",
                    "    count = min(block, end - position)",
                    "    start = (item * lines + position) * channels",
                    "    m = count * channels",
                    *_indented(tiles_in),
                    *(f"    {name}_b = {name}_t" for name in used),
                    *_indented(own.tile),
                    *(f"    {name}_t = {name}_b" for name in used),
                    *_indented(tiles_out),
                    *_indented(_flushes(own)),
                    *self._used(index, own),
                ]
            ),
        ]

    def _vectors(self, index: int, own: Pass) -> list[str]:
        """Numbers of the rows, each spread over the channels of its row."""
        spread = []
        for name in own.reads:
            spread.append(f"{name}_v[channel] = {name}_f")
            if name in own.in_two:
                spread.append(f"{name}_lo_v[channel] = {name}_lo")
        if not spread:
            return []
        return [
            "for group in range(groups):",
            *_indented([*self._scalars(index), *own.numbers]),
            "    for channel in range(group * per_group, (group + 1) * per_group):",
            *_indented(_indented(spread)),
        ]

    def _scalars(self, index: int) -> list[str]:
        """The numbers of a row that are known when pass `index` begins."""
        lines = ["row = item * groups + group"]
        lines += [f"{name} = {name}_rows[row]" for name in self._per_row]
        for k, own in enumerate(self._text.passes[: index + 1]):
            lines += own.before
            if k < index:
                lines += self._totals(k, "row_sums[row, {}]") + own.after
        return lines

    def _totals(self, index: int, where: str) -> list[str]:
        column = self._column(index)
        names = self._text.passes[index].totals
        return [f"{name} = {where.format(column + k)}" for k, name in enumerate(names)]

    def _used(self, index: int, own: Pass) -> list[str]:
        """What the sums of the channels are for: totals of the rows, and gradients of the channels."""
        if not (own.uses or own.moments):
            return []
        uses = [f"{name} = {name}_v[channel]" for name in own.accumulators]
        tiles = [f"{name}_t = {name}[channel]" for name in self._channels]
        uses += [line for line in tiles if any(line.split(" = ")[0] in use for use in own.uses)]
        uses += [re.sub(r"offset \+ channel", "channel", line) for line in own.uses]
        for mean, squares in own.moments:
            more = f"end - begin, {mean}_v[channel], {squares}_v[channel]"
            so_far = "(channel - group * per_group) * (end - begin)"
            uses.append(
                f"{mean}_p, {squares}_p = merge_moments({so_far}, {mean}_p, {squares}_p, {more})"
            )
        column = self._column(index)
        where = "piece_sums[(item * pieces + piece) * groups + group, {}]"
        return [
            "for group in range(groups):",
            *_indented([*self._scalars(index), *(f"{name}_p = 0.0" for name in own.totals)]),
            "    for channel in range(group * per_group, (group + 1) * per_group):",
            *_indented(_indented(uses)),
            *(f"    {where.format(column + k)} = {name}_p" for k, name in enumerate(own.totals)),
        ]

    # --- The sums of an item

    def _combined(self, index: int, own: Pass) -> list[str]:
        """The totals of the rows of an item over its pieces; after the last pass the rows' results."""
        is_last = index == len(self._text.passes) - 1
        column = self._column(index)
        where = "piece_sums[(item * pieces + piece) * groups + group, {}]"
        merged = []
        for k, name in enumerate(own.totals):
            merged.append(f"{name}_p = {where.format(column + k)}")
        merged += [f"{name} += {name}_p" for name in own.sums]
        for mean, squares in own.moments:
            so_far = "piece * piece_lines * per_group"
            more = "(min((piece + 1) * piece_lines, lines) - piece * piece_lines) * per_group"
            merged.append(
                f"{mean}, {squares} = merge_moments({so_far}, {mean}, {squares}, "
                f"{more}, {mean}_p, {squares}_p)"
            )
        lines = [
            *(f"{name} = 0.0" for name in own.totals),
            *(["for piece in range(pieces):", *_indented(merged)] if merged else []),
            *(f"row_sums[row, {column + k}] = {name}" for k, name in enumerate(own.totals)),
        ]
        if is_last:
            lines += [*own.after, *self._text.last.before, *self._text.row_results]
        if not lines:
            return ["pass"]
        return ["for group in range(groups):", *_indented([*self._scalars(index), *lines])]

    def _column(self, index: int) -> int:
        return sum(len(own.totals) for own in self._text.passes[:index])


def _flushes(own: Pass) -> list[str]:
    return [
        f"flush({name}_v, 0, {name}_l, 0, channels)"
        for name, squared in own.accumulators.items()
        if not squared
    ]


def _needed(tiles: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Those lines that name a tile of which a line of the block is read or written."""
    text = " ".join(lines)
    return [
        line
        for line in tiles
        if line.startswith(" ")
        or not line.partition(" = ")[0].endswith("_t")
        or f"{line.partition(' = ')[0].removesuffix('_t')}_b" in text
    ]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines if line]


def _lines(indent: int, lines: Sequence[str]) -> str:
    return textwrap.indent("\n".join(lines), " " * indent)
