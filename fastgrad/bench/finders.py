"""The values of a run that a number to reach is about."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from fastgrad.bench.contenders import SELF
from fastgrad.bench.results import Results, Row
from fastgrad.bench.target import Find, Seen
from fastgrad.bench.workloads import KERNELS, Shape

HALF = ("float16", "bfloat16")
# The numbers were set before float64 was measured.
_SET_FOR = ("float32", *HALF)


def rows(
    results: Results,
    operators: Sequence[str],
    *,
    mode: str = "out",
    shapes: Sequence[Shape] = (),
    dtypes: Sequence[str] = _SET_FOR,
    least: int = 1,
    beyond_cache: bool = False,
) -> Iterator[Row]:
    """The rows of all `operators`, or of any; likewise `shapes`."""
    for row in results.rows:
        if (
            (not operators or row.case.operator in operators)
            and row.case.mode == mode
            and (not shapes or row.case.shape in shapes)
            and row.case.dtype in dtypes
            and row.case.elements >= least
            and not (beyond_cache and row.in_cache)
        ):
            yield row


def where(row: Row, peer: str = "") -> str:
    return f"{row.case}, {peer}" if peer else str(row.case)


def against(*operators: str, peers: Sequence[str] = KERNELS, **which: Any) -> Find:
    """Times of `peers` over fastgrad's."""

    def find(results: Results) -> Iterator[Seen]:
        for row in rows(results, operators, **which):
            for peer in peers:
                if peer in row.ratios:
                    yield Seen(row.ratios[peer].median, where(row, peer))

    return find


def geometric_mean_against(*operators: str, peers: Sequence[str], **which: Any) -> Find:
    """The geometric mean of the times of `peers` over fastgrad's, and of how many operators it is."""

    def find(results: Results) -> Iterator[Seen]:
        found = list(rows(results, operators, **which))
        ratios = [row.ratios[peer].median for row in found for peer in peers if peer in row.ratios]
        if ratios:
            measured = {row.case.operator for row in found}
            mean = statistics.geometric_mean(ratios)
            yield Seen(mean, f"of {len(measured)} of {len(operators)} operators")

    return find


def share_of_aten(**which: Any) -> Find:
    """The time of fastgrad over that of aten's kernels."""

    def find(results: Results) -> Iterator[Seen]:
        for seen in against(**which)(results):
            yield Seen(1 / seen.value, seen.where)

    return find


def bound_multiple(*operators: str, **which: Any) -> Find:
    """Multiples of the streaming bound."""

    def find(results: Results) -> Iterator[Seen]:
        for row in rows(results, operators, **which):
            if SELF in row.bound_multiple:
                yield Seen(row.bound_multiple[SELF].median, where(row))

    return find


def share_of_bytes_kept(*operators: str, peers: Sequence[str], **which: Any) -> Find:
    """Bytes that fastgrad keeps between forward and backward over those of `peers`."""

    def find(results: Results) -> Iterator[Seen]:
        for row in rows(results, operators, **which):
            for peer in peers:
                if peer in row.bytes_kept and SELF in row.bytes_kept:
                    # The numbers are about arrays; statistics and parameters are some thousandths.
                    share = row.bytes_kept[SELF] / row.bytes_kept[peer]
                    yield Seen(round(share, 2), where(row, peer))

    return find
