"""What cannot become a vector program is told at the definition: file, line, and what to write instead."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import scipy.special

import fastgrad
from fastgrad import maths as m
from fastgrad.program.maths import TraceError


def branch(x):
    if x > 0:
        return x
    return -x


def conditional(x):
    return x if x > 0 else 0.0 * x


def both(x):
    return m.where(x > 0 and x < 1, x, 0.0)


def chained(x):
    return m.where(0 < x < 1, x, 0.0)


def larger(x):
    return max(x, 0.0)


def loop(x):
    total = 0.0
    for value in x:
        total = total + value
    return total


def indexed(x):
    return x[0] * x


def length(x):
    return x / len(x)


def exponential(x):
    return math.exp(x)


def special(x):
    return scipy.special.erf(x)


def unknown(x):
    return scipy.special.gamma(x)


def sorted_values(x):
    return np.sort(x)


def summed(x):
    return x / np.sum(x)


def method(x):
    return x / x.sum()


def shaped(x):
    return x * x.shape[0]


def number(x):
    return float(x) * 2.0


def modulo(x):
    return x % 2.0


def quotient(x):
    return x // 2.0


def matrix(x):
    return x @ x


def in_place(x):
    return np.add(x, 1.0, out=x)


def text(x):
    return x + "1"


def nothing(x):
    x * 2.0


def several(x):
    return x, x


def constant(x):
    return 1.0 + 0.0 * 2.0


def of_a_number(x, k=2.0):
    return 2.0 * k


CASES = {
    branch: ("if x > 0:", "Write m.where(condition, a, b) instead of a branch."),
    conditional: ("return x if x > 0 else", "Write m.where(condition, a, b) instead of a branch."),
    both: ("x > 0 and x < 1", "Write a * b for `and`"),
    chained: ("0 < x < 1", "Write (a < x) * (x < b): Python takes a < x < b apart"),
    larger: ("return max(x, 0.0)", "Write m.maximum(a, b) instead of max(a, b)."),
    loop: ("for value in x:", "Write the maths of one element"),
    indexed: ("return x[0] * x", "Write the maths of one element"),
    length: ("return x / len(x)", "`m.mean` and `m.sum` of a row are for @fastgrad.rowwise"),
    exponential: ("return math.exp(x)", "Write m.exp(…) instead of math.exp(…)"),
    special: ("scipy.special.erf(x)", "Write m.erf(…) instead of scipy.special.erf(…)"),
    unknown: ("scipy.special.gamma(x)", "np.gamma has no vector instruction; there are: add"),
    sorted_values: ("return np.sort(x)", "np.sort takes arrays, an operand is one lane of one"),
    summed: ("return x / np.sum(x)", "np.sum takes arrays, an operand is one lane of one"),
    method: ("return x / x.sum()", "A reduction over a row is for @fastgrad.rowwise"),
    shaped: ("x.shape[0]", "An operand is one element: it has no shape"),
    number: ("float(x) * 2.0", "There are: abs, "),
    modulo: ("return x % 2.0", "Write x - k * m.floor(x / k) instead of x % k."),
    quotient: ("return x // 2.0", "Write m.floor(a / b) instead of a // b."),
    matrix: ("return x @ x", "A product of matrices is no operator of elements"),
    in_place: ("np.add(x, 1.0, out=x)", "np.add"),
    text: ('return x + "1"', "takes operands and numbers, got str: '1'"),
}
WITHOUT_A_LINE = {
    nothing: "nothing must return one value made of its operands, got None",
    several: "several must return one value made of its operands, got",
    constant: "constant must return one value made of its operands, got 1.0",
    of_a_number: "of_a_number returns what depends on no array",
}


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
@pytest.mark.parametrize("decorator", [fastgrad.elementwise, fastgrad.loss, fastgrad.seeded])
def test_the_line_and_the_remedy_are_told(decorator, function):
    line, hint = CASES[function]
    with pytest.raises(TraceError) as caught:
        decorator(function)
    message = str(caught.value)
    assert re.search(
        rf'File ".*test_definition_errors.py", line \d+, in {function.__name__}', message
    )
    assert line in message
    assert hint in message


@pytest.mark.parametrize("function", WITHOUT_A_LINE, ids=lambda function: function.__name__)
def test_what_comes_back_is_told(function):
    with pytest.raises(TraceError, match=re.escape(WITHOUT_A_LINE[function])):
        fastgrad.elementwise(function)


def test_rows_too():
    def branching(x):
        return x if m.sum(x) > 0 else -x

    with pytest.raises(TraceError) as caught:
        fastgrad.rowwise(branching)
    assert "return x if m.sum(x) > 0 else -x" in str(caught.value)
    assert "Write m.where(condition, a, b)" in str(caught.value)


def test_every_choice_is_tried():
    def chosen(x, how="a"):
        return x if how == "a" else math.exp(x)

    with pytest.raises(TraceError, match=r"Write m.exp\(…\) instead of math.exp"):
        fastgrad.elementwise(how=("a", "b"))(chosen)


def test_source_that_is_not_there():
    scope = {"fastgrad": fastgrad}
    with pytest.raises(TraceError, match=r'File "<string>", line 2, in op'):
        exec("@fastgrad.elementwise\ndef op(x): return x if x > 0 else -x", scope)


def test_a_backward_by_hand_is_told_when_it_is_traced():
    @fastgrad.elementwise
    def square(x):
        return x * x

    @square.backward
    def slope(x):
        return 2.0 * x if x > 0 else x

    with pytest.raises(TraceError, match=r"in slope"):
        square.grad(np.ones(1), np.ones(1))


def test_a_fault_of_another_kind_stays_what_it_is():
    def broken(x):
        return x * {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        fastgrad.elementwise(broken)


def test_names_may_be_defined_further_down():
    scope = {"fastgrad": fastgrad}
    exec("@fastgrad.elementwise\ndef op(x): return helper(x)\ndef helper(x): return 2.0 * x", scope)
    assert scope["op"](np.ones(1)).tolist() == [2.0]


def test_where_of_numpy_is_the_instruction():
    @fastgrad.elementwise
    def clipped(x):
        return np.where(x > 1.0, 1.0, x)

    assert clipped(np.array([0.5, 2.0])).tolist() == [0.5, 1.0]
