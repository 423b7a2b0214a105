"""`make exhaustive`: its references against mpmath; on a part of the inputs, what it finds and keeps."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from fastgrad.vector_unit import maths
from fastgrad.vector_unit.lanes import lane, like
from rounding import error_in_ulp, rounded, spacing

sys.path.append(str(Path(__file__).parents[2] / "tools"))
cases = importlib.import_module("exhaustive_cases")
exhaustive = importlib.import_module("exhaustive")
tallying = importlib.import_module("exhaustive_tally")
tabling = importlib.import_module("exhaustive_table")

#: 8,192 inputs, whole and half numbers among them.
STEP = 1 << 19
#: Of what the references may be off, in ULP of float32; docs/accuracy.md states it.
TOLERANCE = 1e-5
BEYOND_FLOAT32 = 2.0**128


def pattern(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


# --- The references ---------------------------------------------------------------------------


def logistic(z):
    return 1 / (1 + mp.exp(-z))


def bell(z):
    return 1 / (2 * mp.cosh(z / 2)) ** 2


def cdf(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def pdf(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def shrunk(x):
    """x - tanh(x); by its series where the digits would not reach."""
    if abs(x) < mp.mpf("1e-9"):
        return x**3 / 3 - 2 * x**5 / 15
    return x - mp.tanh(x)


def soft_gate(x):
    """tanh(softplus(x))."""
    w = mp.exp(x) * (mp.exp(x) + 2)
    return w / (w + 2)


def soft_gate_slope(x):
    return 4 * mp.exp(x) * (1 + mp.exp(x)) / (mp.exp(x) * (mp.exp(x) + 2) + 2) ** 2


EXACT = {
    "abs": abs,
    "floor": mp.floor,
    "round": mp.nint,
    "mish_gate": soft_gate,
    "mish_gate_slope": soft_gate_slope,
    "mish": lambda x: x * soft_gate(x),
    "mish_slope": lambda x: soft_gate(x) + x * soft_gate_slope(x),
    "sqrt": mp.sqrt,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "exp": mp.exp,
    "exp2": lambda x: mp.mpf(2) ** x,
    "expm1": mp.expm1,
    "log": mp.log,
    "log1p": mp.log1p,
    "softplus": lambda x: max(x, mp.mpf(0)) + mp.log1p(mp.exp(-abs(x))),
    "log_sigmoid": lambda x: min(x, mp.mpf(0)) - mp.log1p(mp.exp(-abs(x))),
    "sigmoid": logistic,
    "sin": mp.sin,
    "cos": mp.cos,
    "dsigmoid": bell,
    "tanh": mp.tanh,
    "sech2": lambda x: 1 / mp.cosh(x) ** 2,
    "tanhshrink": shrunk,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "normal_cdf": cdf,
    "normal_pdf": pdf,
    "exp_neg_square": lambda x: mp.exp(-x * x),
    "silu": lambda z: z * logistic(z),
    "silu_slope": lambda z: logistic(z) + z * bell(z),
    "gelu": lambda x: x * cdf(x),
    "gelu_slope": lambda x: cdf(x) + x * pdf(x),
    "scaled_sigmoid(z, z)": lambda z: z * logistic(z),
    "scaled_sigmoid(1, z)": logistic,
    "sigmoid_slope(z, z)": lambda z: logistic(z) + z * bell(z),
    "sigmoid_slope(1, z)": lambda z: logistic(z) + bell(z),
}
#: Roots, ends of series, where results saturate, overflow and turn subnormal.
HARD = [1.2784645, 0.7517916, 0.05, 0.67448975, 1, 1.4142135, 2.0**-126, 2.0**-149, 2.0**127]
HARD += [87.33, 88.72, 92.1, 103.3, 103.97, 44.01, 52.0, 126.0, 128.0, 149.0, 9.19, 9.3, 10.05]
HARD += [12.98, 13.2, 14.17, 16.6, 17.3, 36.7, 37.5, 38.5, 2.0**24, 2.0**53, 1e-3, 3e-5, 1e-12]


def points(label: str) -> np.ndarray:
    """Some thousand float32: all magnitudes, the usual range, the hard places and their neighbours."""
    rng = np.random.default_rng(sum(map(ord, label)))
    near = np.array(HARD, np.float32).view(np.int32)[:, None] + np.arange(-4, 5, dtype=np.int32)
    near = near[near >= 0].view(np.float32)
    parts = [
        rng.integers(0, 1 << 32, 700, np.uint32).view(np.float32),
        rng.normal(0, 1, 500).astype(np.float32),
        rng.uniform(-110, 110, 500).astype(np.float32),
        rng.uniform(-15, 15, 500).astype(np.float32),
        near,
        -near,
    ]
    x = np.concatenate(parts)
    return x[np.isfinite(x) & (x != 0)].astype(np.float64)


@np.errstate(all="ignore")
@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.label)
def test_reference_is_exact_enough(case):
    x = points(case.label)
    reference, scale = case.exact(x)
    lowest = {"log": 0, "sqrt": 0, "rsqrt": 0, "log1p": -1}.get(case.label, -np.inf)
    np.testing.assert_array_equal(np.isnan(reference), x < lowest)
    unit = spacing(scale, np.float32)
    inside = x > lowest
    with mp.workdps(40):
        for argument, *found in zip(*(part[inside].tolist() for part in (x, reference, unit))):
            assert agree(EXACT[case.label](mp.mpf(argument)), *found), argument


def agree(wanted, value: float, unit: float) -> bool:
    """Both are infinite in float32, or nearly the same."""
    if max(abs(wanted), abs(value)) >= BEYOND_FLOAT32:
        return min(abs(wanted), abs(value)) >= BEYOND_FLOAT32
    return abs(wanted - value) <= TOLERANCE * unit


def test_every_public_function_of_one_operand_is_measured():
    assert {case.op for case in cases.CASES} == set(maths.__all__) - cases.NOT_UNARY


# --- The tool ---------------------------------------------------------------------------------


@lane
def wrong_once(x):
    """e^x, but 8 ULP too much at 1.5."""
    return maths.exp(x) * (like(x, 1 + 8 * 2.0**-23) if x == like(x, 1.5) else like(x, 1.0))


@lane
def flushing(x):
    """e^x without subnormal results."""
    y = maths.exp(x)
    return like(x, 0.0) if y < like(x, 2.0**-126) else y


@lane
def losing_nan(x):
    return maths.exp(x) if x == x else like(x, 0.0)


@lane
def early_infinity(x):
    return like(x, np.inf) if x > like(x, 88.0) else maths.exp(x)


def planted(function):
    return cases.Case("exp", function, np.exp, 1.0)


@pytest.fixture
def command(monkeypatch, tmp_path):
    """The command line on a part of the inputs of one case, with its state in a folder of the test."""

    def run(case, *arguments, step=STEP):
        monkeypatch.setattr(exhaustive, "CASES", (case,))
        where = ["--state", str(tmp_path / "state"), "--output", str(tmp_path / "accuracy.md")]
        return exhaustive.main([*where, "--step", str(step), *arguments])

    return run


def whole_tally(case, step=STEP):
    return sum((tallying.measure(case, i, step) for i in range(tallying.CHUNKS)), tallying.Tally())


@pytest.mark.parametrize(
    ("function", "kind", "least", "where"),
    [
        (wrong_once, "normal", 5, pattern(1.5)),
        (flushing, "subnormal", 1000, None),
        (losing_nan, "normal", np.inf, None),
        (early_infinity, "normal", np.inf, pattern(88.125)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_planted_error_is_found(command, capsys, function, kind, least, where):
    assert command(planted(function), step=1 << 14) == 1
    worst = getattr(whole_tally(planted(function), 1 << 14), kind)
    assert worst.error >= least
    assert where is None or worst.pattern == where
    printed = capsys.readouterr()
    assert "**no**" in printed.out
    assert f"({worst.pattern:#010x})" in printed.out and f"({worst.pattern:#010x})" in printed.err


def test_tally_of_a_right_function():
    """Counted once more, plainly."""
    case = next(case for case in cases.CASES if case.label == "exp")
    tally = whole_tally(case)
    x = np.arange(0, 1 << 32, STEP).astype(np.uint32).view(np.float32)
    got = tallying.evaluate(case, x.view(np.uint32))[1]
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
    subnormal = exact < 2.0**-126
    error = error_in_ulp(got, exact, np.float32)
    assert tally.numbers == np.count_nonzero(~np.isnan(x))
    assert tally.exact == np.count_nonzero(got == rounded(exact, np.float32))
    for worst, part in ((tally.normal, ~subnormal), (tally.subnormal, subnormal)):
        assert worst.error == error[part].max()
        assert error[x.view(np.uint32) == worst.pattern] == worst.error


@pytest.mark.parametrize("step", [4097, 1 << 16, tallying.CHUNK + 1, 1 << 31])
def test_steps_cover_the_inputs_across_chunks(step):
    for chunk in (0, 1, 127, 255):
        start = chunk * tallying.CHUNK
        wanted = [n for n in (start, start + tallying.CHUNK - 1) if n % step == 0]
        found = np.concatenate([np.empty(0, np.uint32), *tallying.blocks(chunk, step)])
        assert (found % step == 0).all()
        assert found.size == len(range(-(-start // step) * step, start + tallying.CHUNK, step))
        assert np.isin(wanted, found).all()


@pytest.fixture
def counted(monkeypatch):
    """The chunks that are measured; `limit` of them, then the user interrupts."""
    measure, seen, limit = tallying.measure, [], [tallying.CHUNKS]

    def counting(case, chunk, step):
        if len(seen) == limit[0]:
            raise KeyboardInterrupt
        seen.append(chunk)
        return measure(case, chunk, step)

    monkeypatch.setattr(tallying, "measure", counting)
    return seen, limit


@pytest.mark.parametrize("workers", ["1", "2"])
def test_interrupted_run_goes_on(command, counted, capsys, tmp_path, workers):
    seen, limit = counted
    case = planted(wrong_once)
    limit[0] = 100
    assert command(case, "--workers", workers) == exhaustive.INTERRUPTED
    (state,) = (tmp_path / "state").glob("*/exp-*.json")
    kept = set(map(int, json.loads(state.read_text())))
    assert 0 < len(kept) <= 100
    seen.clear()
    limit[0] = tallying.CHUNKS
    assert command(case) == 1
    assert sorted(seen) == sorted(set(range(tallying.CHUNKS)) - kept)
    resumed = capsys.readouterr().out
    seen.clear()
    assert command(case) == 1
    assert not seen
    assert capsys.readouterr().out == resumed == tabling.table({case: whole_tally(case)}) + "\n"


def test_changed_sources_are_measured_anew(command, counted, monkeypatch, tmp_path):
    seen, _ = counted
    source = tmp_path / "maths.py"
    monkeypatch.setattr(exhaustive, "SOURCES", (source,))
    for text in ("one", "two"):
        source.write_text(text)
        seen.clear()
        command(planted(maths.exp))
        assert len(seen) == tallying.CHUNKS


def test_only_a_complete_run_writes_the_document(command, monkeypatch, tmp_path):
    document = tmp_path / "accuracy.md"
    assert command(planted(maths.exp)) == 0
    assert not document.exists()
    # All inputs, as if each chunk were one block.
    monkeypatch.setattr(
        tallying, "blocks", lambda chunk, step: [np.array([chunk << 24], np.uint32)]
    )
    assert command(planted(maths.exp), "--op", "exp", step=1) == 0
    assert not document.exists()
    assert command(planted(maths.exp), step=1) == 0
    text = document.read_text()
    assert text.startswith("# Accuracy\n")
    assert "LLVM" in text and "mpmath" in text and "| `exp` |" in text


def test_table():
    case = planted(maths.exp)
    tally = tallying.Tally(
        3_000_000, 2_999_999, tallying.Worst(0.90001, pattern(1.5)), tallying.Worst(2.5, 1)
    )
    row = tabling.table({case: tally}).splitlines()[-1]
    assert row == (
        "| `exp` | 0.901 | 1.5 (0x3fc00000) | 1 | 2.500 | 1e-45 (0x00000001) | 2 | 99.9999 % | **no** |"
    )
    (line,) = tabling.broken_bounds({case: tally})
    assert line == "exp: error 2.5000, bound 2, at x = 1e-45 (0x00000001): 1.0 instead of 1.0"
    right = tallying.Tally(3, 3, tallying.Worst(0.0, 0), tallying.Worst())
    row = tabling.table({case: right}).splitlines()[-1]
    assert row == "| `exp` | 0.000 |  | 1 | none |  | 2 | 100 % | yes |"
    assert not tabling.broken_bounds({case: right})
