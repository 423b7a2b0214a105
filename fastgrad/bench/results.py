"""What a run found: rows, and everything needed to judge or repeat them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from fastgrad.bench.accuracy import Accuracy
from fastgrad.bench.spread import Spread
from fastgrad.bench.startup import Startup
from fastgrad.bench.workloads import Case


@dataclass(frozen=True)
class Row:
    """One case, fastgrad beside its peers; mappings are by contender.

    Parameters
    ----------
    bound_multiple : mapping of Spread
        Time over that of as many bytes in the fastest streaming addition of the round.
    in_cache : bool
        All arrays together fit into the last-level cache: the bound is no lower limit then.
    ratios : mapping of Spread
        Time of a peer over fastgrad's; above 1 fastgrad is the faster.
    in_place_gain : Spread or None
        Time of the `out` case over that of this `in-place` case, for fastgrad.
    failures : mapping of str
        Who should have taken part and could not, with the reason.
    samples : mapping of list
        Seconds of a call, one sample a round.
    stream_samples, stream_bytes : mapping of list, int
        The same for the streaming addition, and the bytes that it moves.
    """

    case: Case
    in_cache: bool
    milliseconds: dict[str, Spread]
    bound_multiple: dict[str, Spread]
    ratios: dict[str, Spread]
    in_place_gain: Spread | None
    accuracy: dict[str, Accuracy]
    bytes_kept: dict[str, int]
    code: dict[str, str]
    failures: dict[str, str]
    repetitions: dict[str, int]
    samples: dict[str, list[float]]
    stream_samples: dict[str, list[float]]
    stream_bytes: int


@dataclass
class Results:
    """A whole run."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, dict[str, str]]
    missing: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    startup: Startup | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, ready for JSON."""
        return asdict(self)
