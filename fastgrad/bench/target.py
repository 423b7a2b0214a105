"""A number to reach, and what a run says about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple


class Seen(NamedTuple):
    """One measured value, and where."""

    value: float
    where: str


#: The values of a run, of any kind of results, that a number is about.
Find = Callable[[Any], Iterator[Seen]]


@dataclass(frozen=True)
class Target:
    """A number to reach.

    Parameters
    ----------
    must, aim : float
        What has to be reached, and what is wanted.
    at_most : bool
        Lower is better.
    find : callable
        The values of a run that the number is about; the worst one counts.
    """

    text: str
    must: float
    aim: float | None
    find: Find
    at_most: bool = False


@dataclass(frozen=True)
class Verdict:
    """The worst value that a run has seen; `seen` is None where it measured none."""

    target: Target
    seen: Seen | None
    count: int

    @property
    def state(self) -> str:
        if self.seen is None:
            return "not measured"
        if not self._reaches(self.target.must):
            return "missed"
        if self.target.aim is None or self._reaches(self.target.aim):
            return "reached"
        return "must reached, aim missed"

    def _reaches(self, number: float) -> bool:
        assert self.seen is not None
        value = self.seen.value
        return value <= number if self.target.at_most else value >= number


def verdicts_on(targets: Iterable[Target], results: Any) -> list[Verdict]:
    """A verdict for each of `targets`."""
    verdicts = []
    for target in targets:
        seen = list(target.find(results))
        worst = max if target.at_most else min
        verdicts.append(
            Verdict(target, worst(seen, key=lambda one: one.value, default=None), len(seen))
        )
    return verdicts
