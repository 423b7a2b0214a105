"""Row programs, interpreted, beside the kernels that are compiled of them."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad
from fastgrad.kernels.row_walk import Rows
from fastgrad.program.interpret_rows import interpret_rows

RNG = np.random.default_rng(3)
SHAPE, GROUPS = (3, 6, 35), 2
#: Operator, its arguments, and its rows: `SHAPE` with groups, or with lanes that are channels.
OPERATORS = {
    "group_norm": ({"num_groups": GROUPS}, Rows(6, 105, 35, GROUPS)),
    "group_norm_swish": ({"num_groups": GROUPS, "swish_beta": 1.5}, Rows(6, 105, 35, GROUPS)),
    "instance_norm": ({}, Rows(18, 35, 35, 6)),
    "layer_norm": ({}, Rows(18, 35)),
    "rms_norm": ({}, Rows(18, 35)),
    "add_layer_norm": ({}, Rows(18, 35)),
    "add_rms_norm": ({}, Rows(18, 35)),
}


def _operands(kernels, rows):
    arrays = {name: RNG.normal(1, 2, SHAPE) for name in kernels.arrays}
    channels = {name: RNG.normal(1, 0.5, rows.channels) for name in kernels.channels}
    return arrays, channels


def _assert_close(got, wanted, name):
    wanted = np.asarray(wanted, np.float64)
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(
        np.reshape(got, wanted.shape), wanted, rtol=0, atol=1e-12 * scale, err_msg=name
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_forward_and_gradients(name):
    operator = getattr(fastgrad, name)
    kernels = operator.kernels
    arguments, rows = OPERATORS[name]
    arrays, channels = _operands(kernels, rows)
    numbers = {"eps": 1e-5, "swish_beta": arguments.get("swish_beta", 1.0)}
    given = {**arrays, **channels, **numbers}
    static = {key: value for key, value in arguments.items() if key == "num_groups"}

    call = {**arrays, **channels, **arguments, "eps": 1e-5}
    results = operator(**call)
    run = interpret_rows(operator.program, given, rows)
    compiled = results if isinstance(results, tuple) else (results,)
    for own, (key, value) in zip(compiled, run.results.items(), strict=True):
        _assert_close(value, own, f"{name} {key}")
    assert run.elements == sum(run.counts.values()) * rows.length

    wrt = (*kernels.arrays, *kernels.channels)
    dys = {key: RNG.normal(0, 1, SHAPE) for key in ("dy", "dresult1")[: len(compiled)]}
    incoming = tuple(dys.values()) if len(dys) > 1 else dys["dy"]
    rest = {key: value for key, value in call.items() if key not in (*arrays, *static)}
    gradients = operator.grad(incoming, *arrays.values(), *static.values(), **rest, wrt=wrt)
    run = interpret_rows(operator.trace(wrt), {**given, **dys}, rows)
    for own, (key, value) in zip(gradients, run.results.items(), strict=True):
        _assert_close(value, own, f"{name} {key}")


def test_statistics_given_and_returned():
    kernels, rows = fastgrad.group_norm.kernels, Rows(6, 105, 35, GROUPS)
    arrays, channels = _operands(kernels, rows)
    dy = RNG.normal(0, 1, SHAPE)
    forward = kernels.program(kernels.channels, None, True)
    run = interpret_rows(forward, {**arrays, **channels, "eps": 1e-5}, rows)
    _, mean, rstd = fastgrad.group_norm(
        arrays["x"], GROUPS, **channels, eps=1e-5, return_stats=True
    )
    _assert_close(run.results["mean"], mean, "mean")
    _assert_close(run.results["rstd"], rstd, "rstd")
    backward = kernels.program(kernels.channels, ("x", "gamma", "beta"), True)
    given = {**arrays, **channels, "dy": dy, "mean": mean, "rstd": rstd}
    got = interpret_rows(backward, given, rows).results
    wanted = fastgrad.group_norm_grad(dy, arrays["x"], GROUPS, channels["gamma"], mean, rstd)
    for own, value in zip(wanted, got.values(), strict=True):
        _assert_close(value, own, "gradients")


def test_counts():
    """Two passes of a layer norm: what each row costs, and what is no vector work."""
    run = interpret_rows(
        fastgrad.rms_norm.kernels.program(),
        {"x": np.ones((4, 8)), "eps": 1e-6},
        Rows(4, 8),
    )
    assert run.counts == {"Mul": 4, "ReduceSum": 4, "Muls": 4}
    assert run.scalars == {"rstd": 4}


def test_float32_lanes():
    x = RNG.normal(1e3, 1, (4, 300)).astype(np.float32)
    run = interpret_rows(
        fastgrad.layer_norm.kernels.program(), {"x": x, "eps": 1e-5}, Rows(4, 300), np.float32
    )
    assert run.results["y"].dtype == np.float32
    np.testing.assert_allclose(run.results["y"], fastgrad.layer_norm(x), rtol=0, atol=1e-5)
