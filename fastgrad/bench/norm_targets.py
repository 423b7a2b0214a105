"""The numbers that the norms are to reach: the table of issue 5."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastgrad.bench.contenders import SELF
from fastgrad.bench.families.normalization import DIFFUSION, GROUPS_BEYOND_CACHE, NORM_CALLS
from fastgrad.bench.finders import (
    HALF,
    against,
    bound_multiple,
    rows,
    share_of_bytes_kept,
    where,
)
from fastgrad.bench.results import Results
from fastgrad.bench.target import Find, Seen, Target
from fastgrad.bench.workloads import BEYOND_CACHE, FEATURE_MAP, KERNELS

# Everyone's results are new arrays.
_MODE = "allocate"

_KERNELS = [name for name, call in NORM_CALLS.items() if call.direction != "both"]
_SWISH_BOTH, _RMS_BOTH = "group_norm_swish_forward_backward", "rms_norm_forward_backward"
_FEATURE_MAPS = (FEATURE_MAP, GROUPS_BEYOND_CACHE)
_DEFAULT, _THP = ("torch",), ("torch-thp",)
_AUTODIFF = ("composed", "jax", "mindspore")
_FLOAT32, _BFLOAT16 = ("float32",), ("bfloat16",)


def _of_groups(operator: str, **which: Any) -> Find:
    return against(operator, mode=_MODE, shapes=(GROUPS_BEYOND_CACHE,), **which)


def _of_rows(operator: str, **which: Any) -> Find:
    return against(operator, peers=_THP, mode=_MODE, shapes=(BEYOND_CACHE,), **which)


def _no_worse_than_aten(results: Results) -> Iterator[Seen]:
    for row in rows(results, tuple(NORM_CALLS), mode=_MODE):
        if SELF in row.accuracy and "torch" in row.accuracy:
            allowed = max(1.0, row.accuracy["torch"].ulp)
            yield Seen(row.accuracy[SELF].ulp / allowed, where(row, "torch"))


NORM_TARGETS = (
    Target(
        "each norm kernel, float32, beyond the cache: multiple of the streaming bound",
        1.5,
        1.2,
        bound_multiple(*_KERNELS, mode=_MODE, dtypes=_FLOAT32, beyond_cache=True),
        at_most=True,
    ),
    Target(
        "each norm kernel, 16-bit, beyond the cache: multiple of the streaming bound",
        2.2,
        1.5,
        bound_multiple(*_KERNELS, mode=_MODE, dtypes=HALF, beyond_cache=True),
        at_most=True,
    ),
    Target(
        "group_norm_grad (32, 256, 64, 64), float32, against PyTorch's default",
        3,
        4,
        _of_groups("group_norm_grad", peers=_DEFAULT, dtypes=_FLOAT32),
    ),
    Target(
        "group_norm_grad (32, 256, 64, 64), float32, against PyTorch with THP",
        1.7,
        2.5,
        _of_groups("group_norm_grad", peers=_THP, dtypes=_FLOAT32),
    ),
    Target(
        "group_norm_nhwc_grad (32, 256, 64, 64), bfloat16, against PyTorch with THP",
        6,
        20,
        _of_groups("group_norm_nhwc_grad", peers=_THP, dtypes=_BFLOAT16),
    ),
    Target(
        "group_norm forward and backward, Stable Diffusion's shapes, against PyTorch with and without THP",
        1.0,
        1.54,
        against("group_norm", "group_norm_grad", mode=_MODE, shapes=DIFFUSION, dtypes=_FLOAT32),
    ),
    Target(
        "layer_norm (8192, 4096), float32, against PyTorch with THP",
        2,
        3.5,
        _of_rows("layer_norm", dtypes=_FLOAT32),
    ),
    Target(
        "layer_norm_grad (8192, 4096), float32, against PyTorch with THP",
        2,
        3,
        _of_rows("layer_norm_grad", dtypes=_FLOAT32),
    ),
    Target(
        "rms_norm forward + backward (8192, 4096), float32, against PyTorch with THP",
        8,
        14,
        _of_rows(_RMS_BOTH, dtypes=_FLOAT32),
    ),
    Target(
        "rms_norm forward + backward (8192, 4096), bfloat16, against PyTorch with THP",
        12,
        30,
        _of_rows(_RMS_BOTH, dtypes=_BFLOAT16),
    ),
    Target(
        "group_norm_swish forward + backward against F.silu(F.group_norm): time",
        2,
        3,
        against(_SWISH_BOTH, mode=_MODE, shapes=_FEATURE_MAPS),
    ),
    Target(
        "group_norm_swish forward + backward against F.silu(F.group_norm): bytes kept",
        0.5,
        0.5,
        share_of_bytes_kept(_SWISH_BOTH, peers=KERNELS, mode=_MODE, shapes=_FEATURE_MAPS),
        at_most=True,
    ),
    Target(
        "group_norm_grad against composed autodiff in PyTorch, JAX and MindSpore",
        8,
        30,
        against(
            "group_norm_grad", peers=_AUTODIFF, mode=_MODE, shapes=_FEATURE_MAPS, dtypes=_FLOAT32
        ),
    ),
    Target(
        "norms: largest error over PyTorch's, or over 1 ULP where that is smaller",
        1,
        None,
        _no_worse_than_aten,
        at_most=True,
    ),
)
