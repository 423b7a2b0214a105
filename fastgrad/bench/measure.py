"""Interleaved measuring: every contender in turn, A B A B …, in an order shuffled each round."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from fastgrad.bench.contenders import SELF
from fastgrad.bench.contenders.protocol import Readiness, Unsupported
from fastgrad.bench.pool import ContenderFailed, Pool
from fastgrad.bench.results import Row
from fastgrad.bench.spread import Spread, ratio, spread
from fastgrad.bench.workloads import Case, stream_case
from fastgrad.runtime.tiling import last_level_cache


class Entrant(NamedTuple):
    """Who is timed at what."""

    contender: str
    case: Case


class Group:
    """Cases that differ in mode alone, for all contenders, and the streaming addition with them.

    Parameters
    ----------
    pool : Pool
        The contenders; fastgrad is one of them.
    cases : sequence of Case
        At one operator, shape and dtype.
    """

    def __init__(self, pool: Pool, cases: Sequence[Case]) -> None:
        self._pool = pool
        self._cases = cases
        # Beyond the last-level cache even where the case is not: the bound is memory's.
        self._stream = stream_case(max(cases[0].bytes_moved, 2 * last_level_cache()))
        self._ready: dict[Entrant, Readiness] = {}
        self._failures: dict[Entrant, str] = {}
        self._samples: dict[Entrant, list[float]] = {}

    def measure(self, rounds: int, order: random.Random) -> list[Row]:
        """One row a case, over `rounds` rounds in the order of `order`."""
        self._prepare()
        for _ in range(rounds):
            self._take_round(order)
        return [self._row(case) for case in self._cases]

    def _prepare(self) -> None:
        self._make_room()
        # The stream first: its inputs are others than those that the cases share.
        cases = [self._stream, *self._cases]
        for entrant in [Entrant(name, case) for case in cases for name in self._pool]:
            try:
                answer = self._pool[entrant.contender].ask("prepare", entrant.case)
            except Unsupported:
                continue
            except ContenderFailed as reason:
                self._fail(entrant, reason)
            else:
                self._ready[entrant] = answer
                self._samples[entrant] = []
        if not self._samples_of(self._stream):
            reasons = self._failures_of(self._stream)
            raise ContenderFailed(f"nobody could measure the streaming bound: {reasons}")

    def _take_round(self, order: random.Random) -> None:
        entrants = list(self._samples)
        order.shuffle(entrants)
        for entrant in entrants:
            try:
                seconds = self._pool[entrant.contender].ask("sample", entrant.case)
            except ContenderFailed as reason:
                self._fail(entrant, reason)
            else:
                self._samples[entrant].append(seconds)

    def _fail(self, entrant: Entrant, reason: Exception) -> None:
        self._failures[entrant] = str(reason)
        self._samples.pop(entrant, None)

    def _make_room(self) -> None:
        """Free what the group before needed; the stream is often the same."""
        for name in self._pool:
            try:
                self._pool[name].ask("keep_only", self._stream)
            except ContenderFailed:
                continue  # it is dead, and its rows will say so

    def _row(self, case: Case) -> Row:
        samples = self._samples_of(case)
        ready = {name: self._ready[Entrant(name, case)] for name in samples}
        return Row(
            case=case,
            in_cache=case.bytes_moved <= last_level_cache(),
            milliseconds={
                name: spread([1e3 * seconds for seconds in taken])
                for name, taken in samples.items()
            },
            bound_multiple={
                name: self._bound_multiple(case, taken) for name, taken in samples.items()
            },
            ratios=_ratios(samples),
            in_place_gain=self._in_place_gain(case),
            accuracy={name: answer.accuracy for name, answer in ready.items()},
            bytes_kept={
                name: answer.bytes_kept
                for name, answer in ready.items()
                if answer.bytes_kept is not None
            },
            code={name: answer.code for name, answer in ready.items()},
            failures=self._failures_of(self._stream) | self._failures_of(case),
            repetitions={name: answer.repetitions for name, answer in ready.items()},
            samples=samples,
            stream_samples=self._samples_of(self._stream),
            stream_bytes=self._stream.bytes_moved,
        )

    def _samples_of(self, case: Case) -> dict[str, list[float]]:
        return {one.contender: taken for one, taken in self._samples.items() if one.case == case}

    def _failures_of(self, case: Case) -> dict[str, str]:
        return {one.contender: why for one, why in self._failures.items() if one.case == case}

    def _bound_multiple(self, case: Case, samples: Sequence[float]) -> Spread:
        # The fastest of a round: a slow walk of fastgrad's own must not loosen its bound.
        fastest = [min(taken) for taken in zip(*self._samples_of(self._stream).values())]
        share = case.bytes_moved / self._stream.bytes_moved
        return ratio(samples, [share * seconds for seconds in fastest])

    def _in_place_gain(self, case: Case) -> Spread | None:
        plain = Case(case.operator, case.shape, case.dtype, "out")
        both = [self._samples.get(Entrant(SELF, one)) for one in (plain, case)]
        if case.mode != "in-place" or both[0] is None or both[1] is None:
            return None
        return ratio(both[0], both[1])


def _ratios(samples: dict[str, list[float]]) -> dict[str, Spread]:
    if SELF not in samples:
        return {}
    return {name: ratio(taken, samples[SELF]) for name, taken in samples.items() if name != SELF}
