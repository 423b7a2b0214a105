"""What a run has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fastgrad.bench.contenders import SELF
from fastgrad.bench.spread import Spread, ratio, spread


@dataclass(frozen=True)
class Row:
    """A task, by contender.

    Parameters
    ----------
    samples : mapping
        Seconds of a step in each round.
    kept : mapping
        Bytes that the forward keeps for the backward.
    difference : float, optional
        The largest relative one between fastgrad's result or gradients and PyTorch's.
    """

    name: str
    kind: str
    shape: str
    samples: Mapping[str, Sequence[float]]
    kept: Mapping[str, int]
    difference: float | None

    def milliseconds(self, contender: str) -> Spread | None:
        taken = self.samples.get(contender)
        return spread([1e3 * one for one in taken]) if taken else None

    def ratio(self, peer: str) -> Spread | None:
        """The time of `peer` over fastgrad's."""
        if peer not in self.samples or SELF not in self.samples:
            return None
        return ratio(self.samples[peer], self.samples[SELF])

    def overhead(self, peer: str) -> Spread | None:
        """Microseconds of fastgrad beyond those of `peer`."""
        if peer not in self.samples or SELF not in self.samples:
            return None
        pairs = zip(self.samples[SELF], self.samples[peer])
        return spread([1e6 * (own - other) for own, other in pairs])

    def share_kept(self, peer: str) -> float | None:
        """Bytes kept with fastgrad over those with `peer`."""
        if peer not in self.kept or SELF not in self.kept:
            return None
        return self.kept[SELF] / self.kept[peer]


@dataclass(frozen=True)
class ModuleResults:
    """A run."""

    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    versions: Mapping[str, Mapping[str, str]]
    missing: Mapping[str, str]
    rows: Sequence[Row]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, ready for JSON."""
        return asdict(self)


def difference(own: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> float:
    """The largest distance of two of the arrays, as a share of their length."""
    return max(
        float(np.linalg.norm(a - b) / (np.linalg.norm(b) or 1.0))
        for a, b in zip(own, other, strict=True)
    )
