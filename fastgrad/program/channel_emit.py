"""The loops of a row program where the channels are the last axis: each lane of a line is a channel.

A row, the group of a group norm, lies in a narrow strip of many lines. All groups of an item are walked
together, line by line: what is one number a row becomes a vector with an element a channel, and so does
every sum, which is put together for the rows afterwards. Nothing is gathered or transposed.
`kernels/channels_last.py` joins these loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..kernels.template import local_name
from .expression import Node
from .row_emit import Lanes, Pass, added
from .row_program import FULL

__all__ = ["ChannelLanes"]


class ChannelLanes(Lanes):
    """Collects what a pass does with a block of `count` lines."""

    def finish(self, own: Pass) -> None:
        """Write the loops of the pass."""
        for lanes, pair in self._moments.items():
            own.moments.append(pair)
            own.tile += self._moments_of(lanes, *pair)
        if self._accumulated or self._writes:
            own.tile += [*self._lines(["for i in range(channels):", *_indented(self._body())])]
        own.uses = self._uses
        own.accumulators = {name: squared for (_, squared), name in self._accumulated.items()}
        own.reads = list(self._numbers)
        for number in own.reads:
            own.numbers.append(f"{number}_f = f({number})")
            if number in self._in_two:
                own.numbers.append(f"{number}_lo = f({number} - np.float64({number}_f))")
        own.in_two = self._in_two

    def _lines(self, loop: Sequence[str], count: str = "count") -> list[str]:
        """`loop` for every line of the block, or for `count` of them."""
        names = [
            *(local_name(name) for name in self._text.program.arrays),
            *(local_name(result.name) for result in self._text.program.named(FULL)),
        ]
        words = " ".join(loop)
        used = [name for name in names if f"{name}_t," in words]
        windows = [f"{name}_t = window({name}_b, line * channels, channels)" for name in used]
        return [f"for line in range({count}):", *_indented([*windows, *loop])]

    def _channel(self, name: str, lines: list[str]) -> str:
        lines.append(f"{name}_i = read({name}, i)")
        return f"{name}_i"

    def _row_number(self, name: str, lines: list[str]) -> str:
        lines.append(f"{name}_i = read({name}_v, i)")
        return f"{name}_i"

    def _low(self, name: str, lines: list[str]) -> str:
        lines.append(f"{name}_lo = read({name}_lo_v, i)")
        return f"{name}_lo"

    def _accumulate(self, name: str, value: tuple[str, ...], kind: str) -> str:
        own = f"{name}_v" if kind == "np.float64" else f"{name}_l"
        wide = tuple(f"{kind}({part})" for part in value)
        total = f"read_sum({own}, i)"
        if kind == "np.float64":
            return f"write_sum({own}, i, fma({wide[0]}, {wide[1]}, {total}))"
        return f"write_sum({own}, i, {added(total, value)})"

    def _moments_of(self, lanes: Node, mean: str, squares: str) -> list[str]:
        """Mean and squared distances of every channel in the block, as `Lanes` has them of a tile."""
        lines, [(own,)] = self._values([lanes])
        value = f"np.float64({own})"
        count = "1" if self._text.precision.compute != "float64" else "count"

        def loop(*last: str, of: str = "count") -> list[str]:
            return self._lines(["for i in range(channels):", *_indented([*lines, *last])], of)

        return [
            "for i in range(channels):",
            *_indented([f"{name}_l[i] = 0.0" for name in ("about", "shift", "squares")]),
            *loop(f"write_sum(about_l, i, read_sum(about_l, i) + {value})", of=count),
            *("for i in range(channels):", f"    about_l[i] = about_l[i] / {count}"),
            *loop(
                f"distance = {value} - read_sum(about_l, i)",
                "write_sum(shift_l, i, read_sum(shift_l, i) + distance)",
                "write_sum(squares_l, i, fma(distance, distance, read_sum(squares_l, i)))",
            ),
            "for i in range(channels):",
            "    shift = shift_l[i] / count",
            "    squares = max(squares_l[i] - shift * shift_l[i], 0.0)",
            f"    {mean}_v[i], {squares}_v[i] = merge_moments(position - begin, {mean}_v[i], "
            f"{squares}_v[i], count, about_l[i] + shift, squares)",
        ]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
