"""The interpreter: runs a program in NumPy, one instruction after the other, and counts.

It is the yardstick for what the compiler emits, and the clock of the simulator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .expression import Node
from .numpy_unit import EVALUATE
from .program import Program
from .text import ascend_name

__all__ = ["Run", "interpret"]


@dataclass
class Run:
    """What an interpreted program gave.

    Attributes
    ----------
    results : dict of str to ndarray
        Each result by name; sums in float64.
    counts : Counter
        How often each vector instruction was executed, by its Ascend C name.
    elements : int
        Lanes that these instructions worked on, all together.
    """

    results: dict[str, Any]
    counts: Counter = field(default_factory=Counter)
    elements: int = 0


def interpret(program: Program, operands: Mapping[str, Any], dtype: Any = np.float64) -> Run:
    """Run `program` on `operands`, each value rounded to `dtype`.

    Parameters
    ----------
    program : Program
        As derived, or lowered.
    operands : mapping of str to array or float
        By name.
    dtype : dtype
        What to compute in, float32 or float64.

    Returns
    -------
    Run
    """
    run = Run({})
    values: dict[Node, Any] = {}
    for node in program.nodes:
        if not node.args:
            given = node.value if node.op == "const" else operands[node.name]
            values[node] = np.asarray(given, dtype)
            continue
        value = EVALUATE[node.op](*(values[arg] for arg in node.args))
        values[node] = value if value.dtype == bool else np.asarray(value, dtype)
        if node.is_array:
            run.counts[ascend_name(node)] += 1
            run.elements += np.size(value)
    for result in program.results:
        value = values[result.value]
        run.results[result.name] = value.sum(dtype=np.float64) if result.reduced else value
    return run
