"""The source articles' tables: what they claim beside what was measured, or who brings it."""

from __future__ import annotations

import json

import pytest

from fastgrad.bench import articles, compare
from fastgrad.bench.articles import CLAIMS, plan_articles
from fastgrad.bench.report import article_table
from fastgrad.bench.workloads import Case
from simulated_runs import SimulatedMachine, simulate, simulated_run


@pytest.fixture
def results(monkeypatch):
    """A run of the workload on a simulated machine."""
    machine = SimulatedMachine({"torch": 1.5, "composed": 6.0})
    return simulated_run(monkeypatch, machine, plan_articles(), workload="articles")


def test_swish_stands_beside_its_claim(results):
    rows = {
        row[3].text: [cell.text for cell in row]
        for row in article_table(results).rows
        if row[0].text.startswith("Swish")
    }
    assert set(rows) >= {"torch", "composed"}
    claim, shape, dtype, _, speed, here, memory, kept, _ = rows["composed"]
    assert (claim, shape, dtype) == ("Swish, forward and backward", "32×64×56×56", "float16")
    assert (speed, memory, kept) == ("1.50", "0.50", "0.50")
    assert float(here.split()[0]) == pytest.approx(6.0, rel=0.05)


def test_group_norm_stands_beside_its_claims(results):
    rows = article_table(results).rows
    speeds = {row[0].text: row[4].text for row in rows if row[0].text.startswith("GroupNorm b")}
    assert speeds == {
        "GroupNorm backward, Stable Diffusion v1.5's U-Net": "1.54",
        "GroupNorm backward, ResNet-50": "1.54",
    }
    kept = [row for row in rows if "intermediate storage" in row[0].text]
    assert {(row[4].text, row[6].text) for row in kept} == {("–", "0.70")}


def test_what_is_not_there_yet_names_its_issue(monkeypatch):
    monkeypatch.delitem(articles.WORKLOADS, "group_norm_grad")
    machine = SimulatedMachine({"torch": 1.5, "composed": 6.0})
    run = simulated_run(monkeypatch, machine, plan_articles(), workload="articles")
    absent = [row for row in article_table(run).rows if "not there yet" in row[3].text]
    expected = [claim for claim in CLAIMS if claim.operator == "group_norm_grad"]
    assert [row[0].text for row in absent] == [claim.text for claim in expected]
    for row, claim in zip(absent, expected):
        assert row[3].text == f"{claim.operator} is not there yet: issue {claim.issue}"
        assert row[4].text == f"{claim.speed:.2f}"


def test_all_claims_are_measured():
    cases = [group[0] for group in plan_articles()]
    assert Case("group_norm_grad", (2, 320, 64, 64), "float32", "allocate") in cases
    assert len(set(cases)) == len(cases) == sum(len(claim.shapes) for claim in CLAIMS)
    for case in cases:
        assert case.workload.form.misfit(case.shape) == ""


def test_shapes_are_those_of_networks_with_32_groups():
    for claim in CLAIMS:
        for shape in claim.shapes:
            assert shape[1] % 32 == 0
            assert len(shape) == 4


def test_the_command(monkeypatch, tmp_path, capsys):
    simulate(monkeypatch, SimulatedMachine({"torch": 1.5, "composed": 6.0}))
    options = ["--peers", "torch,composed", "--workload", "articles"]
    assert compare.main([*options, "--json", str(tmp_path / "run.json")]) == 0
    stored = json.loads((tmp_path / "run.json").read_text())
    assert stored["settings"]["workload"] == "articles"
    operators = {row["case"]["operator"] for row in stored["rows"]}
    assert operators == {claim.operator for claim in CLAIMS}
    assert "The articles' claims" in capsys.readouterr().out
