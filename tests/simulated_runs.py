"""Runs of `fastgrad.bench` whose processes are simulated: every number follows from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from fastgrad.bench import compare
from fastgrad.bench.accuracy import Accuracy
from fastgrad.bench.contenders import SELF, Contender
from fastgrad.bench.contenders.protocol import Readiness, Unsupported
from fastgrad.bench.pool import ContenderFailed
from fastgrad.bench.results import Results
from fastgrad.bench.workloads import Case

#: Contenders that only run forward and backward together.
AUTODIFF = ("composed", "compiled", "jitted", "graph", "tape", "sixth", "seventh")

_BYTES_A_SECOND = 40e9
_CALL = 2e-6


class SimulatedMachine:
    """Contenders with times of their own on a machine whose speed drifts.

    Parameters
    ----------
    times : mapping
        Of each contender, as a multiple of what the bytes of a case take.
    seed : int
        Of the noise.
    slower : mapping
        Factors of fastgrad's time by operator.
    noise : mapping
        Deviations of the logarithm of a contender's time; 2 % where it holds none.
    missing : mapping
        Contenders that do not start, with the reason.
    """

    def __init__(
        self,
        times: Mapping[str, float],
        *,
        seed: int = 0,
        slower: Mapping[str, float] | None = None,
        noise: Mapping[str, float] | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> None:
        self.times = {SELF: 1.0, **times}
        self.missing = dict(missing or {})
        self.slower = slower or {}
        self.noise = noise or {}
        self.random = random.Random(seed)
        self._pace = 1.0

    def seconds(self, contender: str, case: Case) -> float:
        """One sample."""
        # The pace wanders by tens of percent in a round, but hardly between two samples.
        self._pace *= self.random.lognormvariate(0, 0.01)
        factor = self.times[contender]
        if contender == SELF:
            factor *= self.slower.get(case.operator, 1)
        noise = self.random.lognormvariate(0, self.noise.get(contender, 0.02))
        return (_CALL + case.bytes_moved / _BYTES_A_SECOND) * factor * noise * self._pace


class SimulatedPool:
    """Stands for `fastgrad.bench.pool.Pool`."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self.missing = machine.missing
        self._workers = {
            name: _Worker(name, machine) for name in machine.times if name not in machine.missing
        }

    def __enter__(self) -> SimulatedPool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Iterator[str]:
        return iter(self._workers)

    def __getitem__(self, name: str) -> _Worker:
        return self._workers[name]


class _Worker:
    def __init__(self, name: str, machine: SimulatedMachine) -> None:
        self.versions = {name: "1.0"}
        self._name = name
        self._machine = machine

    def ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self, f"_{method}", lambda *_: None)(*arguments)

    def _prepare(self, case: Case) -> Readiness:
        both = case.operator.endswith("forward_backward")
        if self._name in AUTODIFF and not both:
            raise Unsupported(case.operator)
        if self._name == "graph" and case.dtype == "float64":
            raise ContenderFailed("TypeError: no float64 here")
        code = f"y, back = {self._name}(x)\ndx = back(dy)" if both else f"{self._name}(x)"
        kept = case.array_bytes * (2 if self._name in AUTODIFF else 1) if both else None
        return Readiness(code, 1, Accuracy(1.5, 1e-7, 0.9999), kept)

    def _peak_bytes(self, case: Case) -> int:
        return 3 * case.array_bytes if case.mode == "allocate" else 0

    def _sample(self, case: Case) -> float:
        return self._machine.seconds(self._name, case)


_DESCRIPTION = {
    "processor": "simulated",
    "processors": 2,
    "last_level_cache": 32 << 20,
    "memory": 16 << 30,
    "busy": 0.0,
    "python": "3.11",
    "date": "2026-01-31",
    "commit": "0123456",
}


def simulate(monkeypatch: pytest.MonkeyPatch, machine: SimulatedMachine) -> None:
    """Let `compare` measure on `machine`."""
    monkeypatch.setattr(compare, "Pool", lambda *_, **__: SimulatedPool(machine))
    monkeypatch.setattr(compare, "describe_machine", lambda: dict(_DESCRIPTION))


def simulated_run(
    monkeypatch: pytest.MonkeyPatch,
    machine: SimulatedMachine,
    groups: Sequence[list[Case]],
    **settings: Any,
) -> Results:
    """`compare.run` on `machine`."""
    simulate(monkeypatch, machine)
    contenders = {name: Contender("nowhere", "simulated") for name in machine.times}
    return compare.run(groups, contenders, **{"rounds": 11, "max_rounds": 33, **settings})
