"""The numbers to reach, and what a run has seen of them.

A new number is one entry of `TARGETS`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastgrad.bench.activation_targets import ACTIVATION_TARGETS
from fastgrad.bench.contenders import SELF
from fastgrad.bench.finders import (
    HALF,
    against,
    bound_multiple,
    rows,
    share_of_aten,
    share_of_bytes_kept,
    where,
)
from fastgrad.bench.norm_targets import NORM_TARGETS
from fastgrad.bench.results import Results
from fastgrad.bench.target import Seen, Target, Verdict, verdicts_on
from fastgrad.bench.workloads import BEYOND_CACHE, CALL, FEATURE_MAP


def judge(results: Results) -> list[Verdict]:
    """A verdict for each of `TARGETS`."""
    return verdicts_on(TARGETS, results)


def _in_place(results: Results) -> Iterator[Seen]:
    # Below 2**16 elements a call is over before restoring its input has left the cache alone.
    for row in rows(results, (), mode="in-place", least=1 << 16):
        if row.in_place_gain is not None:
            yield Seen(row.in_place_gain.median, where(row))


def _second_process(results: Results) -> Iterator[Seen]:
    if results.startup is not None:
        yield Seen(results.startup.both.median, "import numpy, fastgrad; swish_grad")


def _worst_half(results: Results) -> Iterator[Seen]:
    for row in results.rows:
        if row.case.dtype in HALF and SELF in row.accuracy:
            yield Seen(row.accuracy[SELF].ulp, where(row))


def _exactly_rounded(results: Results) -> Iterator[Seen]:
    for row in results.rows:
        # A gradient of 4,096 parameters says little about a share of a thousandth.
        is_activation = row.case.workload.family == "activations"
        if is_activation and row.case.dtype in HALF and SELF in row.accuracy:
            yield Seen(row.accuracy[SELF].exactly_rounded, where(row))


_BOTH = ("swish_forward_backward",)

TARGETS = (
    Target(
        "swish_grad, out=, float32: multiple of the streaming bound",
        1.5,
        1.25,
        bound_multiple("swish_grad", dtypes=("float32",), shapes=(FEATURE_MAP, BEYOND_CACHE)),
        at_most=True,
    ),
    Target(
        "swish_grad against aten.silu_backward, 2^18 elements",
        1.5,
        2,
        against("swish_grad", shapes=((1 << 18,),)),
    ),
    Target(
        "swish_grad against aten.silu_backward, (8192, 4096)",
        1.0,
        1.3,
        against("swish_grad", shapes=(BEYOND_CACHE,)),
    ),
    Target(
        "gelu_grad erf against aten, float32, from 4,096 elements",
        1.3,
        2,
        against("gelu_grad", dtypes=("float32",), least=4096),
    ),
    Target(
        "gelu_grad tanh against aten, float32, from 4,096 elements",
        2,
        4,
        against("gelu_tanh_grad", dtypes=("float32",), least=4096),
    ),
    Target(
        "gelu_grad erf against aten, 16-bit, from 4,096 elements",
        1.2,
        2.5,
        against("gelu_grad", dtypes=HALF, least=4096),
    ),
    Target(
        "gelu_grad tanh against aten, 16-bit, from 4,096 elements",
        2,
        5,
        against("gelu_tanh_grad", dtypes=HALF, least=4096),
    ),
    Target("in-place against not in-place, from 2^16 elements", 0.9, 1, _in_place),
    Target(
        "swish forward + backward against composed: time",
        5,
        8,
        against(*_BOTH, peers=("composed",), mode="allocate", shapes=(FEATURE_MAP,)),
    ),
    Target(
        "swish forward + backward against composed: bytes kept",
        0.5,
        0.34,
        share_of_bytes_kept(*_BOTH, peers=("composed",), mode="allocate", shapes=(FEATURE_MAP,)),
        at_most=True,
    ),
    Target(
        "call on 1,024 elements, out=: time over aten's",
        3,
        1,
        share_of_aten(shapes=(CALL,)),
        at_most=True,
    ),
    Target("second process: seconds to the first result", 1, 0.6, _second_process, at_most=True),
    Target("16-bit results: ULP from float64", 1, None, _worst_half, at_most=True),
    Target("16-bit activations: share exactly rounded", 0.999, None, _exactly_rounded),
    *ACTIVATION_TARGETS,
    *NORM_TARGETS,
)
