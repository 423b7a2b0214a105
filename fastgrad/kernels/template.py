"""The pieces of text that every walk over elements has in common: buffers, tiles in, tiles out."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..vector_unit.constants import DENSE

__all__ = ["CHECKED", "DIRECT", "STREAMED", "Fields", "constants", "local_name"]

#: How a result tile leaves: stored by the fused loop; staged in UB and written past the cache; stored by
#: the fused loop if the result is apart from the operands, or exactly one of them.
DIRECT, STREAMED, CHECKED = 0, 1, 2

_BUFFER_IN = (
    "ub_{name} = np.empty(min(block_size, size) if layouts[{row}, 0] != DENSE else 0, np.{kind})"
)
_BUFFER_OUT = "ub_{name} = np.empty(min(block_size, size), np.{kind})"
#: Random numbers are made for whole groups: at most one more at either end of a tile.
_BUFFER_RANDOM = "ub_{name} = np.empty(min(block_size, size) + 2 * GROUP, np.float32)"
_TILE_RANDOM = "{name}_t = random_tile(ub_{name}, seed, start, m)"
_TILE_IN = "{name}_t = tile_of({name}, ub_{name}, layouts[{row}], shape, start, m)"
_TILE_OUT = """\
direct_{name} = store != STREAMED and layouts[{row}, 0] == DENSE
run_{name} = 0
if layouts[{row}, 0] != DENSE:
    run_{name} = run_at(layouts[{row}], shape, start, m, {name}.itemsize)
{name}_t = window({name}, start, m) if direct_{name} else window(ub_{name}, 0, m)
if run_{name} != 0 and store != STREAMED:
    {name}_t = tile_at({name}, run_{name}, m)"""
_COPY_OUT = """\
if run_{name} != 0:
    if store == STREAMED:
        stream_out(tile_at({name}, run_{name}, m), {name}_t)
elif layouts[{row}, 0] != DENSE:
    scatter({name}_t, layouts[{row}], shape, start)
elif store == STREAMED:
    stream_out(window({name}, start, m), {name}_t)"""

Field = tuple[str, str]

#: Names that generated code uses itself; an operand called so gets an underscore.
_TAKEN = frozenset(
    (
        *(
            "i",
            "f",
            "m",
            "np",
            "vu",
            "lo",
            "hi",
            "size",
            "block_size",
            "store",
            "unit",
            "inners",
            "row_end",
        ),
        *("shape", "layouts", "shift", "tile", "start", "stop", "own", "chunk", "chunk_stop"),
        *(
            "unit_stop",
            "body",
            "tiles",
            "lane",
            "kernel",
            "read",
            "write",
            "window",
            "borrowed",
            "tile_of",
            "tile_at",
            "run_at",
        ),
        *(
            "seed",
            "random_tile",
            "in_part",
            "scatter",
            "stream_out",
            "store_fence",
            "add_to_channels",
        ),
        # The walk over rows.
        *("rows", "per_unit", "length", "run", "span", "row_groups", "channels", "per_partial"),
        *("block", "parts", "part", "row", "piece", "pieces", "count", "other", "origin", "offset"),
        *("partial", "begin", "end", "position", "run_end", "channel", "first", "row_length"),
        *(
            "piece_sums",
            "together",
            "row_numbers",
            "first_row",
            "next_row",
            "total",
            "shift",
            "squares",
            "distance",
            "mean_t",
            "bounds",
            "flush",
        ),
        *("units", "lines", "groups", "per_group", "pieces", "piece_lines", "stage", "item"),
        *("first_piece", "last_piece", "group", "line", "ub", "row_sums"),
        *("fma", "accumulate", "accumulate_product", "merge_moments"),
    )
)
#: Forms of such names: values, tiles, elements, constants; and what `local_name` itself makes.
_TAKEN_FORMS = re.compile(
    r"kept\d+|[var]\d+(_q|_s1|_s2|_l)?|[smq]\d+_\d+(_p)?|(ub|direct|run|layout)_.*|.*_(t|i|f|l|p|lo|rows)"
    r"|[A-Z]+|.*_|.*_to_.*"
)


def local_name(name: str) -> str:
    """What an operand or result is called in generated code; two names stay two."""
    taken = name in _TAKEN or keyword.iskeyword(name) or hasattr(builtins, name)
    return f"{name}_" if taken or _TAKEN_FORMS.fullmatch(name) else name


def constants() -> str:
    """The modes that the walks compare with, as globals of the generated module."""
    return f"STREAMED, CHECKED, DENSE = {STREAMED}, {CHECKED}, {DENSE}\n"


@dataclass(frozen=True)
class Fields:
    """Names and element types of what a walk is given, in the order of the body's arguments.

    Attributes
    ----------
    operands, results, sums, numbers : tuple of (str, str)
        Array operands, results of their shape, results summed over lanes, numbers.
    random : str
        What the random numbers of a tile are called, where the program takes a seed.
    """

    operands: tuple[Field, ...]
    results: tuple[Field, ...]
    sums: tuple[Field, ...]
    numbers: tuple[Field, ...]
    random: str = ""

    @property
    def _arrays(self) -> tuple[Field, ...]:
        return (*self.operands, *self.results, *self.sums)

    @property
    def types(self) -> str:
        """The signature's tail."""
        arrays = [f"{kind}[::1]" for _, kind in (*self.operands, *self.results)]
        partials = ["float64[:, ::1]" for _ in self.sums]
        seed = ["int64"] if self.random else []
        return ", ".join([*arrays, *partials, *(kind for _, kind in self.numbers), *seed])

    @property
    def arguments(self) -> str:
        """The arguments' names."""
        seed = ["seed"] if self.random else []
        return ", ".join([*(name for name, _ in (*self._arrays, *self.numbers)), *seed])

    @property
    def body_arguments(self) -> str:
        """What the body is called with for one tile."""
        tiles = [f"{name}_t" for name, _ in self._arrays]
        if self.random:
            tiles.insert(len(self.operands), f"{self.random}_t")
        return ", ".join([*tiles, *(name for name, _ in self.numbers)])

    def overlap(self) -> str:
        """Whether the first result overlaps an operand in part."""
        result = self.results[0][0]
        return " or ".join(f"in_part({result}, {name}, size)" for name, _ in self.operands)

    def borrow(self, indent: int) -> str:
        """Give up the ownership of all arrays, which the caller keeps alive."""
        arrays = ("shape", "layouts", *(name for name, _ in self._arrays))
        return "".join(f"{'':{indent}}{name} = borrowed({name})\n" for name in arrays)

    def buffers(self, indent: int) -> str:
        """Allocate UB: a tile for each operand that is gathered and each result that is staged."""
        return (
            self._each(_BUFFER_IN, self.operands, indent)
            + self._each(_BUFFER_OUT, self.results, indent)
            + self._if_random(_BUFFER_RANDOM, indent)
        )

    def layouts(self) -> list[str]:
        """Lines that name the layout of each operand: taken from `layouts` in a loop it counts references."""
        return [f"layout_{row} = layouts[{row}]" for row in range(len(self.operands))]

    def tiles_in(self, indent: int, named: bool = False) -> str:
        """Name the tiles of operands and results; `named`: after the lines of `layouts`."""
        tile_in = _TILE_IN.replace("layouts[{row}]", "layout_{row}") if named else _TILE_IN
        return (
            self._each(tile_in, self.operands, indent)
            + self._each(_TILE_OUT, self.results, indent)
            + self._if_random(_TILE_RANDOM, indent)
        )

    def tiles_out(self, indent: int) -> str:
        """Copy staged results to memory."""
        return self._each(_COPY_OUT, self.results, indent)

    def _if_random(self, template: str, indent: int) -> str:
        return f"{'':{indent}}{template.format(name=self.random)}\n" if self.random else ""

    def _each(self, template: str, fields: Sequence[Field], indent: int) -> str:
        rows = {name: row for row, (name, _) in enumerate((*self.operands, *self.results))}
        texts = (template.format(name=name, kind=kind, row=rows[name]) for name, kind in fields)
        return "".join(" " * indent + line + "\n" for text in texts for line in text.split("\n"))
