"""What a pullback of NumPy arrays keeps, counted where NumPy allocates."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np


def bytes_kept(pullback_of: Callable[..., Any], *operands: np.ndarray) -> int:
    """Bytes of the arrays that live on in the pullback alone, whatever it is made of.

    Parameters
    ----------
    pullback_of : callable
        Runs forward from its arguments and returns what backward needs, and nothing else.
    """
    pullback_of(*operands)  # whatever is compiled or cached at a first call
    tracemalloc.start()
    try:
        pullback = pullback_of(*(operand.copy() for operand in operands))
        gc.collect()
        of_arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
        kept = tracemalloc.take_snapshot().filter_traces([of_arrays])
        del pullback
    finally:
        tracemalloc.stop()
    return sum(trace.size for trace in kept.traces)
