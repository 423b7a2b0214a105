"""Interleaved measuring: every contender in turn, A B A B …, in an order shuffled each round."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fastgrad.bench.contenders import SELF
from fastgrad.bench.contenders.protocol import Readiness, Unsupported
from fastgrad.bench.pool import ContenderFailed, Pool
from fastgrad.bench.results import Row, paired, streaming_bound
from fastgrad.bench.spread import Spread, spread, uncertainty
from fastgrad.bench.workloads import KERNELS, Case, stream_case
from fastgrad.runtime.tiling import last_level_cache


class Entrant(NamedTuple):
    """Who is timed at what."""

    contender: str
    case: Case


@dataclass(frozen=True)
class Sampling:
    """How many samples are taken.

    Parameters
    ----------
    rounds : int
        Samples of every entrant.
    most : int
        With those that are added while a ratio is not known well enough.
    precision : float
        How well the median of a ratio has to be known: half its 95 % interval, as a share of it.
    """

    rounds: int
    most: int
    precision: float


# Of a contender in a group. Whoever is this slow is far from fastgrad: a few samples say how far.
_SECONDS = 4.0
_LEAST_SAMPLES = 3

# Between rounds arrays are put elsewhere, or the place that they found would decide a whole run: each time
# where that takes no longer than a sample, and of those who do not compile for seconds.
_QUICK_TO_MOVE = (SELF, *KERNELS)
_SMALL_BYTES = 4 << 20
_ROUNDS_IN_ONE_PLACE = 4


class Group:
    """Cases that differ in mode alone, for all contenders, and the streaming addition with them.

    Parameters
    ----------
    pool : Pool
        The contenders; fastgrad is one of them.
    cases : sequence of Case
        At one operator, shape and dtype.
    names : sequence of str, optional
        Who of the pool takes part; everyone by default.
    """

    def __init__(
        self, pool: Pool, cases: Sequence[Case], names: Sequence[str] | None = None
    ) -> None:
        self._pool = pool
        self._cases = cases
        self._names = list(pool) if names is None else names
        # Beyond the last-level cache even where the case is not: the bound is memory's.
        self._stream = stream_case(max(cases[0].bytes_moved, 2 * last_level_cache()))
        self._ready: dict[Entrant, Readiness] = {}
        self._peak_bytes: dict[Entrant, int] = {}
        self._failures: dict[Entrant, str] = {}
        self._samples: dict[Entrant, list[float]] = {}

    def measure(self, sampling: Sampling, order: random.Random) -> list[Row]:
        """One row a case; the entrants of a round go in the order of `order`."""
        self._prepare()
        for number in range(sampling.most):
            # Who is settled stays so without further samples, so samples remain those of the first rounds.
            if number < sampling.rounds:
                entrants = [one for one in self._samples if self._has_time(one)]
            else:
                entrants = self._unsettled(sampling.precision)
            if not entrants:
                break
            if number:
                self._move([one for one in entrants if _moves_before(number, one)])
            self._take_round(entrants, order)
        return [self._row(case) for case in self._cases]

    def _prepare(self) -> None:
        # This makes room; the stream is often that of the last group.
        self._tell_all("keep_only", self._stream)
        # The stream first: its inputs are others than those that the cases share.
        for case in [self._stream, *self._cases]:
            for name in self._names:
                self._prepare_entrant(Entrant(name, case))
        self._tell_all("drop_large_inputs")
        if not self._samples_of(self._stream):
            reasons = self._failures_of(self._stream)
            raise ContenderFailed(f"nobody could measure the streaming bound: {reasons}")

    def _prepare_entrant(self, entrant: Entrant) -> None:
        worker = self._pool[entrant.contender]
        try:
            self._ready[entrant] = worker.ask("prepare", entrant.case)
            peak = worker.ask("peak_bytes", entrant.case) if entrant.case != self._stream else None
        except Unsupported:
            return
        except ContenderFailed as reason:
            self._fail(entrant, reason)
            return
        if peak is not None:
            self._peak_bytes[entrant] = peak
        self._samples[entrant] = []

    def _move(self, entrants: list[Entrant]) -> None:
        for entrant in entrants:
            try:
                self._pool[entrant.contender].ask("move", entrant.case)
            except ContenderFailed as reason:
                self._fail(entrant, reason)

    def _take_round(self, entrants: list[Entrant], order: random.Random) -> None:
        order.shuffle(entrants)
        for entrant in entrants:
            if entrant not in self._samples:
                continue  # it has failed
            try:
                seconds = self._pool[entrant.contender].ask("sample", entrant.case)
            except ContenderFailed as reason:
                self._fail(entrant, reason)
            else:
                self._samples[entrant].append(seconds)

    def _has_time(self, entrant: Entrant) -> bool:
        """Whether it may be sampled once more."""
        taken, answer = self._samples[entrant], self._ready[entrant]
        # Each sample is warmed up for as long, or longer.
        return len(taken) < _LEAST_SAMPLES or 2 * sum(taken) * answer.repetitions < _SECONDS

    def _unsettled(self, precision: float) -> list[Entrant]:
        """Who takes part in a ratio that is not known to `precision`, and has time left."""
        found = [
            entrants
            for entrants, ratios in self._ratios()
            if ratios and all(map(self._has_time, entrants)) and uncertainty(ratios) > precision
        ]
        return list(dict.fromkeys(entrant for entrants in found for entrant in entrants))

    def _ratios(self) -> Iterator[tuple[list[Entrant], list[float]]]:
        """Every ratio that a row shows of fastgrad, round by round, and whose samples make it."""
        streams = [one for one in self._samples if one.case == self._stream]
        for case in self._cases:
            own = Entrant(SELF, case)
            if own not in self._samples:
                continue
            yield [own, *streams], self._bound_multiples(own)
            for entrant in self._samples:
                if entrant.case == case and entrant != own:
                    yield [own, entrant], paired(self._samples[entrant], self._samples[own])
            plain = Entrant(SELF, _written_elsewhere(case))
            if case.mode == "in-place" and plain in self._samples:
                yield [own, plain], paired(self._samples[plain], self._samples[own])

    def _fail(self, entrant: Entrant, reason: Exception) -> None:
        self._failures[entrant] = str(reason)
        self._samples.pop(entrant, None)

    def _tell_all(self, method: str, *arguments: Case) -> None:
        for name in self._pool:
            try:
                self._pool[name].ask(method, *arguments)
            except ContenderFailed:
                continue  # it is dead, and its rows will say so

    def _row(self, case: Case) -> Row:
        samples = self._samples_of(case)
        ready = {name: self._ready[Entrant(name, case)] for name in samples}
        seconds = {name: spread(taken) for name, taken in samples.items()}
        return Row(
            case=case,
            in_cache=case.bytes_moved <= last_level_cache(),
            milliseconds={
                name: Spread(1e3 * one.median, 1e3 * one.low, 1e3 * one.high)
                for name, one in seconds.items()
            },
            throughput={
                name: Spread(*(case.samples / part for part in (one.median, one.high, one.low)))
                for name, one in seconds.items()
            },
            bound_multiple={
                name: spread(self._bound_multiples(Entrant(name, case))) for name in samples
            },
            ratios=_ratios_to_self(samples),
            in_place_gain=self._in_place_gain(case),
            accuracy={name: answer.accuracy for name, answer in ready.items()},
            bytes_kept={
                name: answer.bytes_kept
                for name, answer in ready.items()
                if answer.bytes_kept is not None
            },
            peak_bytes={
                one.contender: count for one, count in self._peak_bytes.items() if one.case == case
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

    def _bound_multiples(self, entrant: Entrant) -> list[float]:
        share = entrant.case.bytes_moved / self._stream.bytes_moved
        bound = streaming_bound(self._samples_of(self._stream), share)
        return paired(self._samples[entrant], bound)

    def _in_place_gain(self, case: Case) -> Spread | None:
        plain = self._samples.get(Entrant(SELF, _written_elsewhere(case)))
        own = self._samples.get(Entrant(SELF, case))
        if case.mode != "in-place" or plain is None or own is None:
            return None
        return spread(paired(plain, own))


def _moves_before(number: int, entrant: Entrant) -> bool:
    small = entrant.case.array_bytes <= _SMALL_BYTES
    return entrant.contender in _QUICK_TO_MOVE and (small or number % _ROUNDS_IN_ONE_PLACE == 0)


def _written_elsewhere(case: Case) -> Case:
    return Case(case.operator, case.shape, case.dtype, "out")


def _ratios_to_self(samples: dict[str, list[float]]) -> dict[str, Spread]:
    if SELF not in samples:
        return {}
    return {
        name: spread(paired(taken, samples[SELF]))
        for name, taken in samples.items()
        if name != SELF
    }
