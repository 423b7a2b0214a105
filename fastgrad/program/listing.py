"""The listing of an operator: maths, instructions with their buffers, generated source."""

from __future__ import annotations

from ..vector_unit.precision import Precision
from .compile import generated_source
from .program import Program
from .schedule import schedule
from .text import ascend_name, value_names

__all__ = ["program_listing"]


def program_listing(program: Program, precision: Precision, with_source: bool = True) -> str:
    """Everything about one program, as text.

    Parameters
    ----------
    program : Program
        As derived.
    precision : Precision
        Of the generated source.
    with_source : bool
        Whether to append the generated source.
    """
    operands = ", ".join([*program.arrays, *program.numbers])
    title = f"{program.name}({operands})"
    parts = [
        title,
        "=" * len(title),
        *(f"{result.name} = {_maths(program, result.name)}" for result in program.results),
        "",
        _instructions(program),
        "",
        f"On the CPU ({precision.name}): {_scratch(program)}",
    ]
    if with_source:
        parts += ["", generated_source(program, precision)]
    return "\n".join(parts)


def _maths(program: Program, name: str) -> str:
    """The result's formula over named values: long ones refer to the instructions below."""
    (result,) = (result for result in program.results if result.name == name)
    names = value_names(program)
    if not result.value.args:
        return names[result.value]
    args = ", ".join(names[arg] for arg in result.value.args)
    text = f"{ascend_name(result.value)}({args})"
    return f"sum of {text}" if result.reduced else text


def _instructions(program: Program) -> str:
    """One line an instruction, with the UB buffers that it reads and writes."""
    plan = schedule(program)
    names = value_names(program)
    lines = [
        f"{len(program.instructions)} vector instructions, {plan.count} UB buffers, "
        f"tiles of at most {plan.block_size} elements (192 KiB of UB):"
    ]
    for node in program.nodes:
        if node.op == "operand" and node.is_array:
            lines.append(f"  DataCopy      ub{plan.buffer[node]} <- {node.name}")
        elif node.args and node.is_array:
            reads = ", ".join(
                f"ub{plan.buffer[arg]}" if arg in plan.buffer else names[arg] for arg in node.args
            )
            lines.append(
                f"  {ascend_name(node):<12}  ub{plan.buffer[node]} <- {reads:<16}  # {names[node]}"
            )
    for result in program.results:
        if result.value in plan.buffer:
            lines.append(f"  DataCopy      {result.name} <- ub{plan.buffer[result.value]}")
    return "\n".join(lines)


def _scratch(program: Program) -> str:
    lowered = len(program.lowered.instructions)
    results = [result.name for result in program.results if not result.reduced]
    sums = [result.name for result in program.results if result.reduced]
    text = f"{lowered} instructions with exact tails, in registers; scratch tiles: "
    text += ", ".join([*results, *sums])
    return text + " (and one for each strided operand)"
