"""Row programs, interpreted, beside the kernels that are compiled of them."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad
from fastgrad import maths as m
from fastgrad.functional import _normalization as norms
from fastgrad.kernels.row_walk import Rows
from fastgrad.program.interpret_rows import interpret_rows

RNG = np.random.default_rng(3)
SHAPE, GROUPS = (3, 6, 35), 2
EPS = 1e-5
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
#: A batch norm's rows, one a channel, of the array with the channels first.
BATCH_ROWS = Rows(6, 105, 105, 6)


@fastgrad.rowwise
def gated_norm(x, gate, scale=None, slope=0.5):
    """Reductions on reductions, two arrays, a number with a gradient."""
    centred = x - m.mean(x)
    y = centred * m.rsqrt(m.mean(centred * centred) + 0.1) * m.sigmoid(slope * gate)
    return y if scale is None else y * scale


# --- What a program is given, and how values are compared -----------------------------------------


def _operands(kernels, rows):
    arrays = {name: RNG.normal(1, 2, SHAPE) for name in kernels.arrays}
    channels = {name: RNG.normal(1, 0.5, rows.channels) for name in kernels.channels}
    return arrays, channels


def _incoming(program):
    """The gradient of each result of a forward program."""
    results = program.named("full")
    names = ("dy", *(f"d{result.name}" for result in results[1:]))
    return {name: RNG.normal(0, 1, SHAPE) for name in names}


def _channels_first(x):
    return x.transpose(1, 0, 2)


def _assert_close(got, wanted, name):
    wanted = np.asarray(wanted, np.float64)
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(
        np.reshape(got, wanted.shape), wanted, rtol=0, atol=1e-12 * scale, err_msg=name
    )


def _assert_all_close(got, wanted):
    for (name, own), value in zip(got.items(), wanted, strict=True):
        _assert_close(own, value, name)


# --- Beside the kernels ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERATORS)
def test_forward_and_gradients(name):
    operator = getattr(fastgrad, name)
    kernels = operator.kernels
    arguments, rows = OPERATORS[name]
    arrays, channels = _operands(kernels, rows)
    numbers = {"eps": EPS, "swish_beta": arguments.get("swish_beta", 1.0)}
    given = {**arrays, **channels, **numbers}
    static = {key: value for key, value in arguments.items() if key == "num_groups"}

    call = {**arrays, **channels, **arguments, "eps": EPS}
    results = operator(**call)
    run = interpret_rows(operator.program, given, rows)
    _assert_all_close(run.results, results if isinstance(results, tuple) else (results,))
    assert run.elements == sum(run.counts.values()) * rows.length

    wrt = (*kernels.arrays, *kernels.channels)
    dys = _incoming(operator.program)
    incoming = tuple(dys.values()) if len(dys) > 1 else dys["dy"]
    rest = {key: value for key, value in call.items() if key not in (*arrays, *static)}
    gradients = operator.grad(incoming, *arrays.values(), *static.values(), **rest, wrt=wrt)
    run = interpret_rows(operator.trace(wrt), {**given, **dys}, rows)
    _assert_all_close(run.results, gradients)


def test_statistics_given_and_returned():
    kernels, rows = fastgrad.group_norm.kernels, OPERATORS["group_norm"][1]
    arrays, channels = _operands(kernels, rows)
    dy = RNG.normal(0, 1, SHAPE)
    forward = kernels.program(kernels.channels, None, True)
    run = interpret_rows(forward, {**arrays, **channels, "eps": EPS}, rows)
    y, mean, rstd = fastgrad.group_norm(arrays["x"], GROUPS, **channels, eps=EPS, return_stats=True)
    _assert_all_close(run.results, (y, mean, rstd))
    backward = kernels.program(kernels.channels, ("x", "gamma", "beta"), True)
    given = {**arrays, **channels, "dy": dy, "mean": mean, "rstd": rstd}
    wanted = fastgrad.group_norm_grad(dy, arrays["x"], GROUPS, channels["gamma"], mean, rstd)
    _assert_all_close(interpret_rows(backward, given, rows).results, wanted)


def test_batch_norm_in_training():
    """A group norm's program: a row is a channel, with the whole batch in it."""
    kernels = norms._NORM
    arrays, channels = _operands(kernels, BATCH_ROWS)
    x, dy = arrays["x"], RNG.normal(0, 1, SHAPE)
    given = {**channels, "x": _channels_first(x), "dy": _channels_first(dy), "eps": EPS}
    run = interpret_rows(kernels.program(kernels.channels, None, True), given, BATCH_ROWS)
    y, mean, rstd = fastgrad.batch_norm(x, **channels, eps=EPS, return_stats=True)
    _assert_all_close(run.results, (_channels_first(y), mean, rstd))
    wrt = ("x", *kernels.channels)
    run = interpret_rows(kernels.program(kernels.channels, wrt), given, BATCH_ROWS)
    dx, *sums = fastgrad.batch_norm_grad(dy, x, channels["gamma"], eps=EPS)
    _assert_all_close(run.results, (_channels_first(dx), *sums))


def test_batch_norm_at_inference():
    """Statistics as operands of one number a row."""
    kernels = norms._GIVEN
    arrays, channels = _operands(kernels, BATCH_ROWS)
    x, dy = arrays["x"], RNG.normal(0, 1, SHAPE)
    running = {"running_mean": RNG.normal(1, 1, 6), "running_var": RNG.uniform(1, 4, 6)}
    y, mean, rstd = fastgrad.batch_norm(
        x, **channels, **running, training=False, eps=EPS, return_stats=True
    )
    given = {**channels, "x": _channels_first(x), "dy": _channels_first(dy)}
    given |= {"mean": mean, "rstd": rstd}
    run = interpret_rows(kernels.program(kernels.channels), given, BATCH_ROWS)
    _assert_all_close(run.results, (_channels_first(y),))
    program = kernels.program(kernels.channels, ("x", *kernels.channels))
    dx, *sums = fastgrad.batch_norm_grad(dy, x, channels["gamma"], mean, rstd, training=False)
    run = interpret_rows(program, given, BATCH_ROWS)
    _assert_all_close(run.results, (_channels_first(dx), *sums))


def test_operator_of_a_users():
    rows = Rows(6, 35)
    arrays = {name: RNG.normal(1, 2, (6, 35)) for name in ("x", "gate")}
    given = {**arrays, "scale": RNG.normal(1, 0.5, 35), "slope": 0.7}
    run = interpret_rows(gated_norm.program, given, rows)
    _assert_all_close(run.results, (gated_norm(**given),))
    dy = RNG.normal(0, 1, (6, 35))
    wrt = ("x", "gate", "scale", "slope")
    found = interpret_rows(gated_norm.trace(wrt), {**given, "dy": dy}, rows).results
    assert found["dslope"].shape == (rows.count,)
    found["dslope"] = found["dslope"].sum()
    _assert_all_close(found, gated_norm.grad(dy, *given.values(), wrt=wrt))


def test_float32_lanes():
    """Far from 0, where a mean that was rounded to float32 would cost 1e-4; a row that is constant, too."""
    x = RNG.normal(1e3, 1, (4, 300)).astype(np.float32)
    x[1], x[2, 5], x[3, 7] = 7, np.inf, np.nan
    run = interpret_rows(
        fastgrad.layer_norm.kernels.program(), {"x": x, "eps": EPS}, Rows(4, 300), np.float32
    )
    assert run.results["y"].dtype == np.float32
    np.testing.assert_allclose(
        run.results["y"], fastgrad.layer_norm(x, eps=EPS), rtol=1e-6, atol=1e-6
    )


# --- Beside each other ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERATORS)
def test_programs_with_statistics_and_usual_numbers(name):
    """Programs for what is known already give what the general ones do; nothing is compiled."""
    operator, rows = getattr(fastgrad, name), OPERATORS[name][1]
    kernels = operator.kernels
    arrays, channels = _operands(kernels, rows)
    given = {**arrays, **channels, **_incoming(operator.program), "eps": EPS, **kernels.usual}
    usual = tuple(kernels.usual)

    def run(wrt, *special):
        return interpret_rows(kernels.program(kernels.channels, wrt, *special), given, rows).results

    saving = run(None, True, usual)
    statistics = {own: saving.pop(own) for own in kernels.saved}
    _assert_all_close(saving, run(None).values())
    given |= statistics
    wrt = (*kernels.arrays, *kernels.channels)
    _assert_all_close(run(wrt, True, usual), run(wrt).values())


@pytest.mark.parametrize(
    ("of_both", "of_sum"), [(norms._ADD, norms._SUM), (norms._ADD_RMS, norms._RMS_SUM)]
)
def test_the_gradient_of_a_sum_is_that_of_both_addends(of_both, of_sum):
    rows = Rows(18, 35)
    arrays, channels = _operands(of_both, rows)
    forward = of_both.program(of_both.channels)
    given = {**arrays, **channels, **_incoming(forward), "eps": EPS, "sum": sum(arrays.values())}
    both, one = (
        interpret_rows(
            kernels.program(kernels.channels, (*kernels.arrays, *kernels.channels)), given, rows
        ).results
        for kernels in (of_both, of_sum)
    )
    _assert_close(both["dx"], both["dresidual"], "dx")
    del both["dresidual"]
    given |= {"dsum": given["dresult1"]}
    _assert_all_close(one, both.values())


# --- Counts ---------------------------------------------------------------------------------------


def test_counts():
    """Two passes of an RMS norm: what each row costs, and what is no vector work."""
    run = interpret_rows(
        fastgrad.rms_norm.kernels.program(),
        {"x": np.ones((4, 8)), "eps": 1e-6},
        Rows(4, 8),
    )
    assert run.counts == {"Mul": 4, "ReduceSum": 4, "Muls": 4}
    assert run.scalars == {"rstd": 4}
    assert run.elements == 12 * 8


def test_a_row_without_spread_is_no_warning():
    """1 / sqrt(0): NaN as in the kernels, not a message of NumPy's."""
    given = {"x": np.zeros((2, 4)), "eps": 0.0}
    run = interpret_rows(fastgrad.rms_norm.kernels.program(), given, Rows(2, 4))
    assert np.isnan(run.results["y"]).all()
