"""The files of `benchmarks/`: each family has one, and they run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fastgrad.bench.workloads import DTYPES, WORKLOADS

ROOT = Path(__file__).parents[2]


def test_every_family_has_a_file():
    families = {f"bench_{workload.family}.py" for workload in WORKLOADS.values()}
    assert families == {file.name for file in (ROOT / "benchmarks").glob("bench_*.py")}


def test_they_run():
    command = [
        *(sys.executable, "-m", "pytest", "benchmarks", "--peers", "none", "-q"),
        *("-k", "silu and 4096", "--benchmark-disable"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(DTYPES)} passed" in done.stdout
