"""A stored run beside a new one of the same rows: what moved by more than the noise of both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from fastgrad.bench.contenders import SELF
from fastgrad.bench.machine import BUSY
from fastgrad.bench.results import Results, Row
from fastgrad.bench.spread import spread, uncertainty
from fastgrad.bench.tables import Cell, Table, percent, shape_text, short
from fastgrad.bench.workloads import Case

#: Two runs of the same build differ by less than this; what changes by less has not moved.
LEAST = 0.05
#: What moved has changed by this many half widths of the 95 % interval of the change. One would let a
#: twentieth of the hundreds of ratios of a run move by chance.
SURE = 2
# A change of this size has to show up; where the noise hides it, the report says so.
_TO_BE_SEEN = 0.1
# The share of its ratios that have to agree before fastgrad itself is said to have moved.
_AGREEING = 2 / 3

_BOUND = "bound"


@dataclass(frozen=True)
class Change:
    """One ratio of a row in two runs.

    Parameters
    ----------
    against : str
        The peer, or the streaming bound.
    before, now : float
        Medians.
    noise : float
        Half the 95 % interval of the change.
    """

    against: str
    before: float
    now: float
    noise: float

    @property
    def change(self) -> float:
        """Natural logarithm of now over before: small ones are shares."""
        return math.log(self.now / self.before)

    @property
    def slower(self) -> float:
        """The change as if fastgrad alone had caused it; positive where it became slower."""
        return self.change if self.against == _BOUND else -self.change

    @property
    def least(self) -> float:
        """The smallest change that counts."""
        return max(LEAST, SURE * self.noise)

    @property
    def moved(self) -> bool:
        return abs(self.change) > self.least

    def __str__(self) -> str:
        what = "× bound" if self.against == _BOUND else self.against
        numbers = f"{short(self.before)} → {short(self.now)}, {_signed(self.change)}"
        return f"{what} {numbers} (noise {percent(self.noise)})"


@dataclass(frozen=True)
class Moved:
    """All ratios of one row in two runs."""

    case: Case
    changes: Sequence[Change]

    @property
    def moved(self) -> list[Change]:
        return [change for change in self.changes if change.moved]

    @property
    def slower(self) -> float:
        """How much slower fastgrad is, judged by all its ratios; a logarithm."""
        return median(change.slower for change in self.changes)

    @property
    def is_fastgrad(self) -> bool:
        """Whether it must be fastgrad's time that changed, which moves all ratios of a row alike."""
        sign = math.copysign(1, self.slower)
        agreeing = [change for change in self.changes if sign * change.slower > LEAST / 2]
        return abs(self.slower) > LEAST and len(agreeing) >= _AGREEING * len(self.changes)

    @property
    def who(self) -> str:
        """Whose time it is that changed."""
        if self.is_fastgrad:
            return f"{SELF} {percent(abs(math.expm1(self.slower)))} {_pace(self.slower)}"
        # What looks like a slower fastgrad against one alone is that one, and faster.
        return ", ".join(f"{change.against} {_pace(-change.slower)}" for change in self.moved)


def compare_runs(before: Results, now: Results) -> list[Moved]:
    """The ratios of every row that both runs hold."""
    of_case = {row.case: row for row in now.rows}
    pairs = [(row, of_case[row.case]) for row in before.rows if row.case in of_case]
    found = [Moved(old.case, list(_changes(old, new))) for old, new in pairs]
    return [one for one in found if one.changes]


def _changes(old: Row, new: Row) -> Iterator[Change]:
    if SELF not in old.samples or SELF not in new.samples:
        return
    yield _change(_BOUND, old.bound_multiples(SELF), new.bound_multiples(SELF))
    for peer in old.ratios:
        if peer in new.ratios:
            yield _change(peer, old.ratios_to(peer), new.ratios_to(peer))


def _change(against: str, old: Sequence[float], new: Sequence[float]) -> Change:
    noise = math.hypot(uncertainty(old), uncertainty(new))
    return Change(against, spread(old).median, spread(new).median, noise)


def moved_table(rows: Sequence[Moved]) -> Table:
    """The rows of which a ratio moved."""
    return Table(
        "What moved",
        ["operator", "shape", "dtype", "mode", "who", "before → now"],
        [
            [
                Cell(one.case.operator),
                Cell(shape_text(one.case.shape)),
                Cell(one.case.dtype),
                Cell(one.case.mode),
                Cell(one.who, _tone(one)),
                Cell("\n".join(map(str, one.moved))),
            ]
            for one in rows
            if one.moved
        ],
        labels=4,
        folds=True,
    )


def summary(rows: Sequence[Moved]) -> list[str]:
    """The two runs in a few lines."""
    changes = [change for one in rows for change in one.changes]
    if not changes:
        return ["the two runs have no row in common"]
    within = sum(abs(change.change) <= LEAST for change in changes)
    moved = sum(change.moved for change in changes)
    hidden = sum(change.least > math.log(1 + _TO_BE_SEEN) for change in changes)
    own = sum(bool(one.moved) and one.is_fastgrad for one in rows)
    lines = [
        f"now over before, {_over(changes)}",
        *(f"  {name}: {_over(found)}" for name, found in _by_opponent(changes).items()),
        f"{within} of {len(changes)} ratios changed by at most {percent(LEAST)}; {moved} moved: by "
        f"more than {percent(LEAST)} and {SURE} times the noise (half the 95 % interval of the change)",
        f"{SELF} itself moved in {own} of {len(rows)} rows: there the ratios agree",
    ]
    if hidden:
        lines.append(
            f"{hidden} of them are too noisy to show a change of {percent(_TO_BE_SEEN)}: repeat both "
            "runs on a quieter machine, or with a larger --max-rounds"
        )
    return lines


def differences(before: Results, now: Results) -> list[str]:
    """What else than the code differs between the runs: machine, versions, who takes part."""
    found = [
        f"{name}: {before.machine.get(name)} → {now.machine.get(name)}"
        for name in ("processor", "processors", "python", "commit")
        if before.machine.get(name) != now.machine.get(name)
    ]
    for when, run in (("before", before), ("now", now)):
        if run.machine["busy"] > BUSY:
            found.append(f"the machine was busy {when}: what moved may be the doing of others")
    for name in sorted({*before.versions, *now.versions}):
        old, new = before.versions.get(name), now.versions.get(name)
        if old != new:
            found.append(f"{name}: {_versions(old)} → {_versions(new)}")
    return found


def _by_opponent(changes: Sequence[Change]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in changes:
        name = "× bound" if change.against == _BOUND else f"{change.against} over {SELF}"
        found.setdefault(name, []).append(change)
    return found


def _over(changes: Sequence[Change]) -> str:
    middle = spread([math.exp(change.change) for change in changes])
    return (
        f"median of {len(changes)} ratios {middle.median:.3f} "
        f"(quartiles {middle.low:.3f} to {middle.high:.3f})"
    )


def _versions(versions: dict[str, str] | None) -> str:
    if versions is None:
        return "not there"
    return ", ".join(f"{library} {version}" for library, version in versions.items())


def _pace(slower: float) -> str:
    return "slower" if slower > 0 else "faster"


def _signed(change: float) -> str:
    share = math.expm1(change)
    return f"{'+' if share > 0 else '−'}{percent(abs(share))}"


def _tone(one: Moved) -> str:
    if not one.is_fastgrad:
        return ""
    return "bad" if one.slower > 0 else "good"
