"""A norm and the ways to run it: all that a contender needs to know of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastgrad.bench.forms import PARAMETERS, NormForm
from fastgrad.bench.norm_references import NormReference


@dataclass(frozen=True)
class Norm:
    """A norm by the name that it has in fastgrad.

    Parameters
    ----------
    form : NormForm
        Its rows.
    keywords : mapping
        What it is told besides arrays.
    is_rms : bool
        Without a mean and a beta.
    has_swish, has_residual : bool
        Whether a swish follows; whether it adds a residual first, and returns the sum too.
    """

    name: str
    form: NormForm
    keywords: Mapping[str, Any] = field(default_factory=dict)
    is_rms: bool = False
    has_swish: bool = False
    has_residual: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        return PARAMETERS[:1] if self.is_rms else PARAMETERS

    @property
    def channels_last(self) -> bool:
        return self.keywords.get("data_format") == "NHWC"

    @property
    def statistics(self) -> tuple[str, ...]:
        """What forward saves for backward besides its input."""
        return ("rstd",) if self.is_rms else ("mean", "rstd")

    @property
    def gradients(self) -> tuple[str, ...]:
        return ("dx", *(f"d{name}" for name in self.parameters))


@dataclass(frozen=True)
class NormCall:
    """One way to run a norm.

    Parameters
    ----------
    direction : str
        ``"forward"``; ``"gradient"``, from what a forward kept that ran before, untimed; or ``"both"``.
    inputs, results : tuple of str
        Names of its arrays.
    """

    norm: Norm
    direction: str
    inputs: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def incoming(self) -> tuple[str, ...]:
        """Those of its inputs that are gradients of results."""
        return tuple(name for name in self.inputs if name in ("dy", "dsum"))

    @property
    def operands(self) -> tuple[str, ...]:
        """Those of which the gradients are wanted, if any are."""
        return self.inputs[len(self.incoming) :]

    @property
    def of_sum(self) -> bool:
        """Whether it starts behind the addition of the residual."""
        return "sum" in self.operands

    @property
    def function(self) -> str:
        """The name of what it runs or differentiates."""
        return self.norm.name.removeprefix("add_") if self.of_sum else self.norm.name

    @property
    def arrays_moved(self) -> int:
        """The arrays as large as `x`, each touched once in either direction."""
        names = [*self.inputs, *self.results]
        moved = sum(name.removeprefix("d") not in PARAMETERS for name in names)
        return moved + 1 if self.direction == "both" else moved  # `x` is read by both

    def references(self) -> Iterator[NormReference]:
        """What its results are, in their order."""
        norm = self.norm
        for name in self.results:
            yield NormReference(name, norm.form, norm.is_rms, norm.has_swish)


def forward(norm: Norm) -> NormCall:
    arrays, results = (("x", "residual"), ("y", "sum")) if norm.has_residual else (("x",), ("y",))
    return NormCall(norm, "forward", (*arrays, *norm.parameters), results)


def gradient(norm: Norm) -> NormCall:
    arrays = ("dy", "dsum", "sum") if norm.has_residual else ("dy", "x")
    return NormCall(norm, "gradient", (*arrays, *norm.parameters), norm.gradients)


def both(norm: Norm) -> NormCall:
    return NormCall(norm, "both", ("dy", "x", *norm.parameters), ("y", *norm.gradients))
