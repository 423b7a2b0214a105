"""What `patch` did to a model, and what it left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Left", "Replaced", "Report"]


@dataclass(frozen=True)
class Replaced:
    """A module, by its name in the model: what it was and what it is now."""

    name: str
    was: str
    now: str


@dataclass(frozen=True)
class Left:
    """A module that stays PyTorch's, or modules that are not fused, and why."""

    name: str
    was: str
    reason: str


@dataclass
class Report:
    """The result of `patch`; printed, it is a table.

    Attributes
    ----------
    replaced : list of Replaced
        In the order of `model.named_modules()`.
    left : list of Left
        What might have been replaced or fused, and is not.
    share : float or None
        The share of a step's time that the replaced modules took before, where it was measured.
    """

    replaced: list[Replaced] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    share: float | None = None

    def __str__(self) -> str:
        lines = [f"{len(self.replaced)} modules replaced, {len(self.left)} left"]
        if self.share is not None:
            lines[0] += f"; the replaced took about {self.share:.0%} of a step"
        for title, rows in (
            ("replaced", [(r.was, r.now) for r in self.replaced]),
            ("left", [(own.was, own.reason) for own in self.left]),
        ):
            names = [own.name for own in (self.replaced if title == "replaced" else self.left)]
            lines += _table(title, rows, names)
        return "\n".join(lines)

    __repr__ = __str__


def _table(title: str, rows: list[tuple[str, str]], names: list[str]) -> list[str]:
    """One line for what is alike: how many, what, what of it, the first name."""
    counts = Counter(rows)
    if not counts:
        return []
    width = max(len(was) for was, _ in counts)
    rest = max(len(what) for _, what in counts)
    lines = ["", f"{title}:"]
    for (was, what), count in counts.items():
        first = names[rows.index((was, what))] or "(the model)"
        more = f" and {count - 1} more" if count > 1 else ""
        lines.append(f"  {count:4d} × {was:{width}}  {what:{rest}}  {first}{more}")
    return lines
