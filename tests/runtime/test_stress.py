"""`make stress` itself: episodes of each kind run, planted faults are found, hanging children are ended."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import fastgrad
from rounding import DTYPES

sys.path.append(str(Path(__file__).parents[2]))
arrays = importlib.import_module("tools.stress.arrays")
balls = importlib.import_module("tools.stress.balls")
command = importlib.import_module("tools.stress.__main__")
duals = importlib.import_module("tools.stress.duals")
judge = importlib.import_module("tools.stress.judge")
operators = importlib.import_module("tools.stress.operators")
programs = importlib.import_module("tools.stress.programs")
runner = importlib.import_module("tools.stress.runner")

SILU = programs.Program(("a",), (), "a * m.sigmoid(a)")
#: Episodes that compile little, by kind.
QUICK = {"operators": 335, "crowd": 1657, "forks": 2642, "cache_faults": 258}


# --- Episodes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", QUICK)
def test_an_episode_of_each_kind(kind, tmp_path):
    runner.copy_kernels(tmp_path)
    outcome = runner.run(runner.Episode(kind, QUICK[kind], seconds=1), tmp_path, 150)
    assert outcome.fault == ""
    assert sum(outcome.counts.values()) > 0


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Runs a program at the start of every Python process that episodes start."""

    def plant(code: str) -> None:
        (tmp_path / "sitecustomize.py").write_text(code)
        paths = str(tmp_path), os.environ.get("PYTHONPATH", "")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    return plant


def test_a_wrong_kernel_is_reported_with_what_repeats_it(planted, capsys):
    planted("""
from fastgrad.functional._run import ProgramRunner
run = ProgramRunner.run
def run_wrongly(self, *arguments):
    results = run(self, *arguments)
    for result in results.values():
        result += result
    return results
ProgramRunner.run, ProgramRunner.plain = run_wrongly, lambda *_: None
""")
    assert command.main(["--episodes", "1", "--kind", "operators", "--seed", "207"]) == 1
    printed = capsys.readouterr().out
    assert "values are off" in printed and "return (0.5 * (a * m.normal_cdf(a)))" in printed
    again = re.search(r"make stress SEED=207 ARGS='(.*)'", printed)
    assert again, printed
    assert command.main(["--seed", "207", *shlex.split(again[1])]) == 1


def test_a_hanging_episode_is_ended_with_all_its_processes(planted, tmp_path):
    planted(f"""
import subprocess, sys, time
if sys.argv[0] == "-m":
    child = subprocess.Popen(["sleep", "1000"])
    open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
    import fastgrad.functional._operator as _operator
    _operator.Operator.__call__ = lambda *_, **__: time.sleep(1000)
""")
    outcome = runner.run(runner.Episode("operators", 54), tmp_path, 6)
    assert outcome.fault.startswith("no end after 6 s")
    assert "in check" in outcome.fault  # its stack
    child = Path("/proc", (tmp_path / "child").read_text(), "status")
    assert not child.exists() or "zombie" in child.read_text()


def test_no_time_no_episodes(capsys):
    assert command.main(["--minutes", "0", "--kind", "operators"]) == 0
    assert "SEED=" in capsys.readouterr().out


# --- What the checks see ---------------------------------------------------------------------------


def call(**keywords):
    dy, a = np.random.default_rng(0).normal(0, 2, (2, 1000)).astype(np.float32)
    kernel = operators.Kernel(keywords.pop("wrt", ()))
    given = {"dy": dy, "a": a} if kernel.wrt else {"a": a}
    return operators.Call(SILU, kernel, np.dtype(np.float32), given, {}, None, [None], **keywords)


class Wrong:
    """An operator whose results are changed by `change`."""

    def __init__(self, change):
        self.change, self.right = change, SILU.operator()

    def __call__(self, *operands, **keywords):
        result = self.right(*operands, **keywords)
        self.change(result, operands)
        return result

    def grad(self, *operands, **keywords):
        results = self.right.grad(*operands, **keywords)
        self.change(results[0], operands)
        return results


def eight_ulp(result, operands):
    """At the lane that is best conditioned: the largest operand."""
    result.view(np.int32)[np.argmax(operands[-1])] += 8


def a_bit_when_parallel(result, operands):
    if fastgrad.get_num_threads() > 1:
        result.view(np.int32)[500] ^= 1


def an_operand_when_parallel(result, operands):
    if fastgrad.get_num_threads() > 1:
        operands[0][7] += 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (eight_ulp, "1 of 1000 values are off"),
        (a_bit_when_parallel, "1 of 1000 differ, the first at 500"),
        (an_operand_when_parallel, "the operand .* was written"),
    ],
)
@pytest.mark.parametrize("wrt", [(), ("a",)])
def test_what_is_wrong_is_seen(change, text, wrt):
    threads = fastgrad.get_num_threads()
    try:
        right = call(wrt=wrt).check(SILU.operator())
        assert right["values"] > 900
        with pytest.raises(judge.Fault, match=text) as found:
            call(wrt=wrt, settings=(2, 64, 1 << 20)).check(Wrong(change))
        assert "threads, block size, last cache: 2, 64" in found.value.__notes__[0]
    finally:
        fastgrad.set_num_threads(threads)
        fastgrad.set_block_size(fastgrad.BLOCK_SIZE)


def test_memory_around_a_result_is_watched():
    rng = np.random.default_rng(0)
    out = arrays.blank(rng, (10, 10), np.dtype(np.float32), is_result=True)
    before = arrays.surroundings(out)
    out[...] = 3
    assert arrays.surroundings(out) == before
    np.frombuffer(out.base, np.uint8)[-1] = 0
    assert arrays.surroundings(out) != before


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_hold_what_is_written(dtype):
    rng, strides = np.random.default_rng(0), set()
    for _ in range(200):
        out = arrays.blank(rng, (3, 5, 7), np.dtype(dtype), is_result=True)
        values = rng.integers(-9, 9, out.shape).astype(dtype)
        out[...] = values
        assert np.array_equal(out, values) and out.flags.writeable
        strides.add(out.strides)
    assert len(strides) > 50


# --- The reference ---------------------------------------------------------------------------------


def test_every_function_of_the_language_has_a_reference():
    names = set(fastgrad.maths.__all__) - {"TraceError", "Traced", "emit"}
    names -= {"mean", "sum", "variance"}  # of a row: no elementwise operator has them
    # These are tried on all operands by `make exhaustive`, pow and random in tests of their own.
    names -= {"cos", "log_sigmoid", "mish", "pow", "random", "round", "sin"}
    assert names <= set(vars(duals.MATHS))


@pytest.mark.parametrize("name", programs.UNARY)
def test_slopes_of_the_reference_are_derivatives(name):
    points = np.random.default_rng(0).normal(0, 2, 100)
    program = programs.Program(("a",), (), f"m.{name}(a * 1.1)")
    assert judge.check_slopes(program, {"a": points}) >= 40


def test_a_slope_that_is_none_is_seen(monkeypatch):
    monkeypatch.setattr(duals.MATHS, "exp", duals._smooth(np.exp, np.cos))
    with pytest.raises(judge.Fault, match="no derivative"):
        judge.check_slopes(programs.Program(("a",), (), "m.exp(a)"), {"a": np.ones(3)})


def test_bounds_follow_the_condition():
    def error(maths: str, **operands: float) -> float:
        function = programs.Program(tuple(operands), (), maths).function(duals.MATHS)
        found = duals.reference(function, operands, (), balls.FLOAT32).ball
        return float(found.error / (balls.FLOAT32.eps * abs(found.value)))

    assert error("a * m.sigmoid(a)", a=3.0) < 6
    assert 1e3 < error("(a + 1000.0) - 1000.0", a=1.0) < 1e4
    assert error("m.exp(a)", a=100.0) == np.inf  # overflows
    assert error("m.where(m.exp(a) > m.exp(b), 1.0, 2.0)", a=1.0, b=1.0) > 1e6  # either way
