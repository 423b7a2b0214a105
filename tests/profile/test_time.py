"""Where the time of a call goes: what is launched, moved and observed. No time is asserted."""

from __future__ import annotations

import math
import platform

import numpy as np
import pytest

import fastgrad
from fastgrad.bench.references import add
from fastgrad.bench.workloads import DTYPES, WORKLOADS
from fastgrad.kernels.template import CHECKED, DIRECT
from fastgrad.profile import __main__ as command
from fastgrad.profile.assembly import hot_loop
from fastgrad.profile.balance import balance_of
from fastgrad.profile.launches import launches_of, left_out
from fastgrad.profile.moving import BOTH, IN, OUT, moving
from fastgrad.profile.parts import TracedLaunch
from fastgrad.profile.subject import known_operators, subject_of
from fastgrad.vector_unit.precision import PRECISIONS

FLOAT32 = PRECISIONS[DTYPES["float32"]]
LARGE = (1 << 17) + 5


@pytest.fixture
def sums():
    """An addition of its inputs, and its result."""
    x, y = np.random.default_rng(0).normal(size=(2, LARGE)).astype(np.float32)
    out = np.zeros_like(x)
    return x, y, out


@pytest.fixture
def two_threads():
    before = fastgrad.get_num_threads()
    fastgrad.set_num_threads(2)
    yield
    fastgrad.set_num_threads(before)


@pytest.fixture
def added(sums, two_threads):
    """The launches of the addition, and its result."""
    x, y, out = sums
    return launches_of(lambda: add(x, y, out=out)), out


class TestLaunches:
    def test_a_small_call_is_one_serial_launch(self):
        subject = subject_of("swish_grad", (1024,), "float32")
        (launch,) = launches_of(subject.call)
        assert (launch.size, launch.cores, launch.count, launch.store) == (1024, 1, 1, CHECKED)

    def test_a_large_call_takes_all_cores(self, added):
        (launch,), _ = added
        assert (launch.size, launch.cores, launch.store) == (LARGE, 2, DIRECT)

    def test_forward_and_backward_are_two(self):
        subject = subject_of("swish_forward_backward", (4096,), "float32")
        assert [program.name for program in subject.programs] == ["swish", "swish_grad"]
        assert len(launches_of(subject.call)) == 2

    def test_a_repeated_launch_writes_what_the_call_writes(self, added):
        (launch,), out = added
        expected = out.copy()
        out[:] = 0
        launch()
        assert np.array_equal(out, expected)
        out[:] = 7
        launch.empty()()
        assert (out == 7).all()
        launch.in_cache()()
        changed = np.flatnonzero(out != 7)
        assert changed.size and changed[-1] < 24 << 10

    @pytest.mark.parametrize("size", [1024, LARGE])
    def test_a_call_without_its_launches(self, size):
        x = np.ones(size, np.float32)
        out = np.full_like(x, 7)
        add(x, x, out=np.empty_like(x))
        with left_out():
            assert add(x, x, out=out) is out
        assert (out == 7).all()
        add(x, x, out=out)
        assert (out == 2).all()


class TestMoving:
    @pytest.fixture
    def moved(self, added):
        (launch,), _ = added
        return lambda what: moving(launch, add.trace(), FLOAT32, what)

    def test_both_ways_every_bit_is_read_and_written(self, sums, moved):
        x, y, out = sums
        moved(BOTH)()
        bits = x.view(np.uint32) ^ y.view(np.uint32)
        assert np.array_equal(out.view(np.uint32), bits)

    def test_in_alone_writes_nothing(self, sums, moved):
        _, _, out = sums
        out[:] = 7
        moved(IN)()
        assert (out == 7).all()

    def test_out_alone_writes_everything(self, sums, moved):
        _, _, out = sums
        out[:] = np.nan
        moved(OUT)()
        assert np.array_equal(out.view(np.uint32) % fastgrad.BLOCK_SIZE, np.arange(LARGE) % 2048)

    def test_streamed_results_are_complete(self, sums, moved):
        x, y, out = sums
        moved(BOTH).stored(1)()
        assert np.array_equal(out.view(np.uint32), x.view(np.uint32) ^ y.view(np.uint32))

    def test_it_moves_whole_vectors(self, moved):
        kernel = moved(BOTH).tiles
        kernel.dispatcher.compile(kernel.signature)
        loop = hot_loop(kernel.dispatcher.inspect_asm(kernel.signature), platform.machine())
        assert loop.bits >= 128

    def test_sums_too(self):
        x = np.ones(LARGE, np.float32)
        (launch,) = launches_of(lambda: fastgrad.swish.grad(x, x, 1.5))
        program = fastgrad.swish.trace(wrt=("x", "beta"))
        moving(launch, program, FLOAT32, BOTH)()
        assert not launch.arguments[9].view(np.uint32).any()  # 1.0 ^ 1.0


class TestBalance:
    def test_the_parts_are_the_launch(self, added):
        (launch,), out = added
        expected = out.copy()
        out[:] = 0
        rows = TracedLaunch(launch)()
        assert np.array_equal(out, expected)
        assert rows["tiles"].sum() == launch.count
        assert len(rows) == 8  # four a core
        assert (rows["ended"]["seconds"] >= rows["began"]["seconds"]).all()

    def test_participants(self, added):
        (launch,), _ = added
        balance = balance_of(launch, launches=5)
        assert balance.participants[0].name == "caller"
        assert sum(own.parts for own in balance.participants) == pytest.approx(8)
        assert sum(own.tiles for own in balance.participants) == pytest.approx(launch.count)
        assert 1 <= balance.imbalance <= 2
        assert balance.idle <= 1

    def test_a_serial_launch(self):
        (launch,) = launches_of(subject_of("swish_grad", (100,), "float32").call)
        (only,) = balance_of(launch, launches=3).participants
        assert (only.name, only.parts) == ("caller", 1)


class TestCommand:
    def test_known_operators(self):
        assert set(known_operators()) <= set(WORKLOADS)
        assert "swish_grad" in known_operators()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--op", "swoosh"], "unknown operator 'swoosh'; known: swish_grad, silu, gelu"),
            (["--dtype", "int8"], "unknown dtype 'int8'; known: float16, bfloat16"),
            (["--shape", "12by3"], "'12by3' is no shape"),
            (["--threads", "0"], "at least 1, got 0"),
        ],
    )
    def test_an_unknown_value_names_the_known_ones(self, capsys, arguments, message):
        with pytest.raises(SystemExit) as stopped:
            command.main(["time", *arguments])
        assert stopped.value.code == 2
        assert message in " ".join(capsys.readouterr().err.split())

    def test_what_is_shown(self, capsys, two_threads):
        arguments = [
            "--op",
            "swish_grad",
            "--shape",
            "512x256",
            "--dtype",
            "float32",
            "--rounds",
            "2",
        ]
        assert command.main(["time", *arguments]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        for part in (
            "dispatch",
            "launch",
            "walk",
            "rest",
            "data_copy in",
            "data_copy out",
            "compute",
        ):
            assert part in shown, part
        assert f"Bytes: 12 an element, {12 * math.prod((512, 256)) / 1e6:.4g} MB in all" in shown
        assert "Multiple of the streaming bound: " in shown
        assert "All arrays fit into the last-level cache" in shown
        assert "64 ranges on 2 cores" in shown or "65 ranges on 2 cores" in shown
        assert "Imbalance: " in shown
        assert "caller" in shown
