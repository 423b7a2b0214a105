"""The norms as they are measured: shapes, references, accuracy, and the contenders of this repository."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from fastgrad.bench.accuracy import accuracy
from fastgrad.bench.families.normalization import NORM_CALLS, NORMALIZATION
from fastgrad.bench.forms import PARAMETERS, PERIOD, Channels, Rows
from fastgrad.bench.inputs import input_arrays, repeated_part
from fastgrad.bench.norm_references import NormReference
from fastgrad.bench.workloads import FEATURE_MAP, WORKLOADS, Case

NAMES = list(NORM_CALLS)


def shape_of(name: str) -> tuple[int, ...]:
    return (6, 341) if isinstance(NORM_CALLS[name].norm.form, Rows) else (4, 64, 3, 5)


def case_of(name: str, dtype: str = "float32") -> Case:
    return Case(name, shape_of(name), dtype, "allocate")


class TestForms:
    def test_the_shape_is_that_of_the_data_wherever_the_channels_lie(self):
        first, last = Channels(32), Channels(32, last=True)
        assert first.shape_of("x", FEATURE_MAP) == FEATURE_MAP
        assert last.shape_of("dx", FEATURE_MAP) == (32, 56, 56, 64)
        for form in (first, last):
            assert form.shape_of("gamma", FEATURE_MAP) == form.shape_of("dbeta", FEATURE_MAP)
            assert form.shape_of("gamma", FEATURE_MAP) == (64,)

    @pytest.mark.parametrize("form", [Channels(4), Channels(4, last=True), Channels(), Rows()])
    def test_a_view_is_undone(self, form):
        shape = (2, 8, 3, 5)
        x = np.arange(240.0).reshape(form.shape_of("x", shape))
        view = form.view(x)
        assert view.ndim == 4
        assert np.array_equal(form.stored(view, shape), x.reshape(-1))

    @pytest.mark.parametrize(
        ("shape", "part"),
        [
            ((32, 256, 64, 64), (1, 256, 64, 64)),
            (FEATURE_MAP, (2, 64, 56, 56)),
            ((8, 64, 8, 8), (8, 64, 8, 8)),
            ((7, 64, 56, 56), (7, 64, 56, 56)),
        ],
    )
    def test_whole_items_repeat(self, shape, part):
        form = Channels(32)
        assert form.repeating(shape) == part
        assert form.times(shape) * part[0] == shape[0]

    def test_inputs_repeat_as_the_form_says(self):
        case = Case("group_norm_nhwc", (32, 64, 56, 56), "float32", "allocate")
        inputs, part = input_arrays(case, 0), repeated_part(case, 0)
        assert inputs["x"].shape == (32, 56, 56, 64)
        assert part["x"].size >= PERIOD
        assert np.array_equal(inputs["x"][:2], part["x"])
        assert np.array_equal(inputs["x"][30:], part["x"])
        assert np.array_equal(inputs["gamma"], part["gamma"])


class TestWorkloads:
    @pytest.mark.parametrize(
        ("name", "count"),
        [
            *(("group_norm", 2), ("group_norm_grad", 3), ("group_norm_large_grad", 5)),
            *(("rms_norm_forward_backward", 5), ("add_layer_norm", 4), ("add_rms_norm_grad", 4)),
        ],
    )
    def test_arrays_moved(self, name, count):
        assert WORKLOADS[name].arrays_moved == count

    def test_groups_are_larger_than_the_cache_where_they_are_said_to_be(self):
        workload = WORKLOADS["group_norm_large_grad"]
        for shape in workload.sizes:
            assert workload.form.misfit(shape) == ""
            assert 2 * 4 * np.prod(shape[1:]) > 32 << 20

    def test_all_of_issue_5_are_there(self):
        operators = {call.norm.name for call in NORM_CALLS.values()}
        assert operators == {
            *("group_norm", "group_norm_swish", "layer_norm", "rms_norm", "instance_norm"),
            *("batch_norm", "add_layer_norm", "add_rms_norm"),
        }
        assert set(NORMALIZATION) == set(NAMES) <= set(WORKLOADS)


class TestReferences:
    """Against themselves: gradients by central differences, batches by their items."""

    @pytest.mark.parametrize("name", [name for name in NAMES if "grad" in name])
    def test_gradients_are_those_of_the_forward(self, name):
        call, shape = NORM_CALLS[name], shape_of(name)
        operands = _operands(case_of(name))
        rng = np.random.default_rng(1)
        for operand in call.operands:
            found = _reference(call, "dx" if operand in ("x", "sum") else f"d{operand}")
            gradient = found.expected(operands, shape, np.dtype(float), 1).value
            direction = rng.standard_normal(operands[operand].shape)
            step = 1e-6
            ahead, back = (
                _loss(call, {**operands, operand: operands[operand] + sign * step * direction})
                for sign in (1, -1)
            )
            slope = (ahead - back) / (2 * step)
            assert gradient @ direction.reshape(-1) == pytest.approx(slope, rel=1e-6), operand

    @pytest.mark.parametrize("name", NAMES)
    def test_a_batch_of_the_same_items(self, name):
        call, shape = NORM_CALLS[name], shape_of(name)
        operands = _operands(case_of(name))
        whole = {
            key: array if key in PARAMETERS else np.concatenate([array] * 3)
            for key, array in operands.items()
        }
        dtype = np.dtype(np.float32)
        for reference in call.references():
            part = reference.expected(operands, shape, dtype, 3)
            all_ = reference.expected(whole, (3 * shape[0], *shape[1:]), dtype, 1)
            times = all_.value.size // part.value.size
            assert np.allclose(np.tile(part.value, times), all_.value, rtol=1e-9, atol=1e-12)
            assert np.all(part.size >= np.abs(part.value))

    def test_channels_that_lie_last_change_nothing_else(self):
        operands = _operands(case_of("group_norm_grad"))
        turned = {
            key: array if key in PARAMETERS else np.moveaxis(array, 1, -1)
            for key, array in operands.items()
        }
        shape, dtype = shape_of("group_norm_grad"), np.dtype(np.float32)
        pairs = zip(
            NORM_CALLS["group_norm_grad"].references(),
            NORM_CALLS["group_norm_nhwc_grad"].references(),
        )
        for first, last in pairs:
            expected = first.expected(operands, shape, dtype, 1).value
            found = last.expected(turned, shape, dtype, 1).value
            if first.name == "dx":
                expected = np.moveaxis(expected.reshape(shape), 1, -1).reshape(-1)
            assert np.allclose(found, expected, rtol=1e-12)

    def test_a_sum_is_rounded_before_it_is_normalised(self):
        operands = {
            "x": np.full((1, 2), 1.0),
            "residual": np.array([[2.0**-13, -(2.0**-13)]]),
            "gamma": np.ones(2),
            "beta": np.zeros(2),
        }
        reference = _reference(NORM_CALLS["add_layer_norm"], "y")
        exact = reference.expected(operands, (1, 2), np.dtype(np.float64), 1).value
        rounded = reference.expected(operands, (1, 2), np.dtype(np.float16), 1).value
        assert exact[0] != 0
        assert rounded[0] == 0


class TestAccuracy:
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
    def test_of_exact_results(self, dtype):
        case = Case("layer_norm_grad", (192, 4096), dtype, "allocate")
        results = _exact(case)
        found = accuracy(results, case, 0)
        # NumPy rounds float64 to bfloat16 by way of float32.
        assert found.ulp <= 0.50001
        assert found.exactly_rounded >= 0.9999

    def test_of_one_wrong_element_far_from_the_part_that_is_computed(self):
        case = Case("layer_norm_grad", (192, 4096), "float32", "allocate")
        dx, dgamma, dbeta = _exact(case)
        dx[191, 4095] += 0.5
        assert accuracy([dx, dgamma, dbeta], case, 0).absolute == pytest.approx(0.5, rel=1e-6)
        dx[191, 4095] -= 0.5
        dgamma[7] += 0.25
        assert accuracy([dx, dgamma, dbeta], case, 0).absolute == pytest.approx(0.25, rel=1e-4)

    def test_another_shape_of_a_parameter_is_an_error(self):
        case = case_of("layer_norm_grad")
        dx, dgamma, dbeta = _exact(case)
        with pytest.raises(ValueError, match=r"layer_norm_grad gave float32\(340,\)"):
            accuracy([dx, dgamma[1:], dbeta], case, 0)


class TestContenders:
    """fastgrad and PyTorch in this process: right results, and code that a user can run."""

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    def test_fastgrad(self, name, dtype):
        error = _error("fastgrad_", case_of(name, dtype))
        assert error.ulp <= (12 if dtype == "float32" else 1)

    @pytest.mark.parametrize("name", NAMES)
    def test_torch(self, name):
        pytest.importorskip("torch")
        assert _error("torch_", case_of(name)).ulp <= 50

    @pytest.mark.parametrize("name", NAMES)
    def test_composed(self, name):
        pytest.importorskip("torch")
        composed = importlib.import_module("fastgrad.bench.contenders.composed")
        assert (name in composed.OPERATORS) == (NORM_CALLS[name].direction != "forward")
        if name in composed.OPERATORS:
            assert _error("composed", case_of(name)).ulp <= 50

    @pytest.mark.parametrize(
        ("contender", "arrays"), [("fastgrad_", 1), ("torch_", 2), ("composed", 5)]
    )
    def test_bytes_kept(self, contender, arrays):
        pytest.importorskip("torch")
        case = Case("group_norm_swish_forward_backward", (2, 64, 32, 32), "float32", "allocate")
        prepared = _prepared(contender, case)
        assert prepared.bytes_kept() / case.array_bytes == pytest.approx(arrays, rel=0.02)

    def test_torch_is_given_channels_last(self):
        torch = pytest.importorskip("torch")
        prepared = _prepared("torch_", case_of("group_norm_nhwc"))
        y = prepared.call()
        assert y.shape == shape_of("group_norm_nhwc")
        assert y.is_contiguous(memory_format=torch.channels_last)
        (array,) = prepared.arrays(y)
        assert array.shape == (4, 3, 5, 64)


def _prepared(contender: str, case: Case) -> Any:
    module = importlib.import_module(f"fastgrad.bench.contenders.{contender}")
    return module.prepare(case, input_arrays(case, 0))


def _error(contender: str, case: Case) -> Any:
    prepared = _prepared(contender, case)
    compile(prepared.code, str(case), "exec")
    return accuracy(prepared.arrays(prepared.call()), case, 0)


def _operands(case: Case) -> dict[str, np.ndarray]:
    return {name: array.astype(float) for name, array in input_arrays(case, 0).items()}


def _reference(call: Any, name: str) -> NormReference:
    norm = call.norm
    return NormReference(name, norm.form, norm.is_rms, norm.has_swish)


def _loss(call: Any, operands: dict[str, np.ndarray]) -> float:
    """The sum of the results by the gradients that come in, of float64."""
    shape = (operands["x"] if "x" in operands else operands["sum"]).shape
    if call.norm.channels_last:
        shape = (shape[0], shape[-1], *shape[1:-1])
    y = _reference(call, "y").expected(operands, shape, np.dtype(float), 1).value
    loss = y @ operands["dy"].reshape(-1)
    if "dsum" in operands:
        loss += operands["dsum"].reshape(-1) @ operands["sum"].reshape(-1)
    return float(loss)


def _exact(case: Case) -> list[np.ndarray]:
    """The results of all items, in float64 and rounded."""
    operands, workload = _operands(case), case.workload
    dtype = input_arrays(case, 0)["x"].dtype
    return [
        reference.expected(operands, case.shape, dtype, 1)
        .value.astype(dtype)
        .reshape(workload.form.shape_of(reference.name, case.shape))
        for reference in workload.results
    ]
