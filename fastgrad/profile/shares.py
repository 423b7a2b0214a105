"""Where the time of a call goes: its parts, timed in turn so that all see the same machine."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fastgrad.bench.contenders.fastgrad_ import prepare
from fastgrad.bench.contenders.protocol import Prepared
from fastgrad.bench.inputs import input_arrays
from fastgrad.bench.timing import choose_repetitions, seconds_per_call
from fastgrad.bench.workloads import stream_case
from fastgrad.profile.launches import Launch, launches_of, left_out
from fastgrad.profile.moving import BOTH, IN, OUT, moving
from fastgrad.profile.subject import Subject
from fastgrad.program.compile import compiled
from fastgrad.program.program import Program
from fastgrad.runtime.tiling import last_level_cache

__all__ = ["LaunchTimes", "Seconds", "Times", "measure"]

#: One sample a round.
Seconds = np.ndarray[Any, np.dtype[np.float64]]

Progress = Callable[[Sequence[int]], Iterable[int]]


@dataclass(frozen=True)
class LaunchTimes:
    """One launch of the call, and the passes of its walk, each alone.

    Attributes
    ----------
    launch : Launch
        What was launched.
    program : Program or None
        What it computes; None for a kernel that is made of no program.
    whole, empty : Seconds
        The launch, and the same of no tiles.
    moved : dict of Seconds
        By ``"in"``, ``"out"``, ``"both"``: the same walk, which moves these bytes and does nothing
        else. Empty without a program.
    compute : Seconds
        The walk on one core with all data in its first-level cache, for an element.
    """

    launch: Launch
    program: Program | None
    whole: Seconds
    empty: Seconds
    moved: dict[str, Seconds]
    compute: Seconds


@dataclass(frozen=True)
class Times:
    """What one call takes.

    Attributes
    ----------
    call, dispatch : Seconds
        The call of the user, and the same with its launches left out.
    bound : Seconds
        What the streaming addition takes for as many bytes as the call moves.
    launches : list of LaunchTimes
        In the order of the call.
    """

    call: Seconds
    dispatch: Seconds
    bound: Seconds
    launches: list[LaunchTimes]


class _Timed(NamedTuple):
    """Something to time, how, and what has to hold meanwhile."""

    call: Callable[[], Any]
    seconds: Callable[[Prepared, int], float] = seconds_per_call
    within: Callable[[], AbstractContextManager[Any]] = nullcontext


_Key = tuple[Any, ...]

_MOVED = {"in": IN, "out": OUT, "both": BOTH}


def measure(subject: Subject, rounds: int, progress: Progress = lambda rounds: rounds) -> Times:
    """Time the call of `subject` and its parts.

    Parameters
    ----------
    rounds : int
        Samples of each.
    progress : callable
        Wraps the rounds as they are gone through.
    """
    launches = launches_of(subject.call)
    programs = [_program_of(launch, subject) for launch in launches]
    # As in `compare`: beyond the last-level cache even where the call is not; it is memory's bound.
    stream = stream_case(max(subject.case.bytes_moved, 2 * last_level_cache()))
    timed: dict[_Key, _Timed] = {
        ("call",): _Timed(subject.call, _clock(*launches)),
        ("dispatch",): _Timed(subject.call, _processor_seconds, left_out),
        ("stream",): _Timed(prepare(stream, input_arrays(stream, 0)).call),
    }
    for index, (launch, program) in enumerate(zip(launches, programs)):
        timed.update({(index, *k): own for k, own in _parts(launch, program, subject).items()})
    samples = _interleaved(timed, rounds, progress)
    return Times(
        call=samples["call",],
        dispatch=samples["dispatch",],
        bound=samples["stream",] * (subject.case.bytes_moved / stream.bytes_moved),
        launches=[
            _launch_times(
                launch, program, {k[1:]: own for k, own in samples.items() if k[0] == index}
            )
            for index, (launch, program) in enumerate(zip(launches, programs))
        ],
    )


def _program_of(launch: Launch, subject: Subject) -> Program | None:
    for program in subject.programs:
        if compiled(program, subject.precision).tiles is launch.tiles:
            return program
    return None


def _parts(launch: Launch, program: Program | None, subject: Subject) -> dict[_Key, _Timed]:
    """The launch, and its parts alone."""
    small = launch.in_cache()
    seconds = _clock(launch)
    timed: dict[_Key, _Timed] = {
        ("whole",): _Timed(launch, seconds),
        ("empty",): _Timed(launch.empty(), seconds),
        ("in cache",): _Timed(small, _processor_seconds),
        ("in cache, empty",): _Timed(small.empty(), _processor_seconds),
    }
    if program is not None and not all(result.reduced for result in program.results):
        for name, what in _MOVED.items():
            moved = moving(launch, program, subject.precision, what)
            timed["moved", name] = _Timed(moved, seconds)
    return timed


def _clock(*launches: Launch) -> Callable[[Prepared, int], float]:
    """How to time a call with these launches."""
    is_serial = all(launch.cores == 1 for launch in launches)
    return _processor_seconds if is_serial else seconds_per_call


def _launch_times(
    launch: Launch, program: Program | None, samples: Mapping[_Key, Seconds]
) -> LaunchTimes:
    empty = samples["empty",]
    return LaunchTimes(
        launch,
        program,
        samples["whole",],
        empty,
        {key[1]: own - empty for key, own in samples.items() if key[0] == "moved"},
        (samples["in cache",] - samples["in cache, empty",]) / launch.in_cache().size,
    )


def _interleaved(
    timed: Mapping[_Key, _Timed], rounds: int, progress: Progress
) -> dict[_Key, Seconds]:
    """Seconds of each, in every round in another order."""
    prepared = {key: Prepared(own.call, lambda result: (), "") for key, own in timed.items()}
    repetitions: dict[_Key, int] = {}
    for key, own in timed.items():
        with own.within():
            repetitions[key] = choose_repetitions(prepared[key])
    samples: dict[_Key, list[float]] = {key: [] for key in timed}
    order = random.Random(0)
    for _ in progress(range(rounds)):
        keys = list(timed)
        order.shuffle(keys)
        for key in keys:
            with timed[key].within():
                samples[key].append(timed[key].seconds(prepared[key], repetitions[key]))
    return {key: np.array(taken) for key, taken in samples.items()}


def _processor_seconds(prepared: Prepared, repetitions: int) -> float:
    """Of a call on this thread alone, by its own clock: others on its core do not count."""
    prepared.call()
    start = time.thread_time()
    for _ in itertools.repeat(None, repetitions):
        prepared.call()
    return (time.thread_time() - start) / repetitions
