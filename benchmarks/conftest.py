"""The contenders that can be measured inside one process, and who is left out and why."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import pytest

from fastgrad.bench.contenders import CONTENDERS, Contender
from fastgrad.runtime.threads import get_num_threads


def pytest_report_header() -> list[str]:
    present, absent = _contenders()
    lines = [f"fastgrad benchmarks: {', '.join(present)}; {get_num_threads()} threads each"]
    return lines + [f"not measured: {name}: {reason}" for name, reason in absent.items()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every contender with those of the module's `CASES` that it takes part in."""
    if "backend" not in metafunc.fixturenames:
        return
    pairs = [
        pytest.param(backend, case, id=f"{case}-{name}")
        for case in metafunc.module.CASES
        for name, backend in _contenders()[0].items()
        if case.operator in backend.OPERATORS
    ]
    metafunc.parametrize(("backend", "case"), pairs)


@functools.cache
def _contenders() -> tuple[dict[str, Any], dict[str, str]]:
    """Modules of those who are ready, and reasons of the others."""
    present, absent = {}, {}
    for name, contender in CONTENDERS.items():
        try:
            present[name] = _start(contender)
        except RuntimeError as reason:
            absent[name] = str(reason)
        except ImportError as error:
            absent[name] = f"{error}"
    return present, absent


def _start(contender: Contender) -> Any:
    if contender.environment:
        wants = ", ".join(f"{key}={value}" for key, value in contender.environment.items())
        raise RuntimeError(f"needs a process of its own with {wants}: make compare")
    backend = importlib.import_module(contender.module)
    backend.start(get_num_threads())
    return backend
