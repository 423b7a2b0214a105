"""Medians and quartiles of samples, and of ratios formed round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles."""

    median: float
    low: float
    high: float


def spread(samples: Sequence[float]) -> Spread:
    """Median and quartiles of `samples`."""
    low, median, high = np.quantile(samples, [0.25, 0.5, 0.75])
    return Spread(float(median), float(low), float(high))


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """Median and quartiles of the ratios of samples taken in the same round.

    Both samples of a pair saw the same state of the machine, so what slows down both (another
    process, the clock) cancels; it would not in a ratio of two medians.
    """
    if len(numerators) != len(denominators):
        raise ValueError(
            f"{len(numerators)} numerators and {len(denominators)} denominators are no pairs"
        )
    return spread([above / below for above, below in zip(numerators, denominators)])
