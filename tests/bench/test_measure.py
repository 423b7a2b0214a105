"""How many samples are taken, and of whom. The processes are simulated."""

from __future__ import annotations

import random

import pytest

from fastgrad.bench.contenders import SELF
from fastgrad.bench.measure import Group, Sampling
from fastgrad.bench.results import Row, paired
from fastgrad.bench.spread import ratio, spread, uncertainty
from fastgrad.bench.workloads import group_of
from simulated_runs import SimulatedMachine, SimulatedPool

PEERS = {"torch": 1.3, "torch-thp": 1.2}


class TestUncertainty:
    @pytest.mark.parametrize("count", [11, 33, 101])
    def test_holds_the_median_19_times_of_20(self, count):
        stream = random.Random(count)
        found = 0
        for _ in range(400):
            samples = [stream.lognormvariate(0, 0.05) for _ in range(count)]
            found += abs(spread(samples).median - 1) <= uncertainty(samples)
        # The quartiles of few samples are uncertain themselves.
        assert 0.88 <= found / 400 <= 0.99

    def test_is_that_of_the_inverse_as_well(self):
        samples = [1.0, 1.2, 1.1, 1.3, 0.9]
        assert uncertainty([1 / one for one in samples]) == pytest.approx(uncertainty(samples))


class TestRounds:
    def measure(self, sampling: Sampling, **machine) -> list[Row]:
        pool = SimulatedPool(SimulatedMachine(PEERS, **machine))
        group = Group(pool, group_of("gelu_grad", (4096,), "float32"))
        return group.measure(sampling, random.Random(0))

    def test_a_quiet_machine_takes_the_least(self):
        rows = self.measure(Sampling(11, 33, 0.05))
        assert {len(taken) for row in rows for taken in row.samples.values()} == {11}
        assert {len(taken) for row in rows for taken in row.stream_samples.values()} == {11}

    def test_who_is_not_known_well_enough_gets_more(self):
        rows = self.measure(Sampling(11, 33, 0.05), noise={"torch-thp": 0.3})
        for row in rows:
            counts = {name: len(taken) for name, taken in row.samples.items()}
            assert counts["torch"] == 11
            # A ratio takes both of its samples.
            assert counts["torch-thp"] == counts[SELF] == 33
            assert len(row.ratios_to("torch")) == 11

    def test_until_it_is_known(self):
        (row, _) = self.measure(Sampling(11, 500, 0.025), noise={"torch": 0.06})
        assert 11 < len(row.samples["torch"]) < 500
        assert uncertainty(row.ratios_to("torch")) <= 0.025

    def test_samples_are_those_of_the_first_rounds(self):
        (row, _) = self.measure(Sampling(5, 40, 0.02), noise={"torch": 0.1})
        taken = row.samples["torch-thp"]
        assert row.ratios["torch-thp"] == ratio(taken, row.samples[SELF][: len(taken)])

    def test_pairs_are_of_rounds_that_both_have(self):
        assert paired([2.0, 4.0, 6.0], [1.0, 2.0]) == [2.0, 2.0]
