"""What a run found: rows, and everything needed to judge or repeat them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fastgrad.bench.accuracy import Accuracy
from fastgrad.bench.contenders import SELF
from fastgrad.bench.spread import Spread, ratios
from fastgrad.bench.startup import NewOperator, Startup
from fastgrad.bench.workloads import Case

Kind = TypeVar("Kind")

# Of the stored form; another one cannot be read.
_FORMAT = 2


@dataclass(frozen=True)
class Row:
    """One case, fastgrad beside its peers; mappings are by contender.

    Parameters
    ----------
    throughput : mapping of Spread
        Samples of the case (`Case.samples`) in a second.
    bound_multiple : mapping of Spread
        Time over that of as many bytes in the fastest streaming addition of the round.
    in_cache : bool
        All arrays together fit into the last-level cache: the bound is no lower limit then.
    ratios : mapping of Spread
        Time of a peer over fastgrad's; above 1 fastgrad is the faster.
    in_place_gain : Spread or None
        Time of the `out` case over that of this `in-place` case, for fastgrad.
    bytes_kept, peak_bytes : mapping of int
        Between forward and backward; of a call above what is there before (see `memory`).
    failures : mapping of str
        Who should have taken part and could not, with the reason.
    samples : mapping of list
        Seconds of a call, one sample a round. Who is known well enough leaves the further rounds
        to the others, so a shorter list is of the first rounds.
    stream_samples, stream_bytes : mapping of list, int
        The same for the streaming addition, and the bytes that it moves.
    """

    case: Case
    in_cache: bool
    milliseconds: dict[str, Spread]
    throughput: dict[str, Spread]
    bound_multiple: dict[str, Spread]
    ratios: dict[str, Spread]
    in_place_gain: Spread | None
    accuracy: dict[str, Accuracy]
    bytes_kept: dict[str, int]
    peak_bytes: dict[str, int]
    code: dict[str, str]
    failures: dict[str, str]
    repetitions: dict[str, int]
    samples: dict[str, list[float]]
    stream_samples: dict[str, list[float]]
    stream_bytes: int

    def ratios_to(self, peer: str) -> list[float]:
        """Time of `peer` over fastgrad's, in each round that both took part in."""
        return paired(self.samples[peer], self.samples[SELF])

    def bound_multiples(self, contender: str) -> list[float]:
        """Multiple of the streaming bound in each round."""
        bound = streaming_bound(self.stream_samples, self.case.bytes_moved / self.stream_bytes)
        return paired(self.samples[contender], bound)


def paired(numerators: list[float], denominators: list[float]) -> list[float]:
    """The ratios of the rounds that both have a sample of."""
    both = min(len(numerators), len(denominators))
    return ratios(numerators[:both], denominators[:both])


def streaming_bound(samples: Mapping[str, list[float]], share: float) -> list[float]:
    """Seconds that `share` of the streaming addition takes, in each round.

    The fastest of a round: a slow walk of fastgrad's own must not loosen its bound.
    """
    return [share * min(taken) for taken in zip(*samples.values())]


@dataclass
class Results:
    """A whole run."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, dict[str, str]]
    missing: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    startup: Startup | None = None
    new_operator: NewOperator | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, ready for JSON."""
        rows = [{**asdict(row), "samples_are": row.case.samples_are} for row in self.rows]
        return {"format": _FORMAT, **asdict(self), "rows": rows}


class NoStoredRun(Exception):
    """A file does not hold a run that can be read; the text says why."""


def load(file: Path) -> Results:
    """The run that `compare --json` stored in `file`.

    Raises
    ------
    NoStoredRun
        If it holds none.
    """
    try:
        stored = json.loads(file.read_text())
    except OSError as error:
        raise NoStoredRun(f"{file}: {error.strerror}") from None
    except ValueError:
        raise NoStoredRun(f"{file} is no JSON, as `compare --json {file}` would write it") from None
    if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
        raise NoStoredRun(
            f"{file} is no run of this version; store one with `compare --json {file}`"
        )
    rows = [_row(row) for row in stored["rows"]]
    head = {name: stored[name] for name in ("machine", "settings", "versions", "missing")}
    return Results(
        **head,
        rows=rows,
        startup=_of_processes(Startup, stored["startup"]),
        new_operator=_of_processes(NewOperator, stored.get("new_operator")),
    )


def _row(stored: dict[str, Any]) -> Row:
    del stored["samples_are"]
    case = Case(**{**stored["case"], "shape": tuple(stored["case"]["shape"])})
    spreads = ("milliseconds", "throughput", "bound_multiple", "ratios")
    gain = stored["in_place_gain"]
    return Row(
        **{
            **stored,
            **{name: _each(Spread, stored[name]) for name in spreads},
            "case": case,
            "in_place_gain": gain and Spread(**gain),
            "accuracy": _each(Accuracy, stored["accuracy"]),
        }
    )


def _each(kind: type, stored: dict[str, dict[str, float]]) -> dict[str, Any]:
    return {name: kind(**values) for name, values in stored.items()}


def _of_processes(kind: Callable[..., Kind], stored: dict[str, Any] | None) -> Kind | None:
    if stored is None:
        return None
    samples = stored.pop("samples")
    return kind(**_each(Spread, stored), samples=samples)
