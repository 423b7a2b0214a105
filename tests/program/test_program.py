"""Programs: what is traced, derived, rewritten, scheduled; the interpreter beside the kernel."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import fastgrad
from fastgrad import maths as m
from fastgrad.program.interpret import interpret
from fastgrad.program.maths import TraceError
from fastgrad.program.schedule import schedule
from fastgrad.program.text import ascend_name, instructions_text

ARTICLE = ["Muls", "Sigmoid", "Muls", "Sigmoid", "Mul", "Mul", "Add", "Mul"]


def names(program):
    return [ascend_name(node) for node in program.instructions]


def single(function, **static):
    """The one lowered result of an operator made of `function`, and of its slope."""
    operator = fastgrad.elementwise(function)
    forward, backward = operator.trace(), operator.trace(wrt="x")
    return repr(forward.lowered.results[0].value), repr(backward.lowered.results[0].value)


def test_swish_grad_is_the_eight_instructions_of_the_article():
    program = fastgrad.swish.trace(wrt="x")
    assert names(program) == ARTICLE
    run = interpret(program, {"dy": np.ones(5), "x": np.linspace(-2, 2, 5), "beta": 1.0})
    assert sum(run.counts.values()) == 8
    assert run.elements == 40


def test_common_subexpressions_are_merged():
    text = instructions_text(fastgrad.swish.trace(wrt=("x", "beta")))
    assert text.count("Sigmoid") == 2
    assert text.count("Muls(x, beta)") == 1


@pytest.mark.parametrize(
    ("function", "forward", "slope"),
    [
        (lambda x: x * m.sigmoid(x), "silu(x)", "mul(silu_slope(x), dy)"),
        (lambda x: x / (1 + np.exp(-x)), "silu(x)", "mul(silu_slope(x), dy)"),
        (lambda x: x * m.normal_cdf(x), "gelu(x)", "mul(gelu_slope(x), dy)"),
        (
            lambda x: 0.5 * x * (1 + m.erf(x / np.sqrt(2.0))),
            "gelu(x)",
            "mul(gelu_slope(x), dy)",
        ),
        (lambda x: x - np.tanh(x), "tanhshrink(x)", "mul(mul(tanh(x), tanh(x)), dy)"),
        (lambda x: np.log(1 + x), "log1p(x)", "mul(reciprocal(add(x, 1.0)), dy)"),
        (lambda x: np.exp(x) - 1, "expm1(x)", "mul(exp(x), dy)"),
        (lambda x: np.log(m.sigmoid(x)), "log_sigmoid(x)", "mul(sigmoid(mul(x, -1.0)), dy)"),
        (lambda x: x * m.tanh(m.softplus(x)), "mish(x)", "mul(mish_slope(x), dy)"),
        (lambda x: x * np.tanh(np.log1p(np.exp(x))), "mish(x)", "mul(mish_slope(x), dy)"),
        (lambda x: m.tanh(m.log(1 + m.exp(x))) * x, "mish(x)", "mul(mish_slope(x), dy)"),
        (
            lambda x: 3 * x * m.tanh(m.softplus(3 * x)),
            "mish(mul(x, 3.0))",
            "mul(mul(mish_slope(mul(x, 3.0)), 3.0), dy)",
        ),
        (
            lambda x: 2 * x * m.sigmoid(2 * x),
            "silu(mul(x, 2.0))",
            "mul(mul(silu_slope(mul(x, 2.0)), 2.0), dy)",
        ),
        (lambda x: x * m.tanh(m.softplus(-x)), "scaled_mish_gate(x, mul(x, -1.0))", None),
        (lambda x: x * np.rint(x), "mul(x, round(x))", "mul(round(x), dy)"),
        (lambda x: 1 - m.sigmoid(x), "sigmoid(mul(x, -1.0))", None),
        (lambda x: m.tanh(x), "tanh(x)", "mul(sech2(x), dy)"),
        (lambda x: x * m.tanh(x), "mul(x, tanh(x))", "mul(add(tanh(x), scaled_sech2(x, x)), dy)"),
    ],
)
def test_cancellations_are_written_away(function, forward, slope):
    got_forward, got_slope = single(_named(function))
    assert got_forward == forward
    assert slope is None or got_slope == slope


def _named(function):
    function.__name__ = function.__qualname__ = "user_operator"
    return function


def test_one_plus_tanh_has_an_exact_tail():
    forward, slope = single(_named(lambda x: 0.5 * x * (1 + m.tanh(0.8 * x + 0.1 * x**3))))
    assert forward.startswith("scaled_sigmoid(x, ")
    assert "sigmoid_slope(" in slope
    assert "tanh" not in slope


def test_a_number_and_its_inverse_cancel():
    @fastgrad.elementwise
    def smooth(x, k=2.0):
        return k * m.expm1(x / k) + m.softplus(k * x) / k

    slope = repr(smooth.trace(wrt="x").lowered.results[0].value)
    assert slope == "mul(add(exp(div(x, k)), sigmoid(mul(x, k))), dy)"


def test_constants_are_folded():
    text = instructions_text(fastgrad.elementwise(_named(lambda x: x * (2.0 * 3.0) * 0.5)).trace())
    assert text == "y = Muls(x, 3.0)"


ACTIVATIONS = [
    value
    for value in vars(fastgrad).values()
    if isinstance(value, fastgrad.Operator) and value.arrays == ("x",) and not value.takes_seed
]


@pytest.mark.parametrize("operator", ACTIVATIONS, ids=lambda operator: operator.__name__)
@pytest.mark.parametrize("wrt", [None, "x"])
def test_interpreter_and_kernel_agree(operator, wrt):
    """On both forms of the program, in float64, over values without extremes."""
    x = np.random.default_rng(0).normal(0, 4, 5000)
    dy = np.random.default_rng(1).normal(0, 1, 5000)
    arguments = inspect.signature(operator).parameters
    operands = {"x": x, "dy": dy, **{name: arguments[name].default for name in operator.parameters}}
    program = operator.trace(wrt=wrt)
    got = operator(x) if wrt is None else operator.grad(dy, x, wrt="x")[0]
    for form in (program, program.lowered):
        (value,) = interpret(form, operands).results.values()
        np.testing.assert_allclose(got, value, rtol=1e-12, atol=1e-15)


def test_interpreter_has_exact_tails_too():
    x = np.array([-np.inf, np.inf, np.nan])
    lowered = fastgrad.silu.trace(wrt="x").lowered
    (dx,) = interpret(lowered, {"x": x, "dy": np.ones(3)}).results.values()
    np.testing.assert_array_equal(dx, [0, 1, np.nan])


def test_given_and_derived_backward_agree():
    def maths(x, beta=1.0):
        return x * m.sigmoid(beta * x)

    derived, given = fastgrad.elementwise(maths), fastgrad.elementwise(maths)

    @given.backward
    def slopes(x, beta):
        s = m.sigmoid(beta * x)
        bell = s * m.sigmoid(-(beta * x))
        return s + beta * x * bell, x * x * bell

    rng = np.random.default_rng(2)
    for dtype in (np.float32, np.float64):
        dy, x = rng.normal(0, 1, 4000).astype(dtype), rng.normal(0, 5, 4000).astype(dtype)
        for a, b in zip(derived.grad(dy, x, 1.3), given.grad(dy, x, 1.3), strict=True):
            np.testing.assert_allclose(a, b, rtol=20 * np.finfo(dtype).eps, atol=1e-35)


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (lambda x: m.exp(x), -5, 5),
        (lambda x: m.exp2(x), -5, 5),
        (lambda x: m.expm1(x), -5, 5),
        (lambda x: m.log(x), 0.1, 5),
        (lambda x: m.log1p(x), -0.5, 5),
        (lambda x: m.sigmoid(x), -9, 9),
        (lambda x: m.tanh(x), -5, 5),
        (lambda x: m.tanhshrink(x), -5, 5),
        (lambda x: m.erf(x), -3, 3),
        (lambda x: m.erfc(x), -3, 3),
        (lambda x: m.normal_cdf(x), -4, 4),
        (lambda x: m.normal_pdf(x), -4, 4),
        (lambda x: m.exp_neg_square(x), -3, 3),
        (lambda x: m.reciprocal(x), 0.2, 5),
        (lambda x: m.sqrt(x), 0.1, 9),
        (lambda x: m.rsqrt(x), 0.1, 9),
        (lambda x: abs(x) * x, -3, 3),
        (lambda x: x * m.floor(x), 0.1, 0.9),
        (lambda x: x * m.round(x), 0.6, 1.4),
        (lambda x: m.softplus(x), -9, 9),
        (lambda x: m.log_sigmoid(x), -9, 9),
        (lambda x: m.log(m.sigmoid(x * x - 2 * x)), -4, 4),
        (lambda x: m.mish(x), -9, 9),
        (lambda x: m.mish(x * x - 3 * x), -4, 4),
        (lambda x: m.maximum(x, 0.3 * x) + m.minimum(x, 1.0), 0.1, 0.9),
        (lambda x: m.where(x > 0.5, x**3, 2 - x), 0.6, 3),
        (lambda x: x**-2 + x**0.5 - x**5 / 7, 0.3, 2),
        (lambda x: (x - 2) / (x + 3), -2, 2),
        (lambda x: x * x * (x > 0.1), 0.2, 2),
    ],
)
def test_every_instruction_and_its_derivative(function, low, high):
    operator = fastgrad.elementwise(_named(function))
    x, h = np.linspace(low, high, 501)[1:-1], 1e-6
    numeric = (operator(x + h) - operator(x - h)) / (2 * h)
    np.testing.assert_allclose(operator.grad(np.ones_like(x), x)[0], numeric, rtol=1e-6, atol=2e-6)
    (value,) = interpret(operator.trace(), {"x": x}).results.values()
    np.testing.assert_allclose(operator(x), value, rtol=1e-12, atol=1e-14)


def test_min_max_and_abs_at_ties_and_nan():
    x = np.array([-1.0, 0.0, 2.0, np.nan])
    relu = fastgrad.elementwise(_named(lambda x: m.maximum(x, 0.0)))
    np.testing.assert_array_equal(relu.grad(np.ones(4), x)[0], [0, 0.5, 1, np.nan])
    size = fastgrad.elementwise(_named(lambda x: abs(x)))
    np.testing.assert_array_equal(size.grad(np.ones(4), x)[0], [-1, 0, 1, np.nan])


def test_what_is_not_chosen_cannot_poison():
    safe_log = fastgrad.elementwise(_named(lambda x: m.where(x > 1.0, m.log(x), 0.0 * x)))
    np.testing.assert_array_equal(safe_log.grad(np.ones(2), np.array([-1.0, 2.0]))[0], [0, 0.5])


@pytest.mark.parametrize(
    ("function", "slopes"),  # at NaN, -2, 0, 2
    [
        (lambda x: m.where(x <= 0, 0.0, x), [np.nan, 0, 0, 1]),
        (lambda x: m.where(x > 0, x, 0.5 * x), [np.nan, 0.5, 0.5, 1]),
        (lambda x: m.where(x != 0, x, 3 * x), [np.nan, 1, 3, 1]),
        (lambda x: m.where(x == 0, 3 * x, x), [np.nan, 1, 3, 1]),
        (lambda x: m.where(x > 0.0, x - 1, x + 1), [np.nan, 1, 1, 1]),
        (lambda x: m.where(x * x >= 1.0, 0.5 * x, x), [np.nan, 0.5, 1, 0.5]),
        (lambda x: m.where(x < -1, -1.0, m.where(x > 1, 1.0, x)), [np.nan, 0, 1, 0]),
        (lambda x: m.where(x > 2 * x, x, 3 * x), [np.nan, 1, 3, 3]),
        (lambda x: m.where(x == 2 * x, x, 3 * x), [np.nan, 3, 1, 3]),
        # Here a NaN does not reach the value: the slope is that of the value.
        (lambda x: m.where(x == x, x, 0.0), [0, 1, 1, 1]),
        (lambda x: m.where(x > 0, x, 0.0), [0, 0, 0, 1]),
    ],
)
def test_where_keeps_the_nan_that_it_chose(function, slopes):
    operator = fastgrad.elementwise(_named(function))
    x = np.array([np.nan, -2, 0, 2])
    assert np.isnan(operator(x)[0]) == np.isnan(slopes[0])
    np.testing.assert_array_equal(operator.grad(np.ones(4), x)[0], slopes)


def test_where_keeps_nan_by_one_select():
    """And by none where the slope has the operand in it, or the branch is that of no NaN."""
    relu, square, ramp = (
        fastgrad.elementwise(_named(function)).trace(wrt="x")
        for function in (
            lambda x: m.where(x <= 0, 0.0, x),
            lambda x: m.where(x <= 0, 0.0, x * x),
            lambda x: m.where(x > 0, x, 0.0),
        )
    )
    assert names(relu).count("Select") == 2
    assert names(square).count("Select") == names(ramp).count("Select") == 1


def test_where_of_two_arrays_keeps_the_nan_of_the_one_that_is_chosen():
    @fastgrad.elementwise
    def larger(a, b):
        return m.where(a > b, a, b)

    a, b = np.array([[np.nan, 1.0, 2.0, np.inf], [1.0, np.nan, 1.0, -np.inf]])
    np.testing.assert_array_equal(larger(a, b), [1, np.nan, 2, np.inf])
    da, db = larger.grad(np.ones(4), a, b)
    np.testing.assert_array_equal(da, [0, 0, 1, 1])
    np.testing.assert_array_equal(db, [1, np.nan, 0, 0])


def test_operators_compose_into_one_program():
    @fastgrad.elementwise
    def twice(x):
        return fastgrad.silu(fastgrad.silu(x))

    x = np.linspace(-3, 3, 101)
    np.testing.assert_allclose(twice(x), fastgrad.silu(fastgrad.silu(x)), rtol=1e-14)
    inner = fastgrad.silu_grad(np.ones_like(x), x)
    expected = fastgrad.silu_grad(inner, fastgrad.silu(x))
    np.testing.assert_allclose(twice.grad(np.ones_like(x), x)[0], expected, rtol=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "size",
            "tile",
            "lo",
            "f",
            "f_",
            "i",
            "x_t",
            "lambda_",
            "v0",
            "y",
            "min",
            "range",
            "read",
        ),
        *("window", "LINE", "CHUNK", "add_to_channels", "in_part", "half_to_float"),
    ],
)
def test_operands_may_be_called_anything(name):
    scope: dict = {}
    exec(f"def user_operator({name}, k=2.0):\n    return {name} * k", scope)
    operator = fastgrad.elementwise(scope["user_operator"])
    np.testing.assert_array_equal(operator(np.arange(4.0)), np.arange(4.0) * 2)
    for dtype in (np.float16, np.float64):
        (gradient, _) = operator.grad(np.ones(4, dtype), np.arange(4, dtype=dtype))
        np.testing.assert_array_equal(gradient, 2)


def test_clip_with_its_natural_names():
    @fastgrad.elementwise
    def clip(x, min=-1.0, max=1.0):
        return m.minimum(m.maximum(x, min), max)

    np.testing.assert_array_equal(clip(np.array([-3.0, 0.5, 2.0])), [-1, 0.5, 1])
    dx, dmin, dmax = clip.grad(np.ones(3), np.array([-3.0, 0.5, 2.0]))
    np.testing.assert_array_equal(dx, [0, 1, 0])
    assert (dmin, dmax) == (1.0, 1.0)


def test_constants_that_are_not_finite():
    signs = fastgrad.elementwise(
        _named(lambda x: m.where(x > 0, np.inf, m.where(x < 0, -np.inf, np.nan)))
    )
    np.testing.assert_array_equal(signs(np.array([1.0, -1.0, 0.0])), [np.inf, -np.inf, np.nan])


def test_equality_and_conditions_as_numbers():
    x = np.array([-1.0, 0.0, 2.0])
    np.testing.assert_array_equal(
        fastgrad.elementwise(_named(lambda x: m.where(x == 0, 7, x)))(x), [-1, 7, 2]
    )
    np.testing.assert_array_equal(
        fastgrad.elementwise(_named(lambda x: (x != 0) * 3.0))(x), [3, 0, 3]
    )
    positive = fastgrad.elementwise(_named(lambda x: x > 0))
    for dtype in (np.float16, np.float32):
        np.testing.assert_array_equal(positive(x.astype(dtype)), [0, 0, 1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_overflow_does_not_turn_into_numbers(dtype):
    x = np.array([0, 88, 95, 150, 200, 800, np.inf], dtype)
    sigmoid = 1 / (1 + np.exp(-x))
    soft = fastgrad.elementwise(_named(lambda x: np.log1p(np.exp(x))))
    np.testing.assert_allclose(soft(x), np.logaddexp(0, x.astype(float)), rtol=1e-6)
    np.testing.assert_allclose(soft.grad(np.ones_like(x), x)[0], sigmoid, rtol=1e-6)
    gate = fastgrad.elementwise(_named(lambda x: np.exp(x) / (1 + np.exp(x))))
    np.testing.assert_allclose(gate(x), sigmoid, rtol=1e-6)
    mish = fastgrad.elementwise(_named(lambda x: x * m.tanh(np.log(1 + np.exp(x)))))
    np.testing.assert_allclose(mish.grad(np.ones_like(x), x)[0][2:], 1, rtol=1e-6)

    @fastgrad.elementwise
    def product(x, y):
        return x * m.exp(y)

    tiny = np.array([1e-40, 1e-45, 1e-38, 0.0], dtype)
    with np.errstate(over="ignore"):
        large = np.array([np.inf, 2000, 1000, -np.inf], dtype)
    np.testing.assert_array_equal(product(tiny, large), [np.inf, np.inf, np.inf, 0])


def test_constants_beyond_float32_are_not_folded():
    divided = fastgrad.elementwise(_named(lambda x: x / 2.0**-140))
    x = np.array([0.0, 2.0**-145], np.float32)
    np.testing.assert_array_equal(divided(x), [0, 2.0**-5])


def test_an_unused_operand_has_gradient_0():
    @fastgrad.elementwise
    def doubled(x, k=1.0):
        return x * 2

    dy = np.array([np.inf, np.nan])
    dx, dk = doubled.grad(dy, np.ones(2))
    assert dk == 0
    np.testing.assert_array_equal(dx, dy * 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op = fastgrad.elementwise(lambda x: x)", "write def name"),
        ("@fastgrad.elementwise\ndef op(x, k=None): return x", "k=None: an array has no default"),
        ("@fastgrad.elementwise\ndef op(_x): return _x", "names with _ are the library's own"),
        ("@fastgrad.elementwise\ndef op(k=1.0): return k", "takes at least one array"),
        ("@fastgrad.elementwise\ndef op(*x): return x", "arguments have names"),
        ("@fastgrad.elementwise\ndef op(x, how='a'): return x", "must list the choices"),
    ],
)
def test_what_cannot_be_an_operator_is_told(text, message):
    with pytest.raises(TypeError, match=message):
        exec(text, {"fastgrad": fastgrad})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x if x > 0 else -x, r"where\(condition, a, b\)"),
        (lambda x: np.arcsin(x), r"np.arcsin has no vector instruction"),
        (lambda x: sum(x), r"cannot be looped over"),
        (lambda x: x + "1", r"takes operands and numbers, got str"),
        (lambda x: None, r"must return one value made of its operands, got None"),
    ],
)
def test_what_cannot_be_traced_is_told(function, message):
    with pytest.raises(TraceError, match=message):
        fastgrad.elementwise(_named(function)).trace()


@pytest.mark.parametrize("name", ["dy", "out", "axis", "wrt"])
def test_names_that_every_operator_has(name):
    scope: dict = {}
    exec(f"def user_operator({name}):\n    return {name} * 2", scope)
    with pytest.raises(TypeError, match=f"no operand may be called {name}"):
        fastgrad.elementwise(scope["user_operator"])


def test_schedule_reuses_buffers():
    program = fastgrad.swish.trace(wrt="x")
    plan = schedule(program)
    assert plan.count == 3
    assert plan.block_size == 192 * 1024 // 3 // 256 * 256 // 4
    live = _check_no_live_buffer_is_overwritten(program, plan)
    assert live <= plan.count
    with pytest.raises(ValueError, match="must hold 3 buffers"):
        schedule(program, ub_bytes=700)


def _check_no_live_buffer_is_overwritten(program, plan):
    last = {arg: step for step, node in enumerate(program.nodes) for arg in node.args}
    last.update({result.value: len(program.nodes) for result in program.results})
    holder: dict = {}
    most = 0
    for step, node in enumerate(program.nodes):
        if node not in plan.buffer:
            continue
        for arg in node.args:
            assert arg not in plan.buffer or holder[plan.buffer[arg]] is arg
        previous = holder.get(plan.buffer[node])
        assert previous is None or last[previous] <= step
        holder[plan.buffer[node]] = node
        most = max(most, len(holder))
    return most


def test_show_prints_everything(capsys):
    text = fastgrad.show(fastgrad.swish)
    assert capsys.readouterr().out.strip() == text.strip()
    for part in ("8 vector instructions", "Sigmoid", "ub0", "def body(dy, x, dx, beta)", "tiles"):
        assert part in text
    assert "bfloat_to_float(read(x, i))" in fastgrad.show(fastgrad.gelu, dtype="bfloat16")
    with pytest.raises(ValueError, match="approximate must be one of 'none', 'tanh'"):
        fastgrad.show(fastgrad.gelu, approximate="erf")
    with pytest.raises(TypeError, match="show takes an operator"):
        fastgrad.show(np.exp)


def test_mish_is_recognised():
    def written_out(x):
        return x * m.tanh(m.log1p(m.exp(x)))

    operator = fastgrad.elementwise(written_out)
    assert [node.op for node in operator.trace().lowered.instructions] == ["mish"]
    backward = operator.trace(wrt="x").lowered.instructions
    assert [node.op for node in backward] == ["mish_slope", "mul"]


def test_the_logarithm_of_a_sigmoid_has_an_exact_tail():
    def written_out(x):
        return m.log(m.sigmoid(x))

    y = fastgrad.elementwise(written_out)(np.array([-1000.0, 50.0]))
    np.testing.assert_allclose(y, [-1000.0, -np.exp(-50.0)], rtol=1e-15)


def test_one_less_a_gate_of_mish_keeps_its_digits():
    def rest(x):
        return 1.0 - m.tanh(m.softplus(x))

    x = np.array([5.0, 20.0, 50.0])
    exact = 2 / (1 + np.exp(2 * np.logaddexp(0, x)))
    np.testing.assert_allclose(fastgrad.elementwise(rest)(x), exact, rtol=1e-13)
