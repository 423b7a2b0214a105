"""How evenly a launch is spread over the cores that take part."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np

from fastgrad.profile.launches import Launch
from fastgrad.profile.parts import TracedLaunch

__all__ = ["Balance", "Participant", "balance_of"]

# Launches that are observed, after some that wake the threads.
_LAUNCHES = 50
_WARM_UP_SECONDS = 10e-3


@dataclass(frozen=True)
class Participant:
    """One thread of the launches: means of parts and tiles, medians of times.

    Attributes
    ----------
    name : str
        ``"caller"``, or the worker's number in order of appearance.
    parts, tiles : float
        What it computed.
    busy, on_processor : float
        Seconds in its parts, and those of them in which it had a processor.
    late : float
        Seconds from the call of the launch to its first part.
    processors : tuple of int
        Where it ran.
    """

    name: str
    parts: float
    tiles: float
    busy: float
    on_processor: float
    late: float
    processors: tuple[int, ...]


@dataclass(frozen=True)
class Balance:
    """All participants of a launch.

    Attributes
    ----------
    participants : list of Participant
        The caller first.
    imbalance : float
        Busy time of the busiest over the mean of all cores asked for; median of the launches.
    idle : float
        The share of the cores' time, from call to return, outside of parts; median.
    launches : int
        How many were observed.
    """

    participants: list[Participant]
    imbalance: float
    idle: float
    launches: int


@dataclass(frozen=True)
class _Observed:
    """One launch: when it was called and returned, and its parts."""

    called: int
    returned: int
    rows: np.ndarray


def balance_of(launch: Launch, launches: int = _LAUNCHES) -> Balance:
    """Observe some runs of `launch`."""
    observed = _observe(TracedLaunch(launch), launches)
    threads = {int(thread) for own in observed for thread in own.rows["thread"]}
    caller = threading.get_ident()
    ordered = sorted(threads, key=lambda thread: (thread != caller, thread))
    busy = np.array([[_busy(_of(own, thread)) for thread in ordered] for own in observed])
    span = np.array([own.returned - own.called for own in observed]) * 1e-9
    total = busy.sum(axis=1)
    return Balance(
        [_participant(thread, index, observed) for index, thread in enumerate(ordered)],
        float(np.median(busy.max(axis=1) / (total / launch.cores))),
        float(np.median(1 - total / (span * launch.cores))),
        launches,
    )


def _observe(traced: TracedLaunch, launches: int) -> list[_Observed]:
    end = time.perf_counter() + _WARM_UP_SECONDS
    while time.perf_counter() < end:
        traced()
    observed = []
    for _ in range(launches):
        called = time.perf_counter_ns()  # the same clock as the parts'
        rows = traced()
        observed.append(_Observed(called, time.perf_counter_ns(), rows))
    return observed


def _participant(thread: int, index: int, observed: list[_Observed]) -> Participant:
    own = [_of(one, thread) for one in observed]
    late = [
        int(_nanoseconds(rows["began"]).min()) - one.called
        for one, rows in zip(observed, own)
        if rows.size
    ]
    rows = np.concatenate(own)
    count = len(observed)
    return Participant(
        name="caller" if index == 0 else f"worker {index}",
        parts=rows.size / count,
        tiles=float(rows["tiles"].sum()) / count,
        busy=float(np.median([_busy(one) for one in own])),
        on_processor=float(np.median([_busy(one, "own_") for one in own])),
        late=float(np.median(late)) * 1e-9,
        processors=tuple(sorted({int(own) for own in rows["processor"]})),
    )


def _of(observed: _Observed, thread: int) -> np.ndarray:
    return observed.rows[observed.rows["thread"] == thread]


def _busy(rows: np.ndarray, clock: str = "") -> float:
    spent = _nanoseconds(rows[f"{clock}ended"]) - _nanoseconds(rows[f"{clock}began"])
    return float(spent.sum()) * 1e-9


def _nanoseconds(clock: np.ndarray) -> np.ndarray:
    return clock["seconds"] * 1_000_000_000 + clock["nanoseconds"]
