"""A vector program: operands, instructions in SSA form, results."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

from .expression import RANDOM, Node, walk
from .optimize import build
from .tails import exact_tails

__all__ = ["Program", "Result"]


@dataclass(frozen=True)
class Result:
    """One result of a program.

    Attributes
    ----------
    name : str
        ``"y"``, ``"dx"``, ``"dbeta"``, …
    value : Node
        What it is.
    reduced : bool
        Whether it is summed over all lanes that share one element of its operand (the gradient of
        a number, or of a parameter with one element a channel).
    operand : str
        The operand whose gradient it is; empty for a forward result.
    """

    name: str
    value: Node
    reduced: bool = False
    operand: str = ""


@dataclass(frozen=True)
class Program:
    """Operands in the order of the call, and the results.

    Attributes
    ----------
    name : str
        The operator's name, ``swish_grad``; names generated files.
    operands : tuple of Node
        Arrays and numbers, in the order in which a kernel takes them.
    results : tuple of Result
        What it writes.
    channels : frozenset of str
        Array operands with one element a channel, or broadcast. They are kept in the compute dtype,
        whatever the storage dtype of the others.
    """

    name: str
    operands: tuple[Node, ...]
    results: tuple[Result, ...]
    channels: frozenset[str] = frozenset()

    @functools.cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Operands, constants and instructions, each after all that it reads."""
        return tuple(walk(*(result.value for result in self.results)))

    @functools.cached_property
    def instructions(self) -> tuple[Node, ...]:
        """The vector instructions, in the order of their execution."""
        return tuple(node for node in self.nodes if node.args and node.is_array)

    @functools.cached_property
    def arrays(self) -> tuple[str, ...]:
        """Names of the array operands."""
        return tuple(node.name for node in self.operands if node.is_array)

    @functools.cached_property
    def numbers(self) -> tuple[str, ...]:
        """Names of the operands that are one number each."""
        return tuple(node.name for node in self.operands if not node.is_array)

    @functools.cached_property
    def is_random(self) -> bool:
        """Whether it takes a seed, its last argument, and makes a tile of random numbers."""
        return RANDOM in self.nodes

    @functools.cached_property
    def lowered(self) -> Program:
        """This program as the CPU runs it, with exact tails."""
        return Program(self.name, self.operands, self._lowered_results(), self.channels)

    def _lowered_results(self) -> tuple[Result, ...]:
        """The last product, by the incoming gradient, is a plain one: an infinite `dy` is no tail."""
        values = []
        for result in self.results:
            value = result.value
            if value.op == "mul" and value.args[1].op == "operand" and value.args[1].name == "dy":
                (slope,) = exact_tails(value.args[0])
                value = build("mul", slope, value.args[1])
            else:
                (value,) = exact_tails(value)
            values.append(dataclasses.replace(result, value=value))
        return tuple(values)
