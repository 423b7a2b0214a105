"""Every float32 input of the vector functions against float64: `make exhaustive`.

    python tools/exhaustive.py --op exp --op tanh --step 4097

Prints a table of the largest errors, with the inputs that have them. A run of all functions on all inputs
writes it to docs/accuracy.md. The exit code is 1 if a function breaks its bound.

What is done is kept in .cache/exhaustive, a file for each function in a folder for each state of the
sources: an interrupted run goes on where it was, and changed sources are measured anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import exhaustive_tally as tallying
import numba
import numpy as np
import scipy
from exhaustive_cases import CASES, Case
from exhaustive_table import broken_bounds, document, table
from exhaustive_tally import CHUNKS, Tally, Worst
from llvmlite import binding as llvm
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / ".cache" / "exhaustive"
OUTPUT = ROOT / "docs" / "accuracy.md"
#: The exit code that shells give for it.
INTERRUPTED = 130
#: What the results depend on, the options of the compiler among it.
SOURCES = (
    *sorted((ROOT / "fastgrad" / "vector_unit").glob("*.py")),
    ROOT / "fastgrad" / "runtime" / "compiler.py",
    *sorted((ROOT / "tools").glob("exhaustive_*.py")),
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    cases = [case for case in CASES if not options.op or case.op in options.op]
    folder = options.state / sources_digest(SOURCES)
    try:
        tallies = run(cases, options.step, options.workers, folder)
    except KeyboardInterrupt:
        print("\nInterrupted: the same command goes on from here.", file=sys.stderr)
        return INTERRUPTED
    print(table(tallies))
    if options.op or options.step > 1:
        print(f"A part of all inputs: {options.output.name} is left as it was.", file=sys.stderr)
    else:
        options.output.write_text(document(tallies))
    broken = broken_bounds(tallies)
    print("\n".join(broken), end="\n" if broken else "", file=sys.stderr)
    return 1 if broken else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = list(dict.fromkeys(case.op for case in CASES))
    made.add_argument("--op", action="append", choices=names, metavar="NAME", help="again for more")
    made.add_argument("--step", type=positive, default=1, help="every so many inputs (1: all)")
    made.add_argument("--workers", type=positive, default=2, help="threads")
    made.add_argument("--output", type=Path, default=OUTPUT, help="written by a complete run")
    made.add_argument("--state", type=Path, default=STATE, help="where what is done is kept")
    return made


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def sources_digest(sources: Sequence[Path]) -> str:
    """A name for this state of the sources, the compiler and the processor that it compiles for."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    libraries = (numba.__version__, llvm.llvm_version_info, np.__version__, scipy.__version__)
    digest.update(repr((libraries, llvm.get_host_cpu_name())).encode())
    return digest.hexdigest()[:16]


def run(cases: Sequence[Case], step: int, workers: int, folder: Path) -> dict[Case, Tally]:
    """Measure what `folder` does not have yet; all the tallies."""
    tallying.reuse_memory()
    done = {case: State(folder / f"{case.file_name}-{step}.json") for case in cases}
    total, before = len(cases) * CHUNKS, sum(len(state.chunks) for state in done.values())
    with tqdm(total=total, initial=before, unit="chunk", smoothing=0.02) as progress:
        for case, state in done.items():
            progress.set_description(case.label)
            missing = [chunk for chunk in range(CHUNKS) if chunk not in state.chunks]
            for chunk, tally in measured(case, missing, step, workers):
                state.add(chunk, tally)
                progress.update()
    return {case: sum(state.chunks.values(), Tally()) for case, state in done.items()}


def measured(
    case: Case, chunks: Sequence[int], step: int, workers: int
) -> Iterator[tuple[int, Tally]]:
    """The tallies of the chunks as they are done.

    In threads: nearly all the time is spent in loops of Numba, NumPy and SciPy that do not hold the
    interpreter's lock, and each function is compiled once.
    """
    with ThreadPoolExecutor(workers) as pool:
        running = {pool.submit(tallying.measure, case, chunk, step): chunk for chunk in chunks}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class State:
    """The tallies of a function's chunks, kept in a file that is whole at any time."""

    def __init__(self, path: Path):
        self.path = path
        self.chunks: dict[int, Tally] = {}
        if path.exists():
            self.chunks = {int(n): _tally(*row) for n, row in json.loads(path.read_text()).items()}

    def add(self, chunk: int, tally: Tally) -> None:
        self.chunks[chunk] = tally
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(self.chunks))
        unfinished.replace(self.path)


def _tally(numbers: int, exact: int, normal: Sequence, subnormal: Sequence) -> Tally:
    return Tally(numbers, exact, Worst(*normal), Worst(*subnormal))


if __name__ == "__main__":
    sys.exit(main())
