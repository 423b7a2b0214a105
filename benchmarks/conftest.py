"""The contenders that can be measured inside one process, and who is left out and why.

`--peers NAMES` chooses among them, `--peers none` leaves fastgrad alone. What a contender has nothing to
measure in, such as a dtype that its library lacks, is skipped.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from fastgrad.bench.arguments import PEERS, names_of_peers
from fastgrad.bench.contenders import CONTENDERS, SELF, Contender
from fastgrad.bench.contenders.protocol import Prepared, Unsupported
from fastgrad.bench.inputs import input_arrays
from fastgrad.bench.timing import wait_until_idle
from fastgrad.bench.workloads import Case
from fastgrad.runtime.threads import get_num_threads

_READY = pytest.StashKey[dict[str, Any]]()
_ABSENT = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--peers", type=names_of_peers, default=PEERS, help=f"none, or of {', '.join(PEERS)}"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start every contender that was asked for."""
    ready: dict[str, Any] = {}
    absent: dict[str, str] = {}
    for name in (SELF, *config.getoption("--peers")):
        try:
            ready[name] = _start(CONTENDERS[name])
        except Exception as error:  # a library that does not start fails in its own way
            absent[name] = f"{type(error).__name__}: {error}"
    config.stash[_READY], config.stash[_ABSENT] = ready, absent


def pytest_report_header(config: pytest.Config) -> list[str]:
    ready, absent = config.stash[_READY], config.stash[_ABSENT]
    lines = [f"fastgrad benchmarks: {', '.join(ready)}; {get_num_threads()} threads each"]
    return lines + [f"not measured: {name}: {reason}" for name, reason in absent.items()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every contender with those of the module's `CASES` that it takes part in."""
    if "backend" not in metafunc.fixturenames:
        return
    pairs = [
        pytest.param(backend, case, id=f"{case}-{name}")
        for case in metafunc.module.CASES
        for name, backend in metafunc.config.stash[_READY].items()
        if case.operator in backend.OPERATORS
    ]
    metafunc.parametrize(("backend", "case"), pairs)


@pytest.fixture
def prepared(backend: Any, case: Case) -> Prepared:
    """The call of a contender, ready to be timed."""
    try:
        made: Prepared = backend.prepare(case, input_arrays(case, seed=0))
    except Unsupported as reason:
        pytest.skip(str(reason))  # no test: a contender has no such call to be timed
    made.call()  # compiles; the number of rounds is chosen by the first call that is timed
    wait_until_idle()  # also the threads of the contender before
    return made


@pytest.fixture
def timed(prepared: Prepared, case: Case, benchmark: Any) -> Callable[[], None]:
    """Times the call, beside those of the other contenders."""

    def run() -> None:
        benchmark.group = str(case)
        benchmark.extra_info["bytes_moved"] = case.bytes_moved
        benchmark.extra_info["code"] = prepared.code
        benchmark(prepared.call)

    return run


def _start(contender: Contender) -> Any:
    if contender.environment:
        wants = ", ".join(f"{key}={value}" for key, value in contender.environment.items())
        raise RuntimeError(f"needs a process of its own with {wants}: make compare")
    backend = importlib.import_module(contender.module)
    backend.start(get_num_threads())
    return backend
