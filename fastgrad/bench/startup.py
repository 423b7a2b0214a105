"""How long a second process takes to its first result: fresh interpreters on a warm cache."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fastgrad.bench.spread import Spread, spread

# 2**18 elements: enough for the parallel launch, whose kernel is a second one to load.
_PROGRAM = """
import time
start = time.perf_counter()
import numpy as np
import fastgrad
imported = time.perf_counter()
x = np.ones(1 << 18, np.float32)
before = time.perf_counter()
fastgrad.swish_grad(x, x)
called = time.perf_counter()
import json
print(json.dumps({"imports": imported - start, "call": called - before}))
"""


@dataclass(frozen=True)
class Startup:
    """Seconds: of `import numpy, fastgrad`, of the first call, of both, and of the process."""

    imports: Spread
    first_call: Spread
    both: Spread
    process: Spread
    samples: list[dict[str, float]]


def measure_startup(rounds: int = 5) -> Startup:
    """Start `rounds` interpreters one by one, after a first one that fills the kernel cache."""
    _start_once()
    samples = [_start_once() for _ in range(rounds)]
    return Startup(
        imports=_spread_of(samples, "imports"),
        first_call=_spread_of(samples, "call"),
        both=spread([sample["imports"] + sample["call"] for sample in samples]),
        process=_spread_of(samples, "process"),
        samples=samples,
    )


def _start_once() -> dict[str, float]:
    start = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"a fresh process could not use fastgrad:\n{process.stderr}")
    return {**json.loads(process.stdout.splitlines()[-1]), "process": seconds}


def _spread_of(samples: Sequence[dict[str, float]], key: str) -> Spread:
    return spread([sample[key] for sample in samples])
