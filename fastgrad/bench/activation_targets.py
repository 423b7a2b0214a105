"""The numbers that activations, gated units and fused pairs are to reach: the table of issue 6."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastgrad.bench.families.activation_gradients import GRADIENTS
from fastgrad.bench.finders import HALF, against, bound_multiple, geometric_mean_against
from fastgrad.bench.results import Results
from fastgrad.bench.target import Find, Seen, Target
from fastgrad.bench.workloads import BEYOND_CACHE

_THP = ("torch-thp",)
_FLOAT32, _BFLOAT16 = ("float32",), ("bfloat16",)


def _all(dtype: str) -> Find:
    return geometric_mean_against(*GRADIENTS, peers=_THP, shapes=(BEYOND_CACHE,), dtypes=(dtype,))


def _of_one(operator: str, peer: str = "torch-thp", **which: Any) -> Find:
    return against(operator, peers=(peer,), shapes=(BEYOND_CACHE,), **which)


def _new_operator(results: Results) -> Iterator[Seen]:
    if results.new_operator is not None:
        yield Seen(results.new_operator.both.median, "fresh process, empty cache")


def _another_operator(results: Results) -> Iterator[Seen]:
    if results.new_operator is not None:
        yield Seen(results.new_operator.later.median, "fresh process, the library's kernels cached")


_OWN = "own_operator_forward_backward"

ACTIVATION_TARGETS = (
    Target(
        "every activation's backward, out=, (8192, 4096), float32: multiple of the streaming bound",
        1.5,
        1.25,
        bound_multiple(*GRADIENTS, shapes=(BEYOND_CACHE,), dtypes=_FLOAT32),
        at_most=True,
    ),
    Target(
        "every activation's backward, out=, (8192, 4096), 16-bit: multiple of the streaming bound",
        2.5,
        1.5,
        bound_multiple(*GRADIENTS, shapes=(BEYOND_CACHE,), dtypes=HALF),
        at_most=True,
    ),
    Target(
        "all activations' backward, (8192, 4096), float32, against PyTorch with THP: geometric mean",
        1.5,
        2.5,
        _all("float32"),
    ),
    Target(
        "all activations' backward, (8192, 4096), bfloat16, against PyTorch with THP: geometric mean",
        2,
        4,
        _all("bfloat16"),
    ),
    Target(
        "the worst activation's backward, from 4,096 elements, against PyTorch with THP",
        1.0,
        1.1,
        against(*GRADIENTS, peers=_THP, least=4096),
    ),
    Target(
        "mish_grad (8192, 4096) against PyTorch with THP",
        5,
        10,
        _of_one("mish_grad"),
    ),
    Target(
        "softplus_grad (8192, 4096) against PyTorch with THP",
        1.5,
        2.2,
        _of_one("softplus_grad"),
    ),
    Target(
        "swiglu forward + backward (8192, 4096), float32, against PyTorch with THP",
        2.5,
        4,
        _of_one("swiglu_forward_backward", mode="allocate", dtypes=_FLOAT32),
    ),
    Target(
        "swiglu forward + backward (8192, 4096), bfloat16, against PyTorch with THP",
        2.5,
        5,
        _of_one("swiglu_forward_backward", mode="allocate", dtypes=_BFLOAT16),
    ),
    Target(
        "add + gelu forward + backward (8192, 4096), bias gradient included, against PyTorch with THP",
        2.5,
        4.5,
        _of_one("add_gelu_forward_backward", mode="allocate"),
    ),
    Target(
        "a user's own five instructions, forward + backward (8192, 4096), against PyTorch autodiff",
        5,
        10,
        _of_one(_OWN, "composed", mode="allocate"),
    ),
    Target(
        "a user's own five instructions, forward + backward (8192, 4096), against torch.compile",
        1.5,
        3,
        _of_one(_OWN, "compiled", mode="allocate"),
    ),
    Target(
        "a new operator, forward and backward, float32, empty cache: seconds",
        4,
        2,
        _new_operator,
        at_most=True,
    ),
    Target(
        "a new operator, forward and backward, float32, the library's kernels cached: seconds",
        4,
        2,
        _another_operator,
        at_most=True,
    ),
)
