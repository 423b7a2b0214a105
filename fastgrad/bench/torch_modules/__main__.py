"""PyTorch's modules beside those of `fastgrad.torch`: `python -m fastgrad.bench.torch_modules`.

Time of forward and backward, bytes kept between them and the difference of the results, of single
modules and of blocks that `fastgrad.torch.patch` has changed. Stock PyTorch is measured as it is and
with its memory in huge pages.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fastgrad.bench.arguments import at_least, names_of
from fastgrad.bench.compare import terminal
from fastgrad.bench.contenders import SELF, Contender
from fastgrad.bench.extras import require
from fastgrad.bench.machine import describe_machine
from fastgrad.bench.pool import ContenderFailed, Pool
from fastgrad.bench.tables import shape_text
from fastgrad.bench.torch_modules.report import print_modules
from fastgrad.bench.torch_modules.results import ModuleResults, Row, difference
from fastgrad.bench.workloads import KERNELS

_STOCK, _THP = KERNELS
_HERE = "fastgrad.bench.torch_modules"

CONTENDERS = {
    SELF: Contender(f"{_HERE}.fused", "modules of fastgrad.torch"),
    _STOCK: Contender(f"{_HERE}.stock", "PyTorch's own"),
    _THP: Contender(f"{_HERE}.stock", "with huge pages", {"THP_MEM_ALLOC_ENABLE": "1"}),
}


#: For a process: what `fastgrad.torch.keep_memory` sets.
_KEPT = {name: str((1 << 31) - 1) for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 0 unless fastgrad itself could not be measured."""
    require("torch", extra="torch")
    options = _options(argv)
    console = terminal()
    try:
        results = run(
            options.only,
            rounds=options.rounds,
            threads=options.threads,
            keep_memory=options.keep_memory,
        )
    except ContenderFailed as reason:
        print(f"torch_modules: {reason}", file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(results.to_dict(), indent=1) + "\n")
    print_modules(results, console)
    return 1 if SELF in results.missing else 0


def run(
    names: Iterable[str] = (),
    *,
    rounds: int = 15,
    threads: int = 2,
    seed: int = 0,
    keep_memory: str = "none",
) -> ModuleResults:
    """Measure the tasks of `names`, all by default, contender after contender in each round.

    `keep_memory` says whose C library keeps what is freed, as `fastgrad.torch.keep_memory` has it: with
    ``"all"`` what is left are the kernels.
    """
    from fastgrad.bench.torch_modules.tasks import TASKS

    settings = {"rounds": rounds, "threads": threads, "seed": seed, "keep_memory": keep_memory}
    keeps = {"all": tuple(CONTENDERS), "fastgrad": (SELF,), "none": ()}[keep_memory]
    contenders = {
        name: replace(own, environment={**own.environment, **(_KEPT if name in keeps else {})})
        for name, own in CONTENDERS.items()
    }
    machine = describe_machine()
    order = random.Random(seed)
    rows = []
    with Pool(contenders, threads=threads, seed=seed) as pool:
        for number, name in enumerate(chosen := list(names) or list(TASKS), 1):
            print(f"{number}/{len(chosen)} {name}", file=sys.stderr, flush=True)
            rows.append(_measure(pool, name, rounds, order))
        versions = {name: pool[name].versions for name in pool}
        return ModuleResults(machine, settings, versions, pool.missing, rows)


def _measure(pool: Pool, name: str, rounds: int, order: random.Random) -> Row:
    from fastgrad.bench.torch_modules.tasks import TASKS

    answers = {contender: pool[contender].ask("prepare", name) for contender in pool}
    samples: dict[str, list[float]] = {contender: [] for contender in pool}
    for _ in range(rounds):
        for contender in order.sample(list(pool), len(samples)):
            samples[contender].append(pool[contender].ask("sample", name))
    task = TASKS[name]
    both = SELF in answers and _STOCK in answers
    return Row(
        name=name,
        kind=task.kind,
        shape=", ".join(shape_text(shape) for shape in task.shapes),
        samples=samples,
        kept={contender: answer.kept for contender, answer in answers.items()},
        difference=difference(answers[SELF].values, answers[_STOCK].values) if both else None,
    )


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    from fastgrad.bench.torch_modules.tasks import TASKS

    parser = argparse.ArgumentParser(prog=f"python -m {_HERE}", description=__doc__)
    known = names_of("row", TASKS)
    parser.add_argument("--only", type=known, default=[], help=f"of {', '.join(TASKS)}")
    parser.add_argument("--rounds", type=at_least(2), default=15, help="samples each (15)")
    parser.add_argument("--threads", type=at_least(1), default=2, help="of every contender (2)")
    parser.add_argument(
        "--keep-memory",
        choices=("none", "fastgrad", "all"),
        default="none",
        help="who returns no freed memory to the system (none)",
    )
    parser.add_argument("--json", type=Path, metavar="RUN.json", help="write all samples there")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
