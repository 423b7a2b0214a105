"""Hardware counters: a `perf` that prints what it is told to, one that refuses, and none at all."""

from __future__ import annotations

import sys

import pytest

from fastgrad.profile import __main__ as command
from fastgrad.profile import hardware
from fastgrad.profile.hardware_report import derived_lines, missing_line

#: Takes the commands of `--control`, and writes the counters when it is interrupted.
PERF = """\
#!{python}
import signal, sys
if sys.argv[1] == "list":
    print("fp_arith_inst_retired.512b_packed_single [Raw event]")
    print("fp_arith_inst_retired.scalar_single")
    sys.exit()
given = dict(zip(sys.argv, sys.argv[1:]))
commands, answers = (int(fd) for fd in sys.argv[-1].partition("fd:")[2].split(","))
def end(*_):
    with open(given["-o"], "w") as file:
        file.write("# started\\n\\n" + '''{counters}''')
    sys.exit()
signal.signal(signal.SIGINT, end)
with open(commands) as told, open(answers, "w") as answer:
    for word in told:
        print("ack", file=answer, flush=True)
"""

COUNTERS = """\
8000000,,cycles:u,1000,100.00,,
16000000,,instructions:u,1000,100.00,2.00,insn per cycle
1000000,,cache-references,1000,62.50,,
250000,,cache-misses,1000,62.50,25.00,of all cache refs
600,,fp_arith_inst_retired.512b_packed_single,1000,62.50,,
200,,fp_arith_inst_retired.scalar_single,1000,62.50,,
<not supported>,,stalled-cycles-backend,0,100.00,,
2.5,msec,task-clock,2500000,100.00,1.9,CPUs utilized
"""

VIRTUAL = """\
<not supported>,,cycles,0,100.00,,
<not supported>,,instructions,0,100.00,,
2.5,msec,task-clock,2500000,100.00,1.9,CPUs utilized
12,,page-faults,2500000,100.00,4.8,K/sec
"""

HYBRID = "100,,cpu_core/cycles/u,1,100.00,,\n20,,cpu_atom/cycles/u,1,100.00,,\n"


@pytest.fixture
def perf(tmp_path, monkeypatch):
    """Puts a script in the only folder of PATH, as `perf`."""

    def make(text: str) -> None:
        (tmp_path / "perf").write_text(text)
        (tmp_path / "perf").chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    return make


@pytest.fixture
def shown(capsys, monkeypatch):
    """Runs the command; its exit code and what it shows, in one line."""
    monkeypatch.setattr(command, "_COUNTED_SECONDS", 0.01)

    def run() -> tuple[int, str]:
        code = command.main(["hardware", "--op", "swish_grad", "--shape", "1000"])
        return code, " ".join(capsys.readouterr().out.split())

    return run


class TestCounters:
    def test_parsed(self):
        found = hardware.parse("# started\n\n" + COUNTERS)
        assert found.values["cycles"] == 8e6
        assert found.values["task-clock"] == 2.5
        assert found.missing == ("stalled-cycles-backend",)
        assert found.shared
        assert found.has_hardware

    def test_both_kinds_of_core_are_one_counter(self):
        assert hardware.parse(HYBRID).values == {"cycles": 120}

    def test_what_follows_from_them(self):
        text = "\n".join(derived_lines(hardware.parse(COUNTERS), calls=10, elements=1000))
        assert "instructions a cycle: 2\n" in text
        assert "clock: 3.2 GHz" in text
        assert "references to the last level that miss: 25 %" in text
        assert "cache misses in 1000 elements: 25000" in text
        assert "512b_packed_single: 75 %" in text
        assert "they took turns" in text

    def test_a_single_missing_one(self):
        assert missing_line(hardware.parse(COUNTERS)) == (
            "Not supported by this machine: stalled-cycles-backend."
        )


class TestCommand:
    def test_with_counters(self, perf, shown):
        perf(PERF.format(python=sys.executable, counters=COUNTERS))
        code, text = shown()
        assert code == 0
        assert "instructions a cycle: 2" in text
        assert "cycles" in text and "an element" in text

    def test_in_a_virtual_machine(self, perf, shown):
        perf(PERF.format(python=sys.executable, counters=VIRTUAL))
        code, text = shown()
        assert code == 0
        assert "task-clock, ms" in text
        assert "This machine has no hardware counters" in text
        assert "Not supported: cycles, instructions." in text

    def test_not_installed(self, perf, shown):
        code, text = shown()
        assert code == 1
        assert "perf is not installed. Debian: apt-get install linux-perf" in text

    def test_not_allowed(self, perf, shown, monkeypatch, tmp_path):
        perf("#!/bin/sh\necho 'Access to performance monitoring is limited.'\nexit 255\n")
        (tmp_path / "paranoid").write_text("4\n")
        monkeypatch.setattr(hardware, "_PARANOID", tmp_path / "paranoid")
        monkeypatch.setattr(hardware.os, "geteuid", lambda: 1000)
        code, text = shown()
        assert code == 1
        assert "perf could not count: Access to performance monitoring is limited." in text
        assert "perf_event_paranoid is 4" in text
        assert "sudo sysctl kernel.perf_event_paranoid=2" in text
