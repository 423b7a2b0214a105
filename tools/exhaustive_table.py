"""The tallies of `tools/exhaustive.py` as Markdown."""

from __future__ import annotations

import datetime
import math
import platform
from collections.abc import Iterator, Mapping

import numba
import numpy as np
import scipy
from exhaustive_cases import Case
from exhaustive_tally import Tally, Worst, evaluate
from llvmlite import binding as llvm

from fastgrad.bench.machine import describe_machine

Tallies = Mapping[Case, Tally]

COLUMNS = (
    "function",
    "largest error, ULP",
    "at x =",
    "bound",
    "subnormal results, spacings",
    "at x =",
    "bound",
    "correctly rounded",
    "within",
)

EXPLANATION = """\
Every public function of one operand in `fastgrad.vector_unit.maths`, in float32, on all 4,294,967,296
inputs. `make exhaustive` measures this table and writes this file.

A result is compared with the value that NumPy and SciPy compute in float64. These references
(`tools/exhaustive_cases.py`) are within 0.00001 ULP themselves on all samples that
`tests/vector_unit/test_exhaustive.py` compares with mpmath.

- **Largest error**: in ULP, the spacing of float32 at the exact value; rounding alone makes up to 0.5. A
  slope has a root: its error is in ULP of the larger of the two terms that it is the sum of
  (`sigmoid(z)` and `w·sigmoid(z)·sigmoid(-z)`, `cdf(x)` and `x·pdf(x)`).
- **Subnormal results**: where the exact value (of a slope: the larger term) is below 2^-126, the error in
  spacings there, 2^-149.
- NaN must give NaN, and a result that rounds to an infinity that infinity; anything else, an early infinity
  included, is an infinite error. The sign of a zero is not compared.
- **Correctly rounded**: the share of the inputs that have a result (not NaN) where it is the float32 nearest
  to the exact value. Within 0.00001 ULP of a tie the reference may misjudge that.
- **Bound**: what the docstrings of `maths` and `gated` state; 0.5 is correctly rounded, 0 exact.

Functions of two operands are measured with both the same, and with the first one 1. float64 has too many
inputs: there the functions are compared with mpmath on samples, in `tests/vector_unit`."""


def document(tallies: Tallies) -> str:
    parts = ["# Accuracy", surroundings(), EXPLANATION, table(tallies)]
    return "\n\n".join(parts) + "\n"


def surroundings() -> str:
    """Where and when: another compiler or processor may round differently."""
    machine = describe_machine()
    return (
        f"Measured on {datetime.date.today()}: {machine['processor']} (LLVM's {llvm.get_host_cpu_name()}), "
        f"Python {platform.python_version()}, Numba {numba.__version__}, "
        f"LLVM {'.'.join(map(str, llvm.llvm_version_info))}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}."
    )


def table(tallies: Tallies) -> str:
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    rows += [list(cells(case, tally)) for case, tally in tallies.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cells(case: Case, tally: Tally) -> Iterator[str]:
    yield f"`{case.label}`"
    for worst, bound in bounded(case, tally):
        yield rounded_up(worst.error) if worst.pattern >= 0 else "none"
        yield input_text(worst.pattern) if worst.error else ""
        yield f"{bound:g}"
    yield share(tally.exact, tally.numbers)
    yield "yes" if within(case, tally) else "**no**"


def bounded(case: Case, tally: Tally) -> tuple[tuple[Worst, float], tuple[Worst, float]]:
    return (tally.normal, case.bound), (tally.subnormal, case.subnormal_bound)


def within(case: Case, tally: Tally) -> bool:
    return all(worst.error <= bound for worst, bound in bounded(case, tally))


def broken_bounds(tallies: Tallies) -> list[str]:
    """A line for each bound that an input breaks."""
    return [
        broken_bound(case, worst, bound)
        for case, tally in tallies.items()
        for worst, bound in bounded(case, tally)
        if worst.error > bound
    ]


def broken_bound(case: Case, worst: Worst, bound: float) -> str:
    _, got, exact, _ = evaluate(case, np.array([worst.pattern], np.uint32))
    return (
        f"{case.label}: error {worst.error:.4f}, bound {bound:g}, at x = {input_text(worst.pattern)}: "
        f"{got[0]!s} instead of {exact[0]!s}"
    )


def input_text(pattern: int) -> str:
    return f"{np.uint32(pattern).view(np.float32)!s} ({pattern:#010x})"


def rounded_up(error: float) -> str:
    """With three digits: never less than was found."""
    return f"{math.ceil(error * 1000) / 1000:.3f}" if math.isfinite(error) else "inf"


def share(part: int, whole: int) -> str:
    """In percent, cut off: 100 is all of them."""
    return f"{part * 1_000_000 // max(whole, 1) / 10_000:.4f} %" if part < whole else "100 %"
