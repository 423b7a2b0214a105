"""Activations, gated units, fused additions and losses as they are measured: references and contenders."""

from __future__ import annotations

import importlib
import json
import math
from typing import Any

import numpy as np
import pytest

import fastgrad
import references
from fastgrad.bench import compare, startup
from fastgrad.bench.accuracy import Accuracy, accuracy
from fastgrad.bench.activation_targets import ACTIVATION_TARGETS
from fastgrad.bench.contenders.protocol import Prepared
from fastgrad.bench.families.activation_gradients import ACTIVATION_GRADIENTS, GRADIENTS
from fastgrad.bench.families.fused import FUSED, FUSED_WORKLOADS, own
from fastgrad.bench.families.losses import LOSS_WORKLOADS
from fastgrad.bench.forms import PERIOD
from fastgrad.bench.inputs import input_arrays, values
from fastgrad.bench.results import Results, load
from fastgrad.bench.target import Target
from fastgrad.bench.targets import judge
from fastgrad.bench.workloads import BEYOND_CACHE, DTYPES, WORKLOADS, Case, plan
from simulated_runs import SimulatedMachine, simulate, simulated_run

SHAPE = (6, 342)
PEERS = {"torch": 1.4, "torch-thp": 1.2}
NAMES = [*ACTIVATION_GRADIENTS, *FUSED_WORKLOADS, *LOSS_WORKLOADS]
SUMS = [
    name
    for name in NAMES
    if "add_" in name or name == "prelu_grad" or name in LOSS_WORKLOADS or "packed" in name
]

ONE_OF_EACH = (
    *("hardswish_grad", "prelu_grad", "swiglu_packed_forward_backward"),
    *("add_gelu_forward_backward", "mse_value_and_grad"),
)

# Absolute: PyTorch rounds every intermediate result of a composed expression to the dtype.
TOLERANCES = {"float64": 1e-6, "float32": 2e-5, "float16": 4e-2, "bfloat16": 0.3}

# Of gelu_tanh's slope the rounding of its argument is amplified; all others are within 10.
MOST_ULP = {"float32": 60, "float16": 0.51, "bfloat16": 0.51}


def case_of(name: str, dtype: str = "float32", shape: tuple[int, ...] = SHAPE) -> Case:
    return Case(name, shape, dtype, WORKLOADS[name].modes[0])


class TestWorkloads:
    def test_all_activations_of_issue_6_are_there(self):
        names = {name.removesuffix("_grad") for name in GRADIENTS}
        assert names == {
            *("relu", "relu6", "leaky_relu", "prelu", "elu", "selu", "celu", "quick_gelu"),
            *("hardswish", "hardsigmoid", "hardtanh", "hardshrink", "softshrink", "tanhshrink"),
            *("softplus", "softsign", "mish", "sigmoid", "logsigmoid", "tanh", "squared_relu"),
            *("swish", "gelu", "gelu_tanh"),
        }

    @pytest.mark.parametrize(
        ("name", "count"),
        [
            *(("relu_grad", 3), ("prelu_grad", 3), ("swiglu_forward_backward", 8)),
            *(("swiglu_packed_forward_backward", 8), ("add_gelu_forward_backward", 5)),
            *(("own_operator_forward_backward", 5), ("mse_value_and_grad", 3)),
        ],
    )
    def test_arrays_moved(self, name, count):
        assert WORKLOADS[name].arrays_moved == count

    def test_a_users_own_operator_has_five_instructions(self, capsys):
        assert "5 vector instructions" in fastgrad.show(own, source=False).partition("grad")[0]

    def test_shapes_of_their_own(self):
        def shapes(name: str) -> dict[str, tuple[int, ...]]:
            inputs = input_arrays(case_of(name), 0)
            return {key: array.shape for key, array in inputs.items()}

        assert shapes("prelu_grad") == {"dy": SHAPE, "x": SHAPE, "weight": (1,)}
        assert shapes("add_gelu_forward_backward") == {"dy": SHAPE, "x": SHAPE, "bias": (342,)}
        assert shapes("glu_forward_backward") == {"dy": SHAPE, "packed": (6, 684)}

    def test_targets_are_probabilities(self):
        target = values("target", "float32", 0)
        assert target.min() == 0 and target.max() == 1
        assert 0.1 < np.mean((target == 0) | (target == 1)) < 0.5

    def test_a_run_without_filters_has_one_mode_of_each(self):
        modes = {case.operator: [] for case in _cases(plan())}
        for case in _cases(plan()):
            modes[case.operator].append(case.mode)
        assert modes["relu_grad"] == ["out", "out"]
        assert [case.mode for case in _cases(plan(["relu_grad"]))] == ["out", "allocate"] * 2


class TestReferences:
    """Gradients by central differences, sums by their parts, values written here once more."""

    @pytest.mark.parametrize("name", [*FUSED_WORKLOADS, *LOSS_WORKLOADS])
    def test_gradients_are_those_of_the_forward(self, name):
        operands = _operands(name)
        value, *gradients = WORKLOADS[name].results
        incoming = operands.pop("dy", np.ones(())).reshape(-1)

        def loss(changed: dict[str, np.ndarray]) -> float:
            y = value.expected({**operands, **changed}, SHAPE, np.dtype(float), 1).value
            return float((incoming * y).sum())

        rng = np.random.default_rng(1)
        for one in gradients:
            operand = one.name.removeprefix("d")
            arrays = {**operands, "dy": incoming.reshape(SHAPE if incoming.size > 1 else ())}
            gradient = one.expected(arrays, SHAPE, np.dtype(float), 1).value
            step = 1e-6 * rng.standard_normal(operands[operand].shape)
            ahead, back = (loss({operand: operands[operand] + sign * step}) for sign in (1, -1))
            assert gradient @ step.reshape(-1) == pytest.approx((ahead - back) / 2, rel=1e-5)

    @pytest.mark.parametrize("name", SUMS)
    def test_a_batch_of_the_same_items(self, name):
        part = _operands(name)
        form = WORKLOADS[name].form
        whole = {
            key: np.concatenate([array] * 3) if array.shape[0] == SHAPE[0] else array
            for key, array in part.items()
        }
        shape = (3 * SHAPE[0], SHAPE[1])
        for reference in WORKLOADS[name].results:
            one = reference.expected(part, SHAPE, np.dtype(np.float32), 3)
            all_ = reference.expected(whole, shape, np.dtype(np.float32), 1)
            assert all_.value.size == math.prod(form.shape_of(reference.name, shape))
            times = all_.value.size // one.value.size
            assert np.allclose(np.tile(one.value, times), all_.value, rtol=1e-9, atol=1e-12)
            assert np.all(one.size >= np.abs(one.value))

    def test_defaults_of_parameters(self):
        x = np.linspace(-4, 4, 81)
        for name in ("leaky_relu", "hardtanh", "softplus", "hardshrink"):
            (reference,) = WORKLOADS[f"{name}_grad"].results
            found = reference.expected({"dy": np.ones(81), "x": x}, (81,), np.dtype(float), 1)
            slope = {"hardshrink": "shrink"}.get(name, name)
            (expected,) = getattr(references, f"{slope}_terms")(x)
            assert np.allclose(found.value, expected, rtol=1e-12), name

    def test_a_difference_is_one_term_with_its_sign(self):
        case = case_of("bce_with_logits_value_and_grad")
        operands = _operands(case.operator)
        x, target = operands["x"], operands["target"]
        found = case.workload.results[1].expected(operands, SHAPE, np.dtype(np.float32), 1)
        expected = (references.sigmoid(x) - target) / x.size
        assert np.allclose(found.value, expected.reshape(-1), rtol=1e-9, atol=1e-18)

    def test_a_gate_is_judged_by_the_terms_of_its_slope(self):
        root = np.array([-1.2784645427610738])
        operands = {"dy": np.ones(1), "gate": root, "up": np.full(1, 3.0)}
        dgate = FUSED["swiglu_forward_backward"].references()[1]
        found = dgate.expected(operands, (1,), np.dtype(np.float32), 1)
        assert abs(found.value[0]) < 1e-9
        assert found.size[0] > 0.5


class TestContenders:
    """fastgrad and PyTorch in this process: right results, and code that a user can run."""

    @pytest.mark.parametrize(
        ("name", "dtype"),
        [
            *((name, dtype) for name in NAMES for dtype in ("float32", "bfloat16")),
            # One of each form: it is the kernels that take time to compile.
            *((name, dtype) for name in ONE_OF_EACH for dtype in ("float16", "float64")),
        ],
    )
    def test_fastgrad(self, name, dtype):
        error = _error("fastgrad_", case_of(name, dtype))
        if dtype == "float64":
            assert error.absolute < 1e-11
        else:
            assert error.ulp <= MOST_ULP[dtype]

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", NAMES)
    def test_torch(self, name, dtype):
        contender = "composed" if name == "own_operator_forward_backward" else "torch_"
        assert _error(contender, case_of(name, dtype)).absolute < TOLERANCES[dtype]

    @pytest.mark.parametrize("name", ["relu_grad", "elu_grad", "mish_grad", "prelu_grad"])
    def test_modes(self, name):
        for mode in WORKLOADS[name].modes:
            case = Case(name, (1 << 10,), "float32", mode)
            for contender in ("fastgrad_", "torch_"):
                assert _error(contender, case).absolute < 1e-4, contender

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            (
                "relu_grad",
                "aten.threshold_backward.grad_input(dy, x, threshold=0.0, grad_input=out)",
            ),
            ("tanh_grad", "y = torch.tanh(x)  # before, untimed\naten.tanh_backward"),
            (
                "logsigmoid_grad",
                "aten.log_sigmoid_backward.grad_input(dy, x, buffer, grad_input=out)",
            ),
            ("elu_grad", "aten.elu_backward.grad_input(dy, self_or_result=x, alpha=1.0"),
            ("mish_grad", "aten.mish_backward.default(dy, x)"),
            (
                "prelu_grad",
                "dx, dweight = torch.autograd.grad(y, (x, weight), dy, retain_graph=True)",
            ),
            ("mse_value_and_grad", "value = torch.nn.functional.mse_loss(x, target)\n(dx,) = "),
        ],
    )
    def test_what_a_user_of_pytorch_writes(self, name, text):
        assert text in _prepared("torch_", case_of(name)).code

    def test_a_sum_over_more_than_one_period(self):
        shape = (8, PERIOD // 2)
        assert _error("fastgrad_", case_of("prelu_grad", "float32", shape)).ulp <= 1
        assert _error("fastgrad_", case_of("mse_value_and_grad", "float32", shape)).ulp <= 2

    @pytest.mark.parametrize(("contender", "arrays"), [("fastgrad_", 2), ("torch_", 3)])
    def test_bytes_kept(self, contender, arrays):
        case = case_of("swiglu_forward_backward")
        prepared = _prepared(contender, case)
        assert prepared.bytes_kept is not None
        assert prepared.bytes_kept() == arrays * case.array_bytes


class TestNumbers:
    """What a run without filters and those of `WORKLOAD=activations` see."""

    def test_the_geometric_mean_counts_its_operators(self, monkeypatch):
        groups = plan(["relu_grad", "tanh_grad"], [BEYOND_CACHE], ["float32"])
        results = simulated_run(monkeypatch, SimulatedMachine(PEERS), groups)
        verdict = _verdict(results, "float32, against PyTorch with THP: geometric mean")
        assert verdict.seen.value == pytest.approx(1.2, rel=0.05)
        assert verdict.seen.where == f"of 2 of {len(GRADIENTS)} operators"
        assert verdict.count == 1

    def test_the_worst_size_counts_from_4096_elements(self, monkeypatch):
        groups = plan(["relu_grad"], [(1024,), (4096,)], ["float16"])
        results = simulated_run(monkeypatch, SimulatedMachine(PEERS), groups)
        verdict = _verdict(results, "the worst activation's backward")
        assert verdict.count == 1
        assert verdict.seen.where == "relu_grad 4096 float16, torch-thp"

    def test_a_new_operator(self, monkeypatch):
        seconds = iter([(3.0, 1.5), (1.0, 0.5)] * 3)

        def start(program: str, cache: dict[str, str]) -> dict[str, float]:
            compile(program, "program", "exec")
            forward, backward = next(seconds)
            return {"forward": forward, "backward": backward, "process": 6.0}

        monkeypatch.setattr(startup, "_start_once", start)
        results = Results({}, {}, {}, {}, new_operator=startup.measure_new_operator())
        assert _verdict(results, "empty cache").seen.value == 4.5
        assert _verdict(results, "empty cache").state == "missed"
        assert _verdict(results, "kernels cached").seen.value == 1.5
        assert _verdict(results, "kernels cached").state == "reached"

    def test_every_one_has_a_must_and_an_aim(self):
        for target in ACTIVATION_TARGETS:
            assert isinstance(target, Target) and target.aim is not None
            assert (target.aim < target.must) == target.at_most


class TestCommand:
    @pytest.fixture
    def run(self, tmp_path, monkeypatch):
        """Runs of the command on a simulated machine, as they are stored."""

        def run(*options: str) -> Results:
            simulate(monkeypatch, SimulatedMachine(PEERS))
            monkeypatch.setattr(compare, "measure_startup", lambda: None)
            monkeypatch.setattr(compare, "measure_new_operator", lambda: None)
            file = tmp_path / "run.json"
            few = ("--rounds", "2", "--max-rounds", "2")
            assert compare.main([*few, *options, "--json", str(file)]) == 0
            return load(file)

        return run

    def test_activations_at_all_sizes_and_dtypes(self, run):
        rows = run("--workload", "activations", "--dtype", "float32").rows
        assert {row.case.operator for row in rows} == set(GRADIENTS)
        shapes = {row.case.shape for row in rows if row.case.operator == "relu_grad"}
        assert shapes == {(4096,), (1 << 16,), (1 << 18,), BEYOND_CACHE}

    def test_a_repeated_run_has_the_same_modes(self, run, tmp_path):
        before = run("--op", "relu_grad", "--shape", "4096", "--dtype", "float32")
        file = tmp_path / "before.json"
        stored = before.to_dict()
        stored["rows"] = stored["rows"][:1]
        file.write_text(json.dumps(stored))
        assert [row.case.mode for row in run("--repeat", str(file)).rows] == ["out"]


def _cases(groups: list[list[Case]]) -> list[Case]:
    return [case for cases in groups for case in cases]


def _operands(name: str) -> dict[str, np.ndarray]:
    return {key: array.astype(float) for key, array in input_arrays(case_of(name), 0).items()}


def _prepared(contender: str, case: Case) -> Prepared:
    module = importlib.import_module(f"fastgrad.bench.contenders.{contender}")
    prepared: Prepared = module.prepare(case, input_arrays(case, 0))
    return prepared


def _error(contender: str, case: Case) -> Accuracy:
    prepared = _prepared(contender, case)
    compile(prepared.code, str(case), "exec")
    return accuracy(prepared.arrays(prepared.call()), case, 0)


def _verdict(results: Results, text: str) -> Any:
    return next(one for one in judge(results) if text in one.target.text)
