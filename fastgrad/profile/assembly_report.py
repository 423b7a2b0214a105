"""The hot loop as text: its width, its instructions by class, the listing with a note a line."""

from __future__ import annotations

from fastgrad.bench.tables import Cell, Table, short
from fastgrad.profile.assembly import HotLoop
from fastgrad.vector_unit.precision import Precision

__all__ = ["class_table", "listing", "scalar_warning", "width_lines"]

# Columns before the notes; longer lines push theirs to the right.
_NOTE_COLUMN = 44


def width_lines(loop: HotLoop, precision: Precision) -> list[str]:
    """Vector width, elements a turn, instructions an element."""
    count = len(loop.instructions)
    elements = loop.elements(precision.dtype.itemsize)
    lanes = loop.bits // (8 * precision.compute_dtype.itemsize)
    lines = [
        f"Vector width: {loop.bits} bits: {lanes} {precision.compute} lanes."
        if loop.bits
        else f"Vector width: none, the loop computes one {precision.compute} at a time."
    ]
    if elements:
        vectors = f", {elements / lanes:g} vector{'s' * (elements != lanes)}" if lanes else ""
        lines.append(
            f"A turn: {elements} element{'s' * (elements != 1)}{vectors}; {count} instructions, "
            f"{short(count / elements)} an element."
        )
    else:
        lines.append(f"A turn: {count} instructions.")
    constants = sum(own.kind == "address" or own.meaning == "constant" for own in loop.instructions)
    if constants:
        lines.append(
            f"{constants} of the instructions fetch constants, or their addresses, in each turn."
        )
    spills = sum(own.memory == "spill" for own in loop.instructions)
    if spills:
        lines.append(f"{spills} of the instructions use spilled registers.")
    return lines


def scalar_warning(loop: HotLoop) -> str:
    """What is wrong with the loop; "" if nothing is."""
    if not loop.bits:
        return "The hot loop is scalar: LLVM has not vectorised it."
    if loop.scalar:
        return f"{len(loop.scalar)} instructions of the loop compute a single lane."
    return ""


def class_table(loop: HotLoop) -> Table:
    """How many instructions of each class, and how many of them with an operand in memory."""
    rows = []
    for kind, count in loop.counts():
        own = [one for one in loop.instructions if one.kind == kind]
        in_memory = sum(bool(one.memory) for one in own)
        widths = sorted({one.bits for one in own if one.bits}, reverse=True)
        rows.append(
            [
                Cell(kind),
                Cell(str(count)),
                Cell(str(in_memory) if in_memory else ""),
                Cell(", ".join(map(str, widths))),
            ]
        )
    return Table("Instructions of a turn", ["class", "count", "with memory", "bits"], rows)


def listing(loop: HotLoop) -> str:
    """One line an instruction, annotated."""
    lines = [f"{loop.label}:"]
    for own in loop.instructions:
        mnemonic, _, operands = own.text.partition(" ")
        lines.append(f"  {f'{mnemonic:<14}{operands}':<{_NOTE_COLUMN}}  # {own.meaning}")
    return "\n".join(lines)
