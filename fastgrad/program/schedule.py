"""The scheduler: which UB buffer holds which value, and how large a tile may be.

A value's buffer is free again after the last instruction that reads it, and an instruction may write
over an operand that dies with it: this is how an Ascend C author reuses `LocalTensor`s.
"""

from __future__ import annotations

from dataclasses import dataclass

from .expression import Node
from .program import Program

__all__ = ["UB_BYTES", "Schedule", "schedule"]

#: Bytes of the Unified Buffer of one vector core of an Ascend 910B.
UB_BYTES = 192 * 1024

#: A vector instruction works on repeats of 256 bytes: a tile is a whole number of them.
_REPEAT_BYTES = 256


@dataclass(frozen=True)
class Schedule:
    """Buffers of a program.

    Attributes
    ----------
    buffer : dict of Node to int
        The buffer of every operand and of every instruction's result.
    count : int
        How many buffers there are.
    block_size : int
        The most elements of a tile for which they all fit.
    """

    buffer: dict[Node, int]
    count: int
    block_size: int


def schedule(program: Program, ub_bytes: int = UB_BYTES, itemsize: int = 4) -> Schedule:
    """Assign buffers by liveness.

    Parameters
    ----------
    program : Program
        As derived.
    ub_bytes : int
        Size of the Unified Buffer.
    itemsize : int
        Bytes of an element while it is computed on: 4, or 8 for float64.

    Raises
    ------
    ValueError
        If not even one repeat of 256 bytes a buffer fits.
    """
    last_read = _last_reads(program)
    buffer: dict[Node, int] = {}
    free: list[int] = []
    count = 0
    for step, node in enumerate(program.nodes):
        for arg in set(node.args):
            if arg in buffer and last_read[arg] == step:
                free.append(buffer[arg])
        if not node.is_array:
            continue
        if free:
            free.sort(reverse=True)
            buffer[node] = free.pop()
        else:
            buffer[node] = count
            count += 1
    return Schedule(buffer, count, _block_size(count, ub_bytes, itemsize))


def _last_reads(program: Program) -> dict[Node, int]:
    """The step after which a value is not needed; results are needed to the end."""
    last: dict[Node, int] = {}
    for step, node in enumerate(program.nodes):
        last.update(dict.fromkeys(node.args, step))
    last.update({result.value: len(program.nodes) for result in program.results})
    return last


def _block_size(count: int, ub_bytes: int, itemsize: int) -> int:
    repeats = ub_bytes // (max(count, 1) * _REPEAT_BYTES)
    if repeats == 0:
        raise ValueError(
            f"ub_bytes must hold {count} buffers of {_REPEAT_BYTES} bytes, got {ub_bytes}"
        )
    return repeats * _REPEAT_BYTES // itemsize
