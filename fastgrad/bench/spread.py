"""Medians and quartiles of samples, and of ratios formed round by round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Of normally distributed samples: their deviation by the distance of their quartiles, the standard error
# of their median by their deviation, the half width of an interval that holds 95 % by its error, and how
# much wider it is, over their number, as Student's distribution has it.
_DEVIATION = 1 / 1.349
_ERROR_OF_MEDIAN = 1.253
_HALF_WIDTH = 1.96
_OF_FEW = 1.5


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles."""

    median: float
    low: float
    high: float

    @property
    def share(self) -> float:
        """Half the distance of the quartiles, as a share of the median."""
        return (self.high - self.low) / (2 * self.median)


def spread(samples: Sequence[float]) -> Spread:
    """Median and quartiles of `samples`."""
    low, median, high = np.quantile(samples, [0.25, 0.5, 0.75])
    return Spread(float(median), float(low), float(high))


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """Median and quartiles of the ratios of samples taken in the same round.

    Both samples of a pair saw the same state of the machine, so what slows down both (another
    process, the clock) cancels; it would not in a ratio of two medians.
    """
    return spread(ratios(numerators, denominators))


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """The ratio of each round."""
    if len(numerators) != len(denominators):
        raise ValueError(
            f"{len(numerators)} numerators and {len(denominators)} denominators are no pairs"
        )
    return [above / below for above, below in zip(numerators, denominators)]


def uncertainty(samples: Sequence[float]) -> float:
    """How well the median of `samples` is known: half its 95 % interval, as a share of it.

    From the distance of the quartiles, which a few wild samples do not move; of logarithms, so that
    a ratio and its inverse are known equally well.
    """
    low, high = np.quantile(np.log(samples), [0.25, 0.75])
    error = _ERROR_OF_MEDIAN * _DEVIATION * (high - low) / math.sqrt(len(samples))
    return float(_HALF_WIDTH * (1 + _OF_FEW / len(samples)) * error)
