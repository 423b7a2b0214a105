"""The counters of a call as a table, with what follows from them."""

from __future__ import annotations

from collections.abc import Iterator

from fastgrad.bench.tables import Cell, Table, percent, short
from fastgrad.profile.hardware import SOFTWARE, VECTORS, Counters

__all__ = ["NOTE", "counter_table", "derived_lines", "missing_line"]

#: What the numbers are of.
NOTE = (
    "Counted from the first of these calls to the last, in all threads of the process: those that "
    "wait awake for work are in the numbers."
)


def counter_table(counters: Counters, calls: int, elements: int) -> Table:
    """Each counter for a call and for an element."""
    return Table(
        f"perf: {calls} calls",
        ["counter", "a call", "an element"],
        [
            [
                Cell("task-clock, ms" if name == "task-clock" else name),
                Cell(short(value / calls)),
                Cell("" if name in SOFTWARE else short(value / calls / elements)),
            ]
            for name, value in counters.values.items()
        ],
    )


def derived_lines(counters: Counters, calls: int, elements: int) -> Iterator[str]:
    """Instructions a cycle, misses, the mix of vector instructions: as far as they were counted."""
    found = counters.values
    if found.get("cycles"):
        yield f"instructions a cycle: {short(found.get('instructions', 0.0) / found['cycles'])}"
        if found.get("task-clock"):
            yield f"clock: {short(found['cycles'] / found['task-clock'] / 1e6)} GHz"
    for part, whole, text in (
        ("branch-misses", "branches", "branches mispredicted"),
        ("L1-dcache-load-misses", "L1-dcache-loads", "loads that miss the first-level cache"),
        ("cache-misses", "cache-references", "references to the last level that miss"),
    ):
        if part in found and found.get(whole):
            yield f"{text}: {percent(found[part] / found[whole])}"
    if "cache-misses" in found:
        misses = 1000 * found["cache-misses"] / calls / elements
        yield f"cache misses in 1000 elements: {short(misses)}"
    vectors = {name: found[name] for name in VECTORS if found.get(name)}
    for name, value in vectors.items():
        share = percent(value / sum(vectors.values()))
        yield f"floating-point instructions, {name.partition('.')[2]}: {share}"
    if counters.shared:
        yield "More events than counters: they took turns, and the numbers are extrapolated."


def missing_line(counters: Counters) -> str:
    """What this machine cannot count, and what that means; "" if it counted everything."""
    if not counters.missing:
        return ""
    names = ", ".join(counters.missing)
    if counters.has_hardware:
        return f"Not supported by this machine: {names}."
    return (
        "This machine has no hardware counters, as most virtual machines have none: the above is "
        f"what the operating system counts. Not supported: {names}. Run this on the bare machine, "
        "or let the virtual one have a PMU (kvm: -cpu host,pmu=on)."
    )
