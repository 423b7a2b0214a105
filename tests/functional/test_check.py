"""`fastgrad.check`: operators that are right pass, and each kind of fault fails its own row."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fastgrad
from fastgrad import maths as m
from fastgrad.functional._run import ProgramRunner


def failed(found: fastgrad.Checked) -> list[str]:
    return [row.what for row in found.rows if not row.ok]


@pytest.mark.parametrize("name", ["relu", "gelu", "swiglu", "huber_loss", "dropout", "rms_norm"])
def test_the_librarys_operators_pass(name):
    dtypes = None if name == "gelu" else ["float32", "bfloat16"]
    found = fastgrad.check(getattr(fastgrad, name), dtypes=dtypes, verbose=False)
    assert found.ok, found


def test_a_table_is_printed_and_kept(capsys):
    found = fastgrad.check(fastgrad.leaky_relu, dtypes=["float32"])
    printed = capsys.readouterr().out
    assert "leaky_relu: passes" in printed and "derivative by negative_slope" in printed
    assert found.raise_if_failed() is None
    assert json.loads(json.dumps(found.as_dict()))["ok"] is True
    assert str(found).startswith("leaky_relu: passes\nok    derivative by x")


def test_kinks_are_counted():
    """Next to 0, where some operands stand; curved parts are no kinks."""

    @fastgrad.elementwise
    def bent(x, y):
        return m.abs(y - y + m.where(y > 0.0, 0.0, x)) + 0.01 * m.exp(3.0 * x)

    found = fastgrad.check(fastgrad.relu, domain=(-2e-3, 2e-3), dtypes=["float64"], verbose=False)
    assert found.ok, found
    assert "kinks" in found.rows[0].found
    found = fastgrad.check(bent, dtypes=["float64"], verbose=False)
    assert "kink" not in found.rows[0].found


def test_a_wrong_backward_fails():
    @fastgrad.elementwise
    def cube(x):
        return x * x * x

    @cube.backward
    def wrong(x):
        return 2.0 * x * x

    found = fastgrad.check(cube, verbose=False, dtypes=["float32"])
    assert failed(found) == ["derivative by x"]
    with pytest.raises(AssertionError, match=r"cube does not pass its check"):
        found.raise_if_failed()


def test_a_wrong_derivative_of_a_parameter_fails():
    @fastgrad.elementwise
    def scaled(x, scale=2.0):
        return x * scale

    @scaled.backward
    def wrong(x, scale):
        return scale, 2.0 * x

    assert failed(fastgrad.check(scaled, verbose=False, dtypes=["float32"])) == [
        "derivative by scale"
    ]


def test_a_wrong_gradient_of_rows_fails():
    @fastgrad.rowwise
    def centered(x):
        return x - m.mean(x)

    @centered.backward
    def wrong(dy, x):
        return dy * 1.0

    assert "derivative by x" in failed(fastgrad.check(centered, verbose=False, dtypes=["float64"]))


def test_a_lost_nan_fails():
    @fastgrad.elementwise
    def careless(x):
        return m.where(x > 0.0, x, 0.0)

    found = fastgrad.check(careless, verbose=False, dtypes=["float32"])
    assert failed(found) == ["float32 special values"]
    assert "NaN in x is lost in the value" in str(found)


def test_an_infinity_without_its_limit_fails():
    @fastgrad.elementwise
    def naive(x):
        return x / (1.0 + m.abs(x))

    found = fastgrad.check(naive, verbose=False, dtypes=["float32"])
    assert failed(found) == ["float32 special values"]
    assert "inf gives NaN" in str(found)


def test_another_result_of_the_short_way_fails(monkeypatch):
    plain = ProgramRunner.plain

    def wrongly(self, *arguments):
        y = plain(self, *arguments)
        return None if y is None else np.nextafter(y, np.inf, dtype=y.dtype, out=y)

    monkeypatch.setattr(ProgramRunner, "plain", wrongly)
    assert "float32 layouts" in failed(
        fastgrad.check(fastgrad.silu, verbose=False, dtypes=["float32"])
    )


def test_no_operator():
    with pytest.raises(TypeError, match=r"check takes an operator of fastgrad, got function"):
        fastgrad.check(failed)
