"""What one entry of the table of workloads says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from fastgrad.bench.forms import ELEMENTWISE, Form, Shape

#: What a call does with its result: write it over `dy` (or `x`), into an array made before, or into
#: a new one.
MODES = ("out", "in-place", "allocate")

DTYPES: dict[str, np.dtype] = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}

CALL: Shape = (1024,)
FEATURE_MAP: Shape = (32, 64, 56, 56)
BEYOND_CACHE: Shape = (8192, 4096)
IN_CACHE: Shape = (1 << 18,)
SIZES: tuple[Shape, ...] = (CALL, (4096,), (1 << 16,), IN_CACHE, FEATURE_MAP, BEYOND_CACHE)

#: Shapes of each dtype.
Selection = Mapping[str, tuple[Shape, ...]]

#: What a run without filters measures of an operator; `--workload full` takes its `sizes` in every dtype.
#: Each of the `targets` finds rows here, and each dtype one in the cache and one beyond.
REPRESENTATIVE: Selection = {
    "float32": SIZES,
    "bfloat16": ((4096,), IN_CACHE, FEATURE_MAP, BEYOND_CACHE),
    "float16": ((4096,), IN_CACHE, FEATURE_MAP, BEYOND_CACHE),
    "float64": (IN_CACHE, FEATURE_MAP),
}


@dataclass(frozen=True)
class Workload:
    """One operator as it is measured.

    Parameters
    ----------
    inputs : tuple of str
        Names of the input arrays, in the order of the call.
    arrays_moved : int
        Arrays read or written if each is touched once: the bytes of the streaming bound.
    results : tuple of references
        What its results are, in float64: `Reference` or `NormReference`.
    modes : tuple of str
        Those that are measured, interleaved.
    selected_modes : tuple of str
        Those of a run that is not asked for anything; all where it is empty.
    selection : mapping
        The shapes of each dtype that a run measures unless it is asked for something else.
    beside_all : mapping
        The shapes of each dtype at which a run without filters measures all peers, not only
        `KERNELS`.
    sizes : tuple of shape
        What is measured where dtypes alone are asked for, or everything.
    form : Form
        Which shapes fit, and what shapes its arrays have then.
    family : str
        Its file in `benchmarks/`.
    """

    inputs: tuple[str, ...]
    arrays_moved: int
    results: tuple[Any, ...]
    modes: tuple[str, ...] = ("out",)
    selected_modes: tuple[str, ...] = ()
    selection: Selection = field(default_factory=lambda: REPRESENTATIVE)
    beside_all: Selection = field(default_factory=lambda: {"float32": (FEATURE_MAP,)})
    sizes: tuple[Shape, ...] = SIZES
    form: Form = ELEMENTWISE
    family: str = "activations"
