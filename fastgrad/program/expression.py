"""Expressions: what a program is before it is a list of instructions.

A node is immutable and interned, so that equal expressions are one object: common subexpressions
are merged the moment they are written, and `is` compares whole trees.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator

__all__ = [
    "COMPARISONS",
    "RANDOM",
    "REDUCTIONS",
    "ROW_LENGTH",
    "Node",
    "const",
    "make",
    "operand",
    "rebuild",
    "walk",
]


#: Instructions whose values are conditions, not numbers.
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")

#: Instructions that make one number of all lanes of a row.
REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_mean_square", "reduce_variance")


class Node:
    """One value of a program.

    Attributes
    ----------
    op : str
        ``"operand"``, ``"const"``, or the name of an instruction (`fastgrad.program.instructions`).
    args : tuple of Node
        What the instruction reads.
    name : str
        The operand's name.
    value : float
        The constant's value.
    is_array : bool
        Whether it has a value a lane; else it is one number for the whole launch, or for a row where
        a reduction is below it.
    """

    __slots__ = ("__weakref__", "args", "is_array", "name", "op", "value")

    def __init__(self, op: str, args: tuple[Node, ...], name: str, value: float, is_array: bool):
        self.op, self.args, self.name, self.value = op, args, name, value
        self.is_array = is_array

    def __repr__(self) -> str:
        if not self.args:
            return self.name or repr(self.value)
        return f"{self.op}({', '.join(map(repr, self.args))})"


_interned: weakref.WeakValueDictionary[tuple, Node] = weakref.WeakValueDictionary()


def _intern(
    op: str, args: tuple[Node, ...] = (), name: str = "", value: float = 0.0, is_array: bool = False
) -> Node:
    # repr tells 0.0 from -0.0 and lets NaN equal itself.
    key = (op, args, name, repr(value), is_array)
    node = _interned.get(key)
    if node is None:
        node = _interned.setdefault(key, Node(op, args, name, value, is_array))
    return node


def operand(name: str, is_array: bool) -> Node:
    """The operand `name`: an array, or a number that is known at run time."""
    return _intern("operand", name=name, is_array=is_array)


def const(value: float) -> Node:
    """A number that is known when the program is made; kept in double precision."""
    return _intern("const", value=float(value))


def make(op: str, *args: Node) -> Node:
    """The node of instruction `op` over `args`, as it is: nothing is simplified here."""
    return _intern(op, args, is_array=op not in REDUCTIONS and any(arg.is_array for arg in args))


#: A number in [0, 1) for each lane, made of a seed and the lane's index. No user's operand has such a name.
RANDOM = operand("_random", True)

#: The number of lanes of a row. No operand of a user's has such a name.
ROW_LENGTH = operand("_row_length", False)


def walk(*roots: Node) -> Iterator[Node]:
    """Every node below `roots` once, each after all that it reads."""
    seen: set[Node] = set()

    def visit(node: Node) -> Iterator[Node]:
        if node not in seen:
            seen.add(node)
            for arg in node.args:
                yield from visit(arg)
            yield node

    for root in roots:
        yield from visit(root)


def rebuild(
    roots: tuple[Node, ...], rule: Callable[[Node, tuple[Node, ...]], Node]
) -> tuple[Node, ...]:
    """Rewrite bottom-up: `rule(node, new_args)` gives what stands for `node` from now on."""
    new: dict[Node, Node] = {}
    for node in walk(*roots):
        new[node] = rule(node, tuple(new[arg] for arg in node.args)) if node.args else node
    return tuple(new[root] for root in roots)
