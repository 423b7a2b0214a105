"""A stored run beside a new one, on simulated machines: a slow-down shows up, noise does not."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from fastgrad.bench import compare
from fastgrad.bench.contenders import SELF
from fastgrad.bench.families.activations import ACTIVATIONS
from fastgrad.bench.repeat import (
    LEAST,
    Change,
    Moved,
    compare_runs,
    differences,
    moved_table,
    summary,
)
from fastgrad.bench.results import NoStoredRun, Results, load
from fastgrad.bench.workloads import FEATURE_MAP, plan
from simulated_runs import SimulatedMachine, simulate, simulated_run

PEERS = {"torch": 1.3, "torch-thp": 1.2, "composed": 6.0}

# Within the cache and beyond.
GROUPS = plan([*ACTIVATIONS], [(4096,), FEATURE_MAP], ["float32", "float16"])


@pytest.fixture
def measured(monkeypatch):
    """Runs on a machine with the noise of a quiet one."""

    def measure(*, times=PEERS, groups=None, settings=None, **machine) -> Results:
        simulated = SimulatedMachine(times, **machine)
        return simulated_run(monkeypatch, simulated, groups or GROUPS, **(settings or {}))

    return measure


@pytest.fixture
def moved(measured):
    """What moved between a run and another one with other noise and the given changes."""

    def between(**changes) -> list[Moved]:
        return compare_runs(measured(seed=1), measured(seed=2, **changes))

    return between


class TestTheSameBuild:
    def test_nothing_moves(self, moved):
        rows = moved()
        assert len(rows) == sum(map(len, GROUPS))
        assert [one for one in rows if one.moved] == []

    def test_median_ratios_differ_by_less_than_5_percent(self, moved):
        changes = [change for one in moved() for change in one.changes]
        assert max(abs(change.change) for change in changes) < LEAST

    @pytest.mark.parametrize("seed", range(3, 9))
    def test_whatever_the_noise(self, measured, seed):
        rows = compare_runs(measured(seed=seed), measured(seed=100 + seed))
        assert sum(bool(one.moved) for one in rows) <= 1

    def test_the_summary_says_so(self, moved):
        text = "\n".join(summary(moved()))
        assert "ratios 1.00" in text or "ratios 0.99" in text
        assert "; 0 moved" in text
        assert "too noisy" not in text


class TestASlowDownOfOneKernel:
    def test_of_10_percent_shows_up_and_nothing_else_does(self, moved):
        rows = moved(slower={"gelu": 1.1})
        found = {one.case for one in rows if one.moved}
        assert found == {one.case for one in rows if one.case.operator == "gelu"}

    def test_fastgrad_is_named_and_how_much(self, moved):
        rows = [one for one in moved(slower={"gelu": 1.1}) if one.moved]
        for one in rows:
            assert one.who.startswith(SELF), one
            assert one.who.endswith("slower")
            assert one.slower == pytest.approx(math.log(1.1), abs=0.03)

    def test_a_faster_kernel_too(self, moved):
        rows = [one for one in moved(slower={"silu": 0.85}) if one.moved]
        assert {one.case.operator for one in rows} == {"silu"}
        assert all(one.who.startswith(SELF) and one.who.endswith("faster") for one in rows)

    def test_the_table_shows_old_and_new(self, moved):
        table = moved_table(moved(slower={"gelu": 1.1}))
        for row in table.rows:
            assert row[0].text == "gelu"
            assert row[-2].tone == "bad"
            assert "→" in row[-1].text and "noise" in row[-1].text


class TestAnother:
    def test_a_peer_that_moved_is_named_instead(self, moved):
        rows = [one for one in moved(times={**PEERS, "torch": 1.3 * 1.2}) if one.moved]
        assert rows
        assert {one.who for one in rows} == {"torch slower"}

    def test_noise_that_hides_a_change_is_said(self, measured):
        groups = plan(["silu"], [(4096,)], ["float32"])
        noisy = {"noise": {"torch": 0.6, SELF: 0.6}, "groups": groups}
        rows = compare_runs(measured(seed=1, **noisy), measured(seed=2, **noisy))
        assert "too noisy to show a change of 10 %" in "\n".join(summary(rows))

    def test_rows_of_one_run_alone_are_left_out(self, measured):
        one, other = plan(["silu"], [(4096,)]), plan(["silu"], [(1024,)])
        assert compare_runs(measured(groups=one), measured(groups=other)) == []
        assert summary([]) == ["the two runs have no row in common"]

    def test_other_versions_and_machines_are_named(self, measured):
        groups = plan(["silu"], [(4096,)])
        before = measured(groups=groups)
        now = dataclasses.replace(
            before,
            machine={**before.machine, "processor": "another"},
            versions={**before.versions, "torch": {"torch": "2.0"}},
        )
        processor = before.machine["processor"]
        expected = [f"processor: {processor} → another", "torch: torch 1.0 → torch 2.0"]
        assert differences(before, now) == expected

    def test_a_change_is_judged_by_its_noise(self):
        assert Change("torch", 1.0, 1.1, 0.02).moved
        assert not Change("torch", 1.0, 1.1, 0.08).moved
        assert not Change("torch", 1.0, 1.04, 0.001).moved


class TestCommand:
    OPTIONS = ("--op", "silu,gelu", "--shape", "4096", "--dtype", "float32,float16", "--seed", "5")

    @pytest.fixture
    def stored(self, tmp_path, monkeypatch):
        """A run stored by the command, in a file."""
        file = tmp_path / "run.json"
        simulate(monkeypatch, SimulatedMachine(PEERS, seed=1))
        peers = ("--peers", "torch,composed", "--rounds", "5", "--max-rounds", "40")
        assert compare.main([*self.OPTIONS, *peers, "--json", str(file)]) == 0
        return file

    def test_a_run_reads_back_as_it_was(self, stored):
        text = json.loads(stored.read_text())
        assert json.loads(json.dumps(load(stored).to_dict())) == text

    def test_repeats_what_was_stored(self, stored, tmp_path, monkeypatch, capsys):
        simulate(monkeypatch, SimulatedMachine(PEERS, seed=2, slower={"gelu": 1.1}))
        again = tmp_path / "again.json"
        assert compare.main(["--repeat", str(stored), "--json", str(again)]) == 0
        before, now = load(stored), load(again)
        assert now.settings == before.settings
        assert [row.case for row in now.rows] == [row.case for row in before.rows]
        printed = capsys.readouterr().out
        assert "What moved" in printed
        assert "4 moved" not in printed or "gelu" in printed

    def test_filters_narrow_it(self, stored, tmp_path, monkeypatch):
        simulate(monkeypatch, SimulatedMachine(PEERS, seed=2))
        again = tmp_path / "again.json"
        options = ["--repeat", str(stored), "--op", "gelu", "--dtype", "float16"]
        assert compare.main([*options, "--json", str(again)]) == 0
        (row,) = load(again).rows
        assert str(row.case) == "gelu 4096 float16"

    @pytest.mark.parametrize(
        ("text", "message"), [("{", "is no JSON"), ("[1]", "is no run of this version")]
    )
    def test_another_file_is_refused(self, tmp_path, capsys, text, message):
        file = tmp_path / "run.json"
        file.write_text(text)
        with pytest.raises(NoStoredRun, match=message):
            load(file)
        with pytest.raises(SystemExit):
            compare.main(["--repeat", str(file)])
        assert message in capsys.readouterr().err

    def test_no_file(self, tmp_path, capsys):
        with pytest.raises(SystemExit):
            compare.main(["--repeat", str(tmp_path / "none.json")])
        assert "No such file" in capsys.readouterr().err
