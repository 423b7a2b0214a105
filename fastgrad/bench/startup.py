"""What fresh interpreters take: to a first result on a warm cache, and for an operator that is new."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
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


# A factor makes another operator of it.
_NEW_OPERATOR = """
import time
import numpy as np
import fastgrad
x = np.ones(1 << 18, np.float32)
start = time.perf_counter()
@fastgrad.elementwise
def own(x):
    return {factor} * x * fastgrad.maths.sigmoid(1.3 * x + 0.2)
own(x)
called = time.perf_counter()
own.grad(x, x)
differentiated = time.perf_counter()
import json
print(json.dumps({{"forward": called - start, "backward": differentiated - called}}))
"""


@dataclass(frozen=True)
class Startup:
    """Seconds: of `import numpy, fastgrad`, of the first call, of both, and of the process."""

    imports: Spread
    first_call: Spread
    both: Spread
    process: Spread
    samples: list[dict[str, float]]


@dataclass(frozen=True)
class NewOperator:
    """Seconds from the definition of an operator to its first results, in a fresh process.

    Parameters
    ----------
    forward, backward, both : Spread
        With an empty cache: the library's own kernels, the pool of threads, are compiled too.
    later : Spread
        Forward and backward of one more, in the next process: those are there.
    samples : list of dict
        All of them.
    """

    forward: Spread
    backward: Spread
    both: Spread
    later: Spread
    samples: list[dict[str, float]]


def measure_startup(rounds: int = 5) -> Startup:
    """Start `rounds` interpreters one by one, after a first one that fills the kernel cache."""
    _start_once(_PROGRAM)
    samples = [_start_once(_PROGRAM) for _ in range(rounds)]
    return Startup(
        imports=_spread_of(samples, "imports"),
        first_call=_spread_of(samples, "call"),
        both=spread([sample["imports"] + sample["call"] for sample in samples]),
        process=_spread_of(samples, "process"),
        samples=samples,
    )


def measure_new_operator(rounds: int = 3) -> NewOperator:
    """Compile one new operator with an empty cache and one more with what that has left, `rounds` times."""
    samples = [_compile_once() for _ in range(rounds)]
    return NewOperator(
        forward=_spread_of(samples, "forward"),
        backward=_spread_of(samples, "backward"),
        both=spread([sample["forward"] + sample["backward"] for sample in samples]),
        later=_spread_of(samples, "later"),
        samples=samples,
    )


def _compile_once() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="fastgrad-bench-") as folder:
        cache = {"FASTGRAD_CACHE_DIR": folder}
        first = _start_once(_NEW_OPERATOR.format(factor=0.9), cache)
        later = _start_once(_NEW_OPERATOR.format(factor=0.8), cache)
    return {**first, "later": later["forward"] + later["backward"]}


def _start_once(program: str, environment: Mapping[str, str] | None = None) -> dict[str, float]:
    start = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    seconds = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"a fresh process could not use fastgrad:\n{process.stderr}")
    return {**json.loads(process.stdout.splitlines()[-1]), "process": seconds}


def _spread_of(samples: Sequence[dict[str, float]], key: str) -> Spread:
    return spread([sample[key] for sample in samples])
