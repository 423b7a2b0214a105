"""A row program: lanes, reductions over a row, numbers of a row made of them, results.

The walk over a row takes as many passes as reductions follow on each other: a pass reads the lanes, and
what it needs of the passes before it are numbers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from .expression import REDUCTIONS, Node, walk

__all__ = ["FULL", "PER_CHANNEL", "PER_ROW", "RowProgram", "RowResult", "passes_below"]

#: What a result has: an element a lane, one a channel (summed over the rows), or one a row.
FULL, PER_CHANNEL, PER_ROW = "full", "channel", "row"


@dataclass(frozen=True)
class RowResult:
    """One result of a row program.

    Attributes
    ----------
    name : str
        ``"y"``, ``"rstd"``, ``"dx"``, …
    value : Node
        What it is; of a result that is one a channel, before the sum over the rows.
    kind : str
        `FULL`, `PER_CHANNEL` or `PER_ROW`.
    operand : str
        The operand whose gradient it is; empty for a forward result.
    """

    name: str
    value: Node
    kind: str = FULL
    operand: str = ""


@dataclass(frozen=True, eq=False)
class RowProgram:
    """Operands in the order of the call, and the results. Equal is only what is the same object.

    Attributes
    ----------
    name : str
        Names generated files.
    arrays, channels, per_row, numbers : tuple of str
        Operands of an element a lane; of one a channel; of one a row (float64); of one in all.
    results : tuple of RowResult
        What it writes.
    """

    name: str
    arrays: tuple[str, ...]
    channels: tuple[str, ...]
    per_row: tuple[str, ...]
    numbers: tuple[str, ...]
    results: tuple[RowResult, ...]

    @functools.cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Operands, constants and instructions, each after all that it reads."""
        return tuple(walk(*(result.value for result in self.results)))

    @functools.cached_property
    def reductions(self) -> tuple[Node, ...]:
        """The reductions, in the order of their execution."""
        return tuple(node for node in self.nodes if node.op in REDUCTIONS)

    @functools.cached_property
    def passes(self) -> int:
        """How often the lanes of a row are read."""
        depth = passes_below(self.nodes)
        lanes = [depth[result.value] for result in self.results if result.kind != PER_ROW]
        return max([*(value + 1 for value in lanes), *(depth[node] for node in self.reductions)])

    def named(self, kind: str) -> tuple[RowResult, ...]:
        """The results of one kind."""
        return self._by_kind[kind]

    @functools.cached_property
    def _by_kind(self) -> dict[str, tuple[RowResult, ...]]:
        return {
            kind: tuple(result for result in self.results if result.kind == kind)
            for kind in (FULL, PER_CHANNEL, PER_ROW)
        }


def passes_below(nodes: tuple[Node, ...]) -> dict[Node, int]:
    """For every node, how many passes must have ended before it is known (a reduction ends its own)."""
    depth: dict[Node, int] = {}
    for node in nodes:
        below = max((depth[arg] for arg in node.args), default=0)
        depth[node] = below + (node.op in REDUCTIONS)
    return depth
