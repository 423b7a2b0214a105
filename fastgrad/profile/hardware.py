"""Hardware counters of a call, by `perf`; and what to do where there are none.

`perf` attaches to this process and counts from one word of ours to another: neither Python's start
nor compiling is in the numbers.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastgrad.bench.contenders.protocol import Prepared
from fastgrad.bench.timing import choose_repetitions, seconds_per_call

__all__ = ["Counters", "NoCounters", "calls_in", "count", "parse"]

#: Counted where `perf` has them. The last are the kernel's own, which every machine has.
EVENTS = (
    *("cycles", "instructions", "branches", "branch-misses", "cache-references", "cache-misses"),
    *("L1-dcache-loads", "L1-dcache-load-misses", "dTLB-load-misses", "stalled-cycles-backend"),
)
SOFTWARE = ("task-clock", "context-switches", "cpu-migrations", "page-faults")
#: The mix of vector instructions, where `perf list` knows such an event: Intel's and AMD's.
VECTORS = (
    *(
        f"fp_arith_inst_retired.{width}_{lanes}"
        for width in ("scalar", "128b_packed", "256b_packed", "512b_packed")
        for lanes in ("single", "double")
    ),
    *(
        "fp_ops_retired_by_width.pack_512_uops_retired",
        "fp_ops_retired_by_width.pack_256_uops_retired",
    ),
    *(
        "fp_ops_retired_by_width.pack_128_uops_retired",
        "fp_ops_retired_by_width.scalar_uops_retired",
    ),
)

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_ANSWER_SECONDS = 10

_INSTALL = (
    "perf is not installed. Debian: apt-get install linux-perf; Ubuntu: apt-get install "
    "linux-tools-common linux-tools-$(uname -r); Fedora: dnf install perf."
)


class NoCounters(Exception):
    """`perf` could not count; the text says why, and what to do."""


@dataclass(frozen=True)
class Counters:
    """What was counted.

    Attributes
    ----------
    values : dict of str to float
        By event. Milliseconds for ``task-clock``.
    missing : tuple of str
        Events that this machine does not have.
    shared : bool
        Whether events took turns on too few counters, so that their numbers are extrapolated.
    """

    values: dict[str, float]
    missing: tuple[str, ...]
    shared: bool

    @property
    def has_hardware(self) -> bool:
        """Whether the processor's own counters can be used at all."""
        return bool(set(self.values) - set(SOFTWARE))


def calls_in(seconds: float, call: Callable[[], Any]) -> int:
    """How many runs of `call` take about so long; it is warm then, and its threads are there."""
    prepared = Prepared(call, lambda result: (), "")
    repetitions = choose_repetitions(prepared)
    return max(1, round(seconds / seconds_per_call(prepared, repetitions)))


def count(call: Callable[[], Any], calls: int) -> Counters:
    """Count while `call` runs so often, in all threads that this process has by then.

    Raises
    ------
    NoCounters
        Where there is no `perf`, or it may not count.
    """
    perf = shutil.which("perf")
    if perf is None:
        raise NoCounters(_INSTALL)
    events = (*EVENTS, *_known(perf, VECTORS), *SOFTWARE)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "counters.csv")
        with _attached(perf, events, output) as tell:
            tell("enable")
            for _ in range(calls):
                call()
            tell("disable")
        return parse(output.read_text())


def _known(perf: str, events: Sequence[str]) -> list[str]:
    """Those events that `perf` knows on this machine: it refuses all where it does not know one."""
    listed = subprocess.run(
        [perf, "list", "--no-desc"], capture_output=True, text=True, check=False
    )
    names = set(listed.stdout.split())
    return [event for event in events if event in names]


@contextlib.contextmanager
def _attached(perf: str, events: Sequence[str], output: Path) -> Iterator[Callable[[str], None]]:
    """A `perf stat` of this process, which takes commands and writes `output` when it ends."""
    commands, to_perf = os.pipe()
    answers, from_perf = os.pipe()
    command = [
        *(perf, "stat", "-x,", "-o", str(output), "-e", ",".join(events), "-p", str(os.getpid())),
        *("--delay=-1", f"--control=fd:{commands},{from_perf}"),  # -1: count when told to
    ]
    with subprocess.Popen(
        command,
        pass_fds=[commands, from_perf],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        os.close(commands)
        os.close(from_perf)
        try:
            yield functools.partial(_tell, process, to_perf, answers)
            process.send_signal(signal.SIGINT)  # how one ends it
            process.wait(_ANSWER_SECONDS)
        finally:
            process.kill()
            os.close(to_perf)
            os.close(answers)


def _tell(process: subprocess.Popen[str], to_perf: int, answers: int, word: str) -> None:
    """Give a command and wait until it is obeyed."""
    with contextlib.suppress(BrokenPipeError):
        os.write(to_perf, f"{word}\n".encode())
    if not select.select([answers], [], [], _ANSWER_SECONDS)[0] or not os.read(answers, 64):
        process.kill()
        assert process.stdout is not None
        raise NoCounters(_why_not(process.stdout.read()))


def _why_not(words: str) -> str:
    """The reason that `perf` gave, and the usual remedies."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    reason = "perf could not count: " + (" ".join(lines[:6]) or "it gave no answer")
    level = _PARANOID.read_text().strip() if _PARANOID.exists() else ""
    if os.geteuid() and level.lstrip("-").isdigit() and int(level) > 2:
        reason += (
            f"\nperf_event_paranoid is {level}, which allows nothing to users: "
            "sudo sysctl kernel.perf_event_paranoid=2"
        )
    return (
        reason
        + "\nIn a container, perf needs the capability PERFMON (docker run --cap-add PERFMON)."
    )


def parse(text: str) -> Counters:
    """Read what ``perf stat -x,`` wrote: value, unit, event, time counted, share of it, …"""
    values: dict[str, float] = {}
    missing: list[str] = []
    shared = False
    for line in text.splitlines():
        fields = line.split(",")
        if line.startswith("#") or len(fields) < 5:
            continue
        event = _event_name(fields[2])
        try:
            values[event] = values.get(event, 0.0) + float(fields[0])
        except ValueError:  # <not supported>, <not counted>
            missing.append(event)
        else:
            shared |= float(fields[4] or 100) < 99.5
    return Counters(values, tuple(event for event in missing if event not in values), shared)


def _event_name(text: str) -> str:
    """Without a modifier, and without the kind of core in front (`cpu_core/cycles/u`)."""
    match = re.fullmatch(r"cpu_\w+/([^/]+)/\w*", text)
    return match[1] if match else re.sub(r":[a-zA-Z]+$", "", text)
