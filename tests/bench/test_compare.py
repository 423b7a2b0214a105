"""The measuring itself: statistics, errors, arguments, processes that fail. No time is asserted."""

from __future__ import annotations

import dataclasses
import json

import ml_dtypes
import numpy as np
import pytest

import simulated_runs
from fastgrad.bench import compare
from fastgrad.bench.accuracy import Accuracy, accuracy
from fastgrad.bench.arguments import names_of_peers
from fastgrad.bench.contenders import CONTENDERS, Contender
from fastgrad.bench.contenders.protocol import Readiness, bind
from fastgrad.bench.inputs import PERIOD, input_arrays, values
from fastgrad.bench.pool import ContenderFailed
from fastgrad.bench.report import markdown
from fastgrad.bench.results import Results, Row
from fastgrad.bench.spread import Spread, ratio, spread
from fastgrad.bench.targets import judge
from fastgrad.bench.workloads import DTYPES, FEATURE_MAP, SIZES, WORKLOADS, Case, plan, stream_case
from simulated_runs import SimulatedMachine, simulated_run

TINY = Case("swish_grad", (1024,), "float32", "out")


class TestStatistics:
    def test_median_and_quartiles(self):
        assert spread([5.0, 1.0, 3.0, 2.0, 4.0]) == Spread(3.0, 2.0, 4.0)

    def test_ratios_are_formed_round_by_round(self):
        # A machine that halves its speed in some rounds: the pairs agree, the medians do not.
        slow, fast = [2.0, 4.0, 4.0, 2.0, 4.0], [1.0, 2.0, 2.0, 1.0, 2.0]
        assert ratio(slow, fast) == Spread(2.0, 2.0, 2.0)
        assert ratio([2.0, 2.0, 6.0], [2.0, 1.0, 2.0]).median == 2.0

    def test_samples_without_a_partner_are_refused(self):
        with pytest.raises(ValueError, match="3 numerators and 2 denominators"):
            ratio([1.0, 2.0, 3.0], [1.0, 2.0])


class TestAccuracy:
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
    def test_a_correctly_rounded_result(self, dtype):
        case = dataclasses.replace(TINY, dtype=dtype)
        found = accuracy([_exact(case).astype(DTYPES[dtype])], case, seed=0)
        assert found.ulp <= 0.5
        assert found.exactly_rounded == 1

    def test_one_wrong_element_among_many_periods(self):
        case = Case("silu", (3 * PERIOD + 5,), "float32", "out")
        result = np.resize(_exact(dataclasses.replace(case, shape=(PERIOD,))), case.shape)
        result = result.astype(np.float32)
        result[2 * PERIOD + 7] += 0.5
        found = accuracy([result], case, seed=0)
        assert found.absolute == pytest.approx(0.5, rel=1e-6)
        assert found.exactly_rounded == 1 - 1 / result.size

    def test_units_of_a_16_bit_result_are_its_own(self):
        case = dataclasses.replace(TINY, operator="silu", dtype="bfloat16")
        exact = _exact(case)
        result = exact.astype(ml_dtypes.bfloat16)
        mantissa, _ = np.frexp(np.abs(exact))
        amid_binade = np.argmin(np.abs(mantissa - 0.75))
        result.view(np.uint16)[amid_binade] += 3
        assert 2.5 <= accuracy([result], case, seed=0).ulp <= 3.5

    def test_nan_is_infinitely_wrong(self):
        result = _exact(TINY).astype(np.float32)
        result[17] = np.nan
        assert accuracy([result], TINY, seed=0).ulp == np.inf

    def test_another_shape_is_an_error(self):
        with pytest.raises(ValueError, match="swish_grad gave"):
            accuracy([np.zeros(1023, np.float32)], TINY, seed=0)


class TestInputs:
    def test_the_same_bits_at_every_shape(self):
        small, large = (input_arrays(case, 3) for case in (TINY, stream_case(10**7)))
        assert np.array_equal(small["x"], large["x"][:1024])
        assert np.array_equal(large["x"][:5], large["x"][PERIOD : PERIOD + 5])
        assert not np.array_equal(small["x"], input_arrays(TINY, 4)["x"])

    def test_in_place_restores_its_operand(self):
        dy, x = input_arrays(TINY, 0).values()
        call, restore = bind(
            np.multiply, [dy, x], "in-place", "out", new=np.empty_like, copy=np.copyto
        )
        assert restore is not None
        first = call().copy()
        restore()
        assert np.array_equal(call(), first)
        assert np.array_equal(dy, input_arrays(TINY, 0)["dy"])


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--op", "swoosh"], "unknown operator 'swoosh'; known: swish_grad, silu, gelu"),
            (["--dtype", "float32,int8"], "unknown dtype 'int8'; known: float16, bfloat16"),
            (["--peers", "tensorflow"], "unknown peer 'tensorflow'; known: torch, torch-thp"),
            (["--shape", "12by3"], "'12by3' is no shape"),
            (["--shape", "0x3"], "'0x3' is no shape"),
            (["--rounds", "1"], "at least 2, got 1"),
            (["--threads", "none"], "at least 1, got none"),
            (["--max-rounds", "0"], "at least 2, got 0"),
            (["--precision", "0"], "a percentage between 0 and 100, got 0"),
            (["--workload", "papers"], "invalid choice: 'papers' (choose from"),
            (["--json", "nowhere/run.json"], "there is no folder nowhere"),
            (["--readme", "Makefile"], "Makefile lacks the lines '<!-- compare: begin"),
            (["--workload", "articles", "--op", "gelu"], "no row that could be measured is of"),
            (
                ["--op", "gelu,group_norm", "--shape", "4096"],
                "group_norm needs 3 to 5 axes, N×C×…; got 4096",
            ),
            (
                ["--op", "group_norm_grad", "--shape", "2x48x4x4"],
                "group_norm_grad needs channels, the second axis, that 32 divides; got 2x48x4x4",
            ),
            (["--op", "rms_norm", "--shape", "4096"], "rms_norm needs at least 2 axes"),
            (
                ["--op", "add_gelu_forward_backward", "--shape", "4096"],
                "needs at least 2 axes, rows and what each is added to",
            ),
            (["--workload", "activations", "--op", "silu"], "no row that could be measured is of"),
            (
                ["--op", "group_norm_large_grad", "--shape", "32x64x56x56"],
                "group_norm_large_grad needs at least 8,388,608 elements in a row",
            ),
        ],
    )
    def test_an_unknown_value_names_the_known_ones(self, capsys, arguments, message):
        with pytest.raises(SystemExit) as stopped:
            compare.main(arguments)
        assert stopped.value.code == 2
        assert message in " ".join(capsys.readouterr().err.split())

    def test_a_plan_without_filters_is_the_selection(self):
        cases = [case for group in plan() for case in group]
        assert {case.operator for case in cases} == set(WORKLOADS)
        assert Case("swish_grad", (8192, 4096), "float16", "in-place") in cases
        assert {case.dtype for case in cases if case.operator == "gelu"} == set(DTYPES)
        assert len(set(cases)) == len(cases)

    def test_the_full_one_is_every_size_in_every_dtype(self):
        groups = plan(full=True)
        sizes = [shape for workload in WORKLOADS.values() for shape in workload.sizes]
        assert len(groups) == len(sizes) * len(DTYPES)
        elements = [group[0].elements for group in groups]
        assert min(elements) == 1024
        assert max(elements) * 4 > 64 << 20  # beyond any cache

    def test_filters_replace_what_the_table_says(self):
        (group,) = plan(["gelu"], [(3, 5)], ["float64"])
        assert group == [Case("gelu", (3, 5), "float64", "out")]

    def test_a_filter_goes_with_all_of_what_is_not_filtered(self):
        assert [group[0].dtype for group in plan(["gelu"], [(3, 5)])] == list(DTYPES)
        assert [group[0].shape for group in plan(["gelu"], [], ["float64"])] == list(SIZES)

    def test_a_shape_alone_goes_with_the_operators_that_it_fits(self):
        operators = {group[0].operator for group in plan([], [(4096,)], ["float32"])}
        elementwise = ("activations", "fused", "losses")
        assert operators == {
            name
            for name, workload in WORKLOADS.items()
            if workload.family in elementwise and not name.startswith("add_")
        }
        operators = {group[0].operator for group in plan([], [FEATURE_MAP], ["float32"])}
        assert operators == set(WORKLOADS) - {"group_norm_large_grad"}

    @pytest.mark.parametrize("full", [False, True])
    def test_no_shape_of_a_plan_is_a_misfit(self, full):
        for case, *_ in plan(full=full):
            assert case.workload.form.misfit(case.shape) == "", case

    def test_every_selected_shape_is_measured(self):
        for name, workload in WORKLOADS.items():
            selected = sum(len(shapes) for shapes in workload.selection.values())
            assert len(plan([name])) == selected, name

    def test_no_peer_at_all(self):
        assert names_of_peers("none") == []


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tiny run of the command line: its JSON and its Markdown."""
    folder = tmp_path_factory.mktemp("compare")
    status = compare.main(
        [
            *("--op", "swish_grad,swish_forward_backward", "--shape", "1024"),
            *("--dtype", "float32", "--peers", "torch,composed"),
            *("--rounds", "2", "--max-rounds", "2"),
            *("--json", str(folder / "run.json"), "--markdown", str(folder / "run.md")),
        ]
    )
    assert status == 0
    return json.loads((folder / "run.json").read_text()), (folder / "run.md").read_text()


class TestRun:
    def test_a_row_for_each_mode(self, run):
        rows = [(row["case"]["operator"], row["case"]["mode"]) for row in run[0]["rows"]]
        assert rows == [
            ("swish_grad", "out"),
            ("swish_grad", "in-place"),
            ("swish_grad", "allocate"),
            ("swish_forward_backward", "allocate"),
        ]

    def test_rows_are_complete(self, run):
        for row in run[0]["rows"]:
            peers = {"torch", "composed"} if "backward" in row["case"]["operator"] else {"torch"}
            everyone = peers | {"fastgrad"}
            assert set(row["ratios"]) == peers
            spreads = ("milliseconds", "throughput", "bound_multiple")
            for field in (*spreads, "accuracy", "code", "samples", "peak_bytes"):
                assert set(row[field]) == everyone, field
            assert row["samples_are"] == "elements"
            assert all(len(taken) == 2 for taken in row["samples"].values())
            assert {len(taken) for taken in row["stream_samples"].values()} == {2}
            assert row["in_cache"]
            assert row["failures"] == {}
            assert (row["in_place_gain"] is not None) == (row["case"]["mode"] == "in-place")

    def test_errors_are_those_of_float32(self, run):
        for row in run[0]["rows"]:
            for name, found in row["accuracy"].items():
                assert found["absolute"] < 1e-5, name
                assert found["ulp"] < 50, name

    def test_bytes_kept(self, run):
        kept = run[0]["rows"][-1]["bytes_kept"]
        assert kept == {"fastgrad": 4096, "torch": 4096, "composed": 8192}

    def test_what_a_run_was_made_of(self, run):
        stored, _ = run
        assert stored["settings"] == {
            "workload": "default",
            "thinned": False,
            "rounds": 2,
            "max_rounds": 2,
            "precision": 2.0,
            "threads": 2,
            "seed": 0,
            "peers": ["torch", "composed"],
        }
        assert set(stored["versions"]) == {"fastgrad", "torch", "composed"}
        for name in ("processor", "date", "commit", "python"):
            assert name in stored["machine"]
        assert stored["missing"] == {}

    def test_the_report_shows_the_composed_code(self, run):
        _, text = run
        assert "x * torch.sigmoid(beta * x)" in text
        assert "## Numbers to reach" in text
        assert "## swish_grad\n" in text
        assert "| 1024 | float32 | in-place |" in text

    def test_throughput_is_that_of_the_time(self, run):
        for row in run[0]["rows"]:
            for name, spread_ in row["throughput"].items():
                seconds = row["milliseconds"][name]["median"] / 1e3
                assert spread_["median"] == pytest.approx(1024 / seconds, rel=1e-6)


class TestFailures:
    @pytest.fixture
    def contender(self, tmp_path, monkeypatch):
        """Makes a contender of the given source."""

        def make(source: str) -> Contender:
            (tmp_path / "broken_contender.py").write_text(source)
            monkeypatch.syspath_prepend(tmp_path)
            return Contender("broken_contender", "a test")

        return make

    def run(self, peer: Contender, groups: list[list[Case]]) -> Results:
        contenders = {"fastgrad": CONTENDERS["fastgrad"], "torch": peer}
        return compare.run(groups, contenders, rounds=2)

    def test_a_library_that_is_not_installed(self):
        results = self.run(Contender("no_such_library", "a test"), [])
        assert results.missing == {
            "torch": "ModuleNotFoundError: No module named 'no_such_library'"
        }
        assert "missing: torch: ModuleNotFoundError" in markdown(results)

    def test_a_process_that_dies(self, contender):
        source = "import os, sys\nprint('no such chip', file=sys.stderr, flush=True)\nos._exit(3)\n"
        results = self.run(contender(source), [])
        assert results.missing == {"torch": "its process ended with code 3: no such chip"}

    def test_a_case_that_raises(self, contender):
        source = (
            "OPERATORS = {'swish_grad'}\n"
            "start = lambda threads: {}\n"
            "def prepare(case, inputs):\n"
            "    raise RuntimeError('out of luck')\n"
        )
        (row, *_) = self.run(contender(source), [[TINY]]).rows
        assert row.failures == {"torch": "RuntimeError: out of luck"}
        assert set(row.samples) == {"fastgrad"}

    def test_fastgrad_itself(self):
        contenders = {"fastgrad": Contender("no_such_library", "a test")}
        with pytest.raises(ContenderFailed, match="fastgrad did not start"):
            compare.run([], contenders, rounds=2)


class TestTargets:
    @pytest.mark.parametrize(
        ("seen", "state"), [(1.4, "missed"), (1.7, "must reached, aim missed"), (2.1, "reached")]
    )
    def test_states(self, seen, state):
        results = _results([_row(ratios={"torch": seen, "torch-thp": 3.0})])
        verdict = next(one for one in judge(results) if "2^18" in one.target.text)
        assert verdict.state == state
        assert verdict.seen is not None
        assert verdict.seen == (seen, "swish_grad 262144 float32, torch")
        assert verdict.count == 2

    def test_what_a_run_left_out(self):
        assert {one.state for one in judge(_results([]))} == {"not measured"}

    def test_a_run_without_filters_measures_all_of_them(self, monkeypatch):
        times = {"torch": 1.2, "torch-thp": 1.1, "composed": 4.0, "compiled": 2.0}
        machine = SimulatedMachine({**times, "jax": 5.0, "mindspore": 9.0})
        monkeypatch.setattr(simulated_runs._Worker, "_prepare", _keeps_an_array)
        results = simulated_run(monkeypatch, machine, plan(), thinned=True, rounds=2, max_rounds=2)
        unseen = [one.target.text for one in judge(results) if one.state == "not measured"]
        assert unseen == [
            "second process: seconds to the first result",
            "a new operator, forward and backward, float32, empty cache: seconds",
            "a new operator, forward and backward, float32, the library's kernels cached: seconds",
        ]


def _keeps_an_array(worker, case: Case) -> Readiness:
    """The answer of a simulated contender that takes part in everything."""
    return Readiness("", 1, Accuracy(1.0, 1e-7, 0.9999), case.array_bytes)


def _exact(case: Case) -> np.ndarray:
    """The reference of `case` in float64, written here once more."""
    operands = {
        name: values(name, case.dtype, 0)[: case.elements].astype(np.float64)
        for name in case.workload.inputs
    }
    x = operands["x"]
    sigmoid = 1 / (1 + np.exp(-x))
    if case.operator == "silu":
        return x * sigmoid
    return operands["dy"] * sigmoid * (1 + x * (1 - sigmoid))


def _row(ratios: dict[str, float]) -> Row:
    return Row(
        case=Case("swish_grad", (1 << 18,), "float32", "out"),
        in_cache=True,
        milliseconds={},
        throughput={},
        bound_multiple={},
        ratios={name: Spread(value, value, value) for name, value in ratios.items()},
        in_place_gain=None,
        accuracy={"fastgrad": Accuracy(1.0, 1e-7, 0.9)},
        bytes_kept={},
        peak_bytes={},
        code={},
        failures={},
        repetitions={},
        samples={},
        stream_samples={},
        stream_bytes=0,
    )


def _results(rows: list[Row]) -> Results:
    return Results({}, {}, {}, {}, rows)
