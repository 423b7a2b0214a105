"""Measure what an instruction costs: prints the table of `fastgrad/program/cost.py`.

    python tools/costs.py

Each instruction runs as a program of its own on 4,096 elements in the first-level cache, on one core; the
time of a program without instructions is taken off. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import time

import numpy as np

from fastgrad.program.compile import compiled
from fastgrad.program.cost import FACTORS, FUNCTIONS
from fastgrad.program.expression import make, operand
from fastgrad.program.program import Program, Result
from fastgrad.vector_unit.precision import PRECISIONS

SIZE = 4096


def nanoseconds(op: str, dtype: type, arity: int = 1) -> float:
    """The median of 21 timings of a program of one instruction, an element."""
    operands = tuple(operand(name, is_array=True) for name in "wx"[-arity:])
    value = make(op, *operands) if op else operands[0]
    program = Program(f"cost_{op or 'nothing'}", operands, (Result("y", value),))
    walk = compiled(program, PRECISIONS[np.dtype(dtype)])
    inputs = [np.linspace(-3, 3, SIZE).astype(dtype) for _ in operands]
    arrays = (*inputs, np.empty(SIZE, dtype))
    times = []
    for _ in range(21):
        start = time.perf_counter()
        for _ in range(200):
            walk.small(arrays, (), SIZE, 2048)
        times.append((time.perf_counter() - start) / 200)
    return float(np.median(times)) * 1e9 / SIZE


def main() -> None:
    for op in (*FUNCTIONS, *(f"scaled_{factor}" for factor in FACTORS)):
        arity = 2 if op.startswith("scaled") or op in ("add", "div", "sigmoid_slope") else 1
        times = [
            nanoseconds(op, t, arity) - nanoseconds("", t, arity) for t in (np.float32, np.float64)
        ]
        print(f'    "{op}": ({times[0]:.2f}, {times[1]:.2f}),')
    for dtype in PRECISIONS:
        print(f"nothing in {dtype}: {nanoseconds('', dtype.type):.3f}")


if __name__ == "__main__":
    main()
