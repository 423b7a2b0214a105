"""The numbers to reach, and what a run has seen of them.

A new number is one entry of `TARGETS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastgrad.bench.contenders import SELF
from fastgrad.bench.results import Results, Row
from fastgrad.bench.workloads import BEYOND_CACHE, CALL, FEATURE_MAP, KERNELS, Shape

_HALF = ("float16", "bfloat16")
# The numbers were set before float64 was measured.
_SET_FOR = ("float32", *_HALF)


class Seen(NamedTuple):
    """One measured value, and where."""

    value: float
    where: str


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
    find: Callable[[Results], Iterator[Seen]]
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


def judge(results: Results) -> list[Verdict]:
    """A verdict for each of `TARGETS`."""
    verdicts = []
    for target in TARGETS:
        seen = list(target.find(results))
        worst = max if target.at_most else min
        verdicts.append(
            Verdict(target, worst(seen, key=lambda one: one.value, default=None), len(seen))
        )
    return verdicts


def _rows(
    results: Results,
    operator: str | None,
    *,
    mode: str = "out",
    shapes: tuple[Shape, ...] = (),
    dtypes: tuple[str, ...] = _SET_FOR,
    least: int = 1,
) -> Iterator[Row]:
    for row in results.rows:
        if (
            operator in (None, row.case.operator)
            and row.case.mode == mode
            and (not shapes or row.case.shape in shapes)
            and row.case.dtype in dtypes
            and row.case.elements >= least
        ):
            yield row


def _where(row: Row, peer: str = "") -> str:
    return f"{row.case}, {peer}" if peer else str(row.case)


def _against_aten(operator: str | None, **where: Any) -> Callable[[Results], Iterator[Seen]]:
    def find(results: Results) -> Iterator[Seen]:
        for row in _rows(results, operator, **where):
            for peer in KERNELS:
                if peer in row.ratios:
                    yield Seen(row.ratios[peer].median, _where(row, peer))

    return find


def _share_of_aten(**where: Any) -> Callable[[Results], Iterator[Seen]]:
    def find(results: Results) -> Iterator[Seen]:
        for seen in _against_aten(None, **where)(results):
            yield Seen(1 / seen.value, seen.where)

    return find


def _bound_multiple(operator: str, **where: Any) -> Callable[[Results], Iterator[Seen]]:
    def find(results: Results) -> Iterator[Seen]:
        for row in _rows(results, operator, **where):
            if SELF in row.bound_multiple:
                yield Seen(row.bound_multiple[SELF].median, _where(row))

    return find


def _in_place(results: Results) -> Iterator[Seen]:
    # Below 2**16 elements a call is over before restoring its input has left the cache alone.
    for row in _rows(results, None, mode="in-place", least=1 << 16):
        if row.in_place_gain is not None:
            yield Seen(row.in_place_gain.median, _where(row))


def _time_of_composed(results: Results) -> Iterator[Seen]:
    for row in _composed_rows(results):
        yield Seen(row.ratios["composed"].median, _where(row))


def _bytes_of_composed(results: Results) -> Iterator[Seen]:
    for row in _composed_rows(results):
        yield Seen(row.bytes_kept[SELF] / row.bytes_kept["composed"], _where(row))


def _composed_rows(results: Results) -> Iterator[Row]:
    for row in _rows(results, "swish_forward_backward", mode="allocate", shapes=(FEATURE_MAP,)):
        if "composed" in row.ratios:
            yield row


def _second_process(results: Results) -> Iterator[Seen]:
    if results.startup is not None:
        yield Seen(results.startup.both.median, "import numpy, fastgrad; swish_grad")


def _worst_half(results: Results) -> Iterator[Seen]:
    for row in results.rows:
        if row.case.dtype in _HALF and SELF in row.accuracy:
            yield Seen(row.accuracy[SELF].ulp, _where(row))


def _exactly_rounded(results: Results) -> Iterator[Seen]:
    for row in results.rows:
        if row.case.dtype in _HALF and SELF in row.accuracy:
            yield Seen(row.accuracy[SELF].exactly_rounded, _where(row))


TARGETS = (
    Target(
        "swish_grad, out=, float32: multiple of the streaming bound",
        1.5,
        1.25,
        _bound_multiple("swish_grad", dtypes=("float32",), shapes=(FEATURE_MAP, BEYOND_CACHE)),
        at_most=True,
    ),
    Target(
        "swish_grad against aten.silu_backward, 2^18 elements",
        1.5,
        2,
        _against_aten("swish_grad", shapes=((1 << 18,),)),
    ),
    Target(
        "swish_grad against aten.silu_backward, (8192, 4096)",
        1.0,
        1.3,
        _against_aten("swish_grad", shapes=(BEYOND_CACHE,)),
    ),
    Target(
        "gelu_grad erf against aten, float32, from 4,096 elements",
        1.3,
        2,
        _against_aten("gelu_grad", dtypes=("float32",), least=4096),
    ),
    Target(
        "gelu_grad tanh against aten, float32, from 4,096 elements",
        2,
        4,
        _against_aten("gelu_tanh_grad", dtypes=("float32",), least=4096),
    ),
    Target(
        "gelu_grad erf against aten, 16-bit, from 4,096 elements",
        1.2,
        2.5,
        _against_aten("gelu_grad", dtypes=_HALF, least=4096),
    ),
    Target(
        "gelu_grad tanh against aten, 16-bit, from 4,096 elements",
        2,
        5,
        _against_aten("gelu_tanh_grad", dtypes=_HALF, least=4096),
    ),
    Target("in-place against not in-place, from 2^16 elements", 0.9, 1, _in_place),
    Target("swish forward + backward against composed: time", 5, 8, _time_of_composed),
    Target(
        "swish forward + backward against composed: bytes kept",
        0.5,
        0.34,
        _bytes_of_composed,
        at_most=True,
    ),
    Target(
        "call on 1,024 elements, out=: time over aten's",
        3,
        1,
        _share_of_aten(shapes=(CALL,)),
        at_most=True,
    ),
    Target("second process: seconds to the first result", 1, 0.6, _second_process, at_most=True),
    Target("16-bit results: ULP from float64", 1, None, _worst_half, at_most=True),
    Target("16-bit results: share exactly rounded", 0.999, None, _exactly_rounded),
)
