"""The times of a call and the balance of its cores, with a sentence on how each was obtained."""

from __future__ import annotations

import numpy as np

from fastgrad.bench.spread import ratio, spread
from fastgrad.bench.tables import NOTHING, Cell, Table, percent, short
from fastgrad.kernels.template import STREAMED
from fastgrad.profile.balance import Balance
from fastgrad.profile.shares import LaunchTimes, Seconds, Times
from fastgrad.profile.subject import Subject
from fastgrad.program.cost import nanoseconds
from fastgrad.runtime.tiling import last_level_cache

__all__ = [
    "NOTES",
    "balance_line",
    "balance_table",
    "seconds_text",
    "share_table",
    "traffic_lines",
    "verdict",
    "walk_table",
]

#: What the reader has to know of all tables.
NOTES = (
    "Times are medians (± half the distance of the quartiles) of samples taken in turn; shares and "
    "differences are formed in each round. Dispatch and launch are measured hot. The passes of a "
    "walk overlap in it, so each is timed alone. What one core does is timed by its thread's own "
    "clock, which stands still while others run there. 16-bit casts count as computing."
)

# One of the two limits explains the walk if it is this part of it.
_EXPLAINS = 0.8


def traffic_lines(subject: Subject, times: Times) -> list[str]:
    """Bytes, bandwidth, and the multiple of the streaming bound."""
    case = subject.case
    call = _median(times.call)
    moved = case.bytes_moved
    bound = ratio(list(times.call), list(times.bound))
    in_cache = moved <= last_level_cache()
    return [
        f"Bytes: {moved / case.elements:g} an element, {moved / 1e6:.4g} MB in all if each array "
        f"is touched once: {moved / call / 1e9:.3g} GB/s.",
        f"Multiple of the streaming bound: {short(bound.median)} "
        f"({short(bound.low)} to {short(bound.high)}); fastgrad's own float32 addition, past the "
        f"cache and in the same rounds, moves {moved / _median(times.bound) / 1e9:.3g} GB/s."
        + (
            " All arrays fit into the last-level cache, so that is no lower limit."
            if in_cache
            else ""
        ),
    ]


def share_table(subject: Subject, times: Times) -> Table:
    """The call as a sum: dispatch, launches, walks, and what is left."""
    rows = [("call", times.call, subject.code.replace("\n", "; "))]
    rows.append(("dispatch", times.dispatch, "the call with its launches left out: Python alone"))
    for index, one in enumerate(times.launches):
        launch, number = one.launch, _number(index, times)
        how = "waking, handing out, waiting" if launch.cores > 1 else "entering the kernel"
        rows.append((f"launch{number}", one.empty, f"the launch of no tiles: {how}"))
        rows.append(
            (
                f"walk{number}",
                one.whole - one.empty,
                f"the launch less that of no tiles: {_walk_text(one)}",
            )
        )
    rest = times.call - times.dispatch - np.sum([one.whole for one in times.launches], axis=0)
    rows.append(("rest", rest, "the call less all of the above: fresh memory, cold caches, noise"))
    return Table(
        "One call",
        ["part", "time", "share", "how it was obtained"],
        [
            [Cell(name), Cell(_time(own)), Cell(_share(own, times.call)), Cell(how)]
            for name, own, how in rows
        ],
    )


def walk_table(subject: Subject, times: Times, index: int) -> Table:
    """The passes of one walk, each alone; they overlap, so their shares do not add up."""
    one = times.launches[index]
    walk = one.whole - one.empty
    reads, writes = _bytes_in_out(one, subject)
    rows = [("walk", walk, reads + writes, "all of it, as above")]
    if one.moved:
        streamed = one.launch.store == STREAMED
        out = "staged and streamed past the cache" if streamed else "stored by the fused loop"
        rows += [
            (
                "data_copy in",
                one.moved["in"],
                reads,
                "operands read, into scratch that goes nowhere",
            ),
            ("data_copy out", one.moved["out"], writes, f"results {out}, no operand read"),
            ("in and out", one.moved["both"], reads + writes, "the same walk, no arithmetic"),
        ]
    rows.append(("compute", _compute(one), 0, _compute_text(one, subject)))
    return Table(
        f"Passes of the walk{_number(index, times)}, each alone",
        ["pass", "time", "of the walk", "ns an element", "GB/s", "how it was obtained"],
        [
            [
                Cell(name),
                Cell(_time(own)),
                Cell(_share(own, walk)),
                Cell(short(_median(own) / one.launch.size * 1e9)),
                Cell(short(moved / _median(own) / 1e9) if moved and _median(own) > 0 else ""),
                Cell(how),
            ]
            for name, own, moved, how in rows
        ],
    )


def verdict(times: Times, index: int) -> str:
    """Which of the two, moving or computing, explains the time of a walk."""
    one = times.launches[index]
    if not one.moved:
        return ""
    walk = one.whole - one.empty
    shares = {
        "moving its bytes": spread(list(one.moved["both"] / walk)).median,
        "computing": spread(list(_compute(one) / walk)).median,
    }
    longer = max(shares, key=lambda name: shares[name])
    text = ", ".join(f"{name} alone {percent(max(share, 0.0))}" for name, share in shares.items())
    if shares[longer] >= _EXPLAINS:
        return f"The walk{_number(index, times)} is bound by {longer}: {text} of its time."
    return (
        f"Neither explains the walk{_number(index, times)} alone: {text} of its time; the rest is "
        "what does not overlap."
    )


def balance_table(balance: Balance, times: Times, index: int) -> Table:
    """What each core does in a mean launch."""
    return Table(
        f"Cores of the launch{_number(index, times)}, {balance.launches} launches",
        ["thread", "parts", "tiles", "busy", "of it on a core", "first part after", "cores"],
        [
            [
                Cell(own.name),
                Cell(f"{own.parts:.2f}"),
                Cell(f"{own.tiles:.0f}"),
                Cell(seconds_text(own.busy)),
                Cell(percent(own.on_processor / own.busy) if own.busy else NOTHING),
                Cell(seconds_text(own.late)),
                Cell(", ".join(map(str, own.processors))),
            ]
            for own in balance.participants
        ],
    )


def balance_line(balance: Balance) -> str:
    """The two numbers that sum the table up, and how they were obtained."""
    return (
        f"Imbalance: the busiest core has {balance.imbalance:.2f} times the mean work; the cores' "
        f"time outside of parts: {percent(max(balance.idle, 0.0))}. Clocks read before and after "
        "each part, around the same machine code; on a core: by the thread's own clock."
    )


def seconds_text(seconds: float) -> str:
    """With three digits, in the unit that suits."""
    if abs(seconds) >= 1e-3:
        return f"{short(seconds * 1e3)} ms"
    if abs(seconds) >= 1e-6:
        return f"{short(seconds * 1e6)} µs"
    return f"{short(seconds * 1e9)} ns"


def _time(seconds: Seconds) -> str:
    """Median, and half the distance of the quartiles."""
    found = spread(list(seconds))
    return f"{seconds_text(found.median)} ± {seconds_text((found.high - found.low) / 2)}"


def _median(seconds: Seconds) -> float:
    return float(np.median(seconds))


def _share(part: Seconds, whole: Seconds) -> str:
    return percent(float(np.median(part / whole)))


def _number(index: int, times: Times) -> str:
    """Launches are numbered where there are several."""
    return f" {index + 1}" if len(times.launches) > 1 else ""


def _walk_text(one: LaunchTimes) -> str:
    name = one.program.name if one.program else one.launch.tiles.__name__
    cores = f"{one.launch.cores} cores" if one.launch.cores > 1 else "one core"
    ranges = "1 range" if one.launch.count == 1 else f"{one.launch.count} ranges"
    return f"{name}, {ranges} on {cores}"


def _bytes_in_out(one: LaunchTimes, subject: Subject) -> tuple[int, int]:
    if one.program is None:
        return 0, 0
    results = sum(not result.reduced for result in one.program.results)
    array = one.launch.size * subject.precision.dtype.itemsize
    return len(one.program.arrays) * array, results * array


def _compute(one: LaunchTimes) -> Seconds:
    """Of all elements, spread evenly over the cores of the launch."""
    return one.compute * (one.launch.size / one.launch.cores)


def _compute_text(one: LaunchTimes, subject: Subject) -> str:
    text = (
        f"{one.launch.in_cache().size} elements in the first-level cache, one core: "
        f"{short(_median(one.compute) * 1e9)} ns an element"
    )
    if one.program is not None:
        text += f" (estimate: {nanoseconds(one.program, subject.precision):.2f})"
    return text if one.launch.cores == 1 else f"{text}, over {one.launch.cores} cores"
