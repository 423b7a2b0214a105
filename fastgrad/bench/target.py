"""A number to reach, and what a run says about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from fastgrad.bench.results import Results


class Seen(NamedTuple):
    """One measured value, and where."""

    value: float
    where: str


#: The values of a run that a number is about.
Find = Callable[[Results], Iterator[Seen]]


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
