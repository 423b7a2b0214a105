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

    def _lines(self, loop: Sequence[str]) -> list[str]:
        """`loop` for every line of the block."""
        names = [
            *(local_name(name) for name in self._text.program.arrays),
            *(local_name(result.name) for result in self._text.program.named(FULL)),
        ]
        words = " ".join(loop)
        used = [name for name in names if f"{name}_t," in words]
        windows = [f"{name}_t = window({name}_b, line * channels, channels)" for name in used]
        return ["for line in range(count):", *_indented([*windows, *loop])]

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
        """Mean and squared distances of every channel in the block, as `Lanes` does of a tile."""
        lines, [(value,)] = self._values([lanes])
        first = [
            *("for i in range(channels):", "    mean_l[i] = 0", "    shift_l[i] = 0"),
            "    squares_l[i] = 0",
            *self._lines(
                [
                    "for i in range(channels):",
                    *_indented([*lines, f"write_sum(mean_l, i, read_sum(mean_l, i) + {value})"]),
                ]
            ),
            *("for i in range(channels):", "    mean_l[i] = mean_l[i] / f(count)"),
            *self._lines(
                [
                    "for i in range(channels):",
                    *_indented(
                        [
                            *lines,
                            f"distance = {value} - read_sum(mean_l, i)",
                            "write_sum(shift_l, i, read_sum(shift_l, i) + distance)",
                            "write_sum(squares_l, i, fma(distance, distance, read_sum(squares_l, i)))",
                        ]
                    ),
                ]
            ),
        ]
        again = self._lines([*lines, f"total += np.float64({value})"])
        about = self._lines(
            [
                *lines,
                f"distance_w = np.float64({value}) - mean_t",
                "shift += distance_w",
                "squares += distance_w * distance_w",
            ]
        )
        is_narrow = self._text.precision.compute != "float64"
        wide = [
            "if count > 1 and not LEAST_SQUARES < squares < MOST_SQUARES:",
            *_indented(["total = 0.0", *again, "mean_t = total / count"]),
            *_indented(["shift = 0.0", "squares = 0.0", *about]),
        ]
        return [
            *first,
            "for i in range(channels):",
            *_indented(
                [
                    "mean_t = np.float64(mean_l[i])",
                    "shift = np.float64(shift_l[i])",
                    "squares = np.float64(squares_l[i])",
                    *(wide if is_narrow else []),
                    "squares = max(squares - shift * shift / count, 0.0)",
                    f"{mean}_v[i], {squares}_v[i] = merge_moments(position - begin, {mean}_v[i], "
                    f"{squares}_v[i], count, mean_t + shift / count, squares)",
                ]
            ),
        ]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
