"""The process of one contender: prepares cases, times them when asked, and otherwise sleeps.

Started by `fastgrad.bench.pool`; requests and answers go over an inherited connection, so whatever
a library prints to stdout is out of the way.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from fastgrad.bench.accuracy import accuracy
from fastgrad.bench.contenders.protocol import (
    Backend,
    CannotStart,
    Prepared,
    Readiness,
    Unsupported,
)
from fastgrad.bench.forms import Form
from fastgrad.bench.inputs import input_arrays
from fastgrad.bench.memory import peak_bytes
from fastgrad.bench.timing import choose_repetitions, seconds_per_call, wait_until_idle
from fastgrad.bench.workloads import Case

# Arrays of more bytes are made for each group, and once: in ten processes they need gigabytes, and time.
_LARGE = 64 << 20

# What decides the inputs of a case, besides its shape and dtype: their names, and their shapes for it.
_Inputs = tuple[tuple[str, ...], Form]


class Worker:
    """Answers the requests of the parent for one contender."""

    def __init__(self, backend: Backend, seed: int) -> None:
        self._backend = backend
        self._seed = seed
        self._prepared: dict[Case, tuple[Prepared, Readiness]] = {}
        self._inputs: dict[_Inputs, tuple[Case, dict[str, np.ndarray]]] = {}

    def prepare(self, case: Case) -> Readiness:
        """Make inputs and outputs, check the result, and choose the repetitions of a sample."""
        if case not in self._prepared:
            self._prepared[case] = self._make(case)
        return self._prepared[case][1]

    def peak_bytes(self, case: Case) -> int | None:
        """Bytes of a call of `case` above what is there before; None if they cannot be seen."""
        prepared, _ = self._prepared[case]
        if prepared.peak_bytes:
            return prepared.peak_bytes()
        if getattr(self._backend, "POOLS_MEMORY", False):
            return None  # a pool that keeps what it has would pass for a call that needs nothing
        if prepared.restore:
            prepared.restore()
        return peak_bytes(prepared.call)

    def sample(self, case: Case) -> float:
        """Seconds of a call of `case`, over one sample."""
        prepared, ready = self._prepared[case]
        seconds = seconds_per_call(prepared, ready.repetitions)
        wait_until_idle()
        return seconds

    def keep_only(self, case: Case) -> None:
        """Free everything else that was prepared."""
        self._prepared = {one: made for one, made in self._prepared.items() if one == case}
        gc.collect()

    def move(self, case: Case) -> None:
        """Prepare `case` once more, in other memory, unless that takes long.

        Where arrays lie, in huge pages or not, may change a time by a quarter from one run to the
        next, and not at all within one.
        """
        if case.array_bytes > _LARGE:
            return
        copies = {name: array.copy() for name, array in self._input_arrays(case).items()}
        prepared, answer = self._prepared[case]
        self._prepared[case] = self._backend.prepare(case, copies), answer
        del prepared  # not before the new ones were made: its memory would be theirs

    def drop_large_inputs(self) -> None:
        """Free the input arrays of which most libraries have made copies by now."""
        self._inputs = {
            kind: (case, arrays)
            for kind, (case, arrays) in self._inputs.items()
            if case.array_bytes <= _LARGE
        }

    def _make(self, case: Case) -> tuple[Prepared, Readiness]:
        if case.operator not in self._backend.OPERATORS:
            raise Unsupported(case.operator)
        prepared = self._backend.prepare(case, self._input_arrays(case))
        if prepared.restore:
            prepared.restore()
        error = accuracy(prepared.arrays(prepared.call()), case, self._seed)
        kept = prepared.bytes_kept() if prepared.bytes_kept else None
        return prepared, Readiness(prepared.code, choose_repetitions(prepared), error, kept)

    def _input_arrays(self, case: Case) -> dict[str, np.ndarray]:
        """The inputs of `case`, made anew only where those of the last such case do not fit."""
        workload = case.workload
        kind = workload.inputs, workload.form
        last, arrays = self._inputs.get(kind, (None, {}))
        if last is None or (last.shape, last.dtype) != (case.shape, case.dtype):
            arrays = input_arrays(case, self._seed)
            self._inputs[kind] = case, arrays
        return arrays


def serve(connection: Connection, module: str, threads: int, seed: int) -> None:
    """Answer requests, `(method, arguments)`, until the parent closes the connection.

    The methods are those of the backend's `WORKER`, of `Worker` if it has none.

    The first answer is sent unasked: the versions, once the library is ready.
    """
    try:
        backend: Any = importlib.import_module(module)
        connection.send(("done", backend.start(threads)))
    except Exception as error:
        connection.send(("failed", _reason(error)))
        return
    worker = getattr(backend, "WORKER", Worker)(backend, seed)
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        connection.send(_answer(worker, method, arguments))


def _answer(worker: Any, method: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "done", getattr(worker, method)(*arguments)
    except Unsupported as reason:
        return "unsupported", str(reason)
    except Exception as error:
        traceback.print_exc()
        return "failed", _reason(error)


def _reason(error: Exception) -> str:
    """What a reader is told; only advice needs no type."""
    return str(error) if isinstance(error, CannotStart) else f"{type(error).__name__}: {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    for name in ("descriptor", "threads", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    serve(Connection(options.descriptor), options.module, options.threads, options.seed)


if __name__ == "__main__":
    main()
