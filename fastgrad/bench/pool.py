"""The processes of the contenders, as the measuring parent sees them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from multiprocessing import Pipe
from typing import Any

from fastgrad.bench.contenders import Contender
from fastgrad.bench.contenders.protocol import Unsupported

_START_SECONDS = 180
_ANSWER_SECONDS = 300


class ContenderFailed(Exception):
    """A contender could not do what it was asked for; the text says why."""


class WorkerProcess:
    """One contender's process.

    Parameters
    ----------
    contender : Contender
        Its module and environment.
    threads, seed : int
        What every contender gets alike.
    """

    def __init__(self, contender: Contender, threads: int, seed: int) -> None:
        self.contender = contender
        self.versions: dict[str, str] = {}
        with ExitStack() as resources:
            self._errors = resources.enter_context(tempfile.TemporaryFile("w+"))
            self._connection, theirs = Pipe()
            resources.callback(self._connection.close)
            with theirs:
                self._process = self._start(theirs.fileno(), threads, seed)
            self._resources = resources.pop_all()

    def wait_until_ready(self) -> None:
        """Wait for the library to be imported and set up.

        Raises
        ------
        ContenderFailed
            If it can't be, with its own reason.
        """
        self.versions = self._receive(_START_SECONDS)

    def ask(self, method: str, *arguments: Any) -> Any:
        """The answer of `Worker.method(*arguments)` in the contender's process.

        Raises
        ------
        Unsupported
            If the contender has nothing to measure there.
        ContenderFailed
            If it raised, died or did not answer.
        """
        try:
            self._connection.send((method, arguments))
        except OSError:
            raise ContenderFailed(self._last_words()) from None
        return self._receive(_ANSWER_SECONDS)

    def close(self) -> None:
        """End the process."""
        self._connection.close()  # the worker ends by itself when nobody can ask any more
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._resources.close()

    def _start(self, descriptor: int, threads: int, seed: int) -> subprocess.Popen[bytes]:
        command = [
            *(sys.executable, "-P", "-m", "fastgrad.bench.worker", self.contender.module),
            *("--descriptor", str(descriptor)),
            *("--threads", str(threads), "--seed", str(seed)),
        ]
        return subprocess.Popen(
            command,
            env=_environment(self.contender, threads),
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
        )

    def _receive(self, seconds: float) -> Any:
        try:
            if not self._connection.poll(seconds):
                self._process.kill()
                raise ContenderFailed(f"no answer in {seconds:.0f} s")
            state, value = self._connection.recv()
        except (EOFError, OSError):
            raise ContenderFailed(self._last_words()) from None
        if state == "unsupported":
            raise Unsupported(value)
        if state == "failed":
            raise ContenderFailed(value)
        return value

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return f"its process ended with code {code}: {lines[-1] if lines else 'no message'}"


class Pool:
    """All contenders of a run; those that can't take part are in `missing` with the reason.

    Parameters
    ----------
    contenders : mapping
        By name, as in `fastgrad.bench.contenders.CONTENDERS`.
    threads : int
        Set in every one of them.
    seed : int
        Of the inputs.
    """

    def __init__(self, contenders: Mapping[str, Contender], *, threads: int, seed: int) -> None:
        self.missing: dict[str, str] = {}
        self._workers = {
            name: WorkerProcess(contender, threads, seed) for name, contender in contenders.items()
        }
        for name, worker in list(self._workers.items()):
            try:
                worker.wait_until_ready()
            except ContenderFailed as reason:
                self._drop(name, reason)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._workers)

    def __getitem__(self, name: str) -> WorkerProcess:
        return self._workers[name]

    def _drop(self, name: str, reason: Exception) -> None:
        self.missing[name] = str(reason)
        self._workers.pop(name).close()


def _environment(contender: Contender, threads: int) -> dict[str, str]:
    """The parent's environment and import path, and one number of threads for every library."""
    count = str(threads)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        **contender.environment,
    }
