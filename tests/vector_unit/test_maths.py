"""The vector maths against float64 (for float32) and mpmath (for float64), bit by bit where it can be."""

from __future__ import annotations

import itertools
import platform
import re
from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp
import numba
import numpy as np
import pytest
import scipy.special as sp

from fastgrad.vector_unit import maths

DTYPES = [np.float32, np.float64]
ULP_BOUND = {np.float32: 2.0, np.float64: 4.0}


class Reference(NamedTuple):
    """`double` on float64 arrays, `exact` on an mpmath number of at most `largest` in size."""

    double: Callable
    exact: Callable
    largest: float = 2000.0


def decay(x):
    return np.exp(-np.abs(x))


def shrunk(x):
    """x - tanh(x), by its series where the difference cancels."""
    series = x**3 / 3 - 2 * x**5 / 15 + 17 * x**7 / 315 - 62 * x**9 / 2835
    return np.where(np.abs(x) < 0.02, series, x - np.tanh(x))


def shrunk_exactly(x):
    if abs(x) < mp.mpf("1e-12"):
        return x**3 / 3 - 2 * x**5 / 15
    return x - mp.tanh(x)


def half_cosh(x):
    return 1 / (2 * mp.cosh(x / 2)) ** 2


def half_erfc(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def exact_softplus(x):
    if abs(x) > 2000:
        return max(x, mp.mpf(0))
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


REFERENCES = {
    "exp": Reference(np.exp, mp.exp),
    "exp2": Reference(np.exp2, lambda x: mp.mpf(2) ** x),
    "expm1": Reference(np.expm1, mp.expm1),
    "log": Reference(np.log, mp.log, np.inf),
    "log1p": Reference(np.log1p, mp.log1p, np.inf),
    "softplus": Reference(lambda x: np.logaddexp(0, x), exact_softplus, np.inf),
    "log_sigmoid": Reference(lambda x: -np.logaddexp(0, -x), lambda x: -exact_softplus(-x), np.inf),
    "sigmoid": Reference(
        lambda x: np.exp(np.minimum(x, 0)) / (1 + decay(x)), lambda x: 1 / (1 + mp.exp(-x))
    ),
    "dsigmoid": Reference(lambda x: decay(x) / (1 + decay(x)) ** 2, half_cosh),
    "tanh": Reference(np.tanh, mp.tanh),
    "sech2": Reference(
        lambda x: 4 * decay(2 * x) / (1 + decay(2 * x)) ** 2, lambda x: 1 / mp.cosh(x) ** 2
    ),
    "tanhshrink": Reference(shrunk, shrunk_exactly, np.inf),
    "erf": Reference(sp.erf, mp.erf, 60.0),
    "erfc": Reference(sp.erfc, mp.erfc, 60.0),
    "normal_cdf": Reference(sp.ndtr, half_erfc, 60.0),
    "normal_pdf": Reference(
        lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
        lambda x: mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi),
        60.0,
    ),
    "exp_neg_square": Reference(lambda x: np.exp(-x * x), lambda x: mp.exp(-x * x), 60.0),
    "sin": Reference(np.sin, mp.sin, np.inf),
    "cos": Reference(np.cos, mp.cos, np.inf),
    "reciprocal": Reference(np.reciprocal, lambda x: 1 / x, np.inf),
    "sqrt": Reference(np.sqrt, mp.sqrt, np.inf),
    "rsqrt": Reference(lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x), np.inf),
    "abs": Reference(np.abs, abs, np.inf),
    "floor": Reference(np.floor, mp.floor, np.inf),
    "round": Reference(np.rint, mp.nint, np.inf),
}
SPLIT = [
    "exp",
    "sigmoid",
    "dsigmoid",
    "sech2",
    "normal_cdf",
    "normal_pdf",
    "exp_neg_square",
]


def gate_of_mish(z):
    """tanh(softplus(z)), of positive terms."""
    e = decay(z)
    above = (1 + 2 * e) / (1 + 2 * e * (1 + e))
    return np.where(z < 0, e * (2 + e) / (2 + e * (2 + e)), above)


def slope_of_the_gate(z):
    e = decay(z)
    above = (e / (1 + 2 * e * (1 + e))) ** 2
    return 4 * (1 + e) * np.where(z < 0, e / (2 + e * (2 + e)) ** 2, above)


#: Further split forms, less accurate: their references on float64.
SPLIT_GATES = {"mish_gate": gate_of_mish, "mish_gate_slope": slope_of_the_gate}

INF, NAN = np.inf, np.nan
#: The value at -inf, -0, +0 and +inf; NaN stays NaN in all.
SPECIAL = {
    "exp": (0, 1, 1, INF),
    "exp2": (0, 1, 1, INF),
    "expm1": (-1, -0.0, 0, INF),
    "log": (NAN, -INF, -INF, INF),
    "log1p": (NAN, -0.0, 0, INF),
    "softplus": (0, np.log(2), np.log(2), INF),
    "log_sigmoid": (-INF, -np.log(2), -np.log(2), -0.0),
    "sigmoid": (0, 0.5, 0.5, 1),
    "dsigmoid": (0, 0.25, 0.25, 0),
    "tanh": (-1, -0.0, 0, 1),
    "sech2": (0, 1, 1, 0),
    "tanhshrink": (-INF, -0.0, 0, INF),
    "erf": (-1, -0.0, 0, 1),
    "erfc": (2, 1, 1, 0),
    "normal_cdf": (0, 0.5, 0.5, 1),
    "normal_pdf": (0, (2 * np.pi) ** -0.5, (2 * np.pi) ** -0.5, 0),
    "exp_neg_square": (0, 1, 1, 0),
    "sin": (NAN, -0.0, 0, NAN),
    "cos": (NAN, 1, 1, NAN),
    "reciprocal": (-0.0, -INF, INF, 0),
    "sqrt": (NAN, -0.0, 0, INF),
    "rsqrt": (NAN, -INF, INF, 0),
    "abs": (INF, 0, 0, INF),
    "floor": (-INF, -0.0, 0, INF),
    "round": (-INF, -0.0, 0, INF),
}


@pytest.fixture(scope="session")
def loops():
    """One plain loop for each function, compiled for each dtype when it is first called."""
    made: dict = {}

    def loop(name):
        if name not in made:
            function = getattr(maths, name)

            @numba.njit(error_model="numpy")
            def run(x, o):
                for i in range(x.size):
                    o[i] = function(x[i])

            made[name] = run
        return made[name]

    return loop


@pytest.fixture(scope="session")
def split_loops():
    """For each split form one loop that stores its parts, and its products with `a` and `b`."""
    made: dict = {}

    def loop(name):
        if name not in made:
            function = getattr(maths, f"{name}_split")
            scaled, scaled2 = maths.scaled, maths.scaled2

            @numba.njit(error_model="numpy")
            def run(z, a, b, q, s1, s2, once, twice):
                for i in range(z.size):
                    q[i], s1[i], s2[i] = function(z[i])
                    once[i] = scaled(a[i], q[i], s1[i], s2[i])
                    twice[i] = scaled2(a[i], b[i], q[i], s1[i], s2[i])

            made[name] = run

        def call(z, a, b):
            parts = [np.empty_like(z) for _ in range(5)]
            made[name](z, a, b, *parts)
            return parts

        return call

    return loop


def apply(loop, x):
    result = np.empty_like(x)
    loop(x, result)
    return result


def dense_singles():
    """Every 4099th float32 bit pattern, and the neighbourhoods of the knees."""
    patterns = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([patterns.view(np.float32), knees(np.float32)])


def knees(dtype):
    """Where branches change, results saturate or turn subnormal; with 4 neighbours on each side."""
    finfo = np.finfo(dtype)
    points = [
        0,
        finfo.smallest_subnormal * 9,
        finfo.tiny,
        finfo.eps,
        0.25,
        np.log(2) / 2,
        0.5,
        0.75,
        1,
        1.4,
        np.sqrt(2),
        2,
        9.01,
        17.33,
        36.7,
        2.0**24,
        2.0**26,
        2.0**56,
        finfo.max,
    ]
    points += [5.5, 9.19, 10.05, 13.15, 14.17, 18.72, 26.5, 27.2, 37.5, 38.5, 53.24]
    for base in (np.log(2), 1.0, np.log(2) / 2):
        points += [base * n for n in (126, 127, 128, 149, 150, 253, 1022, 1023, 1024, 1075, 2045)]
    points = np.array(points, dtype)
    integer = np.dtype(f"i{points.itemsize}")
    near = points.view(integer)[:, None] + np.arange(-4, 5, dtype=integer)
    near = np.maximum(near, 0).view(dtype).ravel()
    return np.concatenate([near, -near])


def doubles(name):
    """Some thousand float64 points: the usual range, all magnitudes, the knees."""
    rng = np.random.default_rng(sum(map(ord, name)))
    patterns = rng.integers(-(1 << 63), (1 << 63) - 1, 400).view(np.float64)
    parts = [
        rng.normal(0, 1, 400),
        rng.uniform(-45, 45, 900),
        rng.uniform(-760, 760, 400),
        rng.choice([-1, 1], 300) * 2.0 ** rng.uniform(-60, 12, 300),
        patterns,
        knees(np.float64),
    ]
    return np.concatenate(parts)


def spacings_off(result, wanted):
    """The distance in spacings of `result` at the rounded `wanted` (float64 for a float32 result)."""
    rounded = wanted.astype(result.dtype)
    largest = np.finfo(result.dtype).max
    spacing = np.spacing(np.minimum(np.abs(rounded), largest)).astype(wanted.dtype)
    off = np.abs(result.astype(wanted.dtype) - wanted) / spacing
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    off[same & ~np.isfinite(rounded)] = 0
    return np.where(np.isnan(off), np.inf, off)


def exact_spacings_off(result, x, reference):
    """The same for float64, against mpmath."""
    off = np.zeros(x.size)
    with mp.workdps(60):
        for i, (value, got) in enumerate(zip(x.tolist(), result.tolist())):
            if not np.isfinite(value):
                continue
            wanted = reference.exact(mp.mpf(max(min(value, reference.largest), -reference.largest)))
            rounded = float(wanted)
            if got == rounded:
                continue
            if np.isinf(rounded) or not np.isfinite(got):
                off[i] = np.inf
            else:
                off[i] = abs(got - wanted) / mp.mpf(float(np.spacing(abs(rounded))))
    return off


def within_domain(name, x):
    if name in ("log", "rsqrt", "sqrt"):
        return x[x > 0]
    if name == "log1p":
        return x[x > -1]
    return x[x != 0] if name == "reciprocal" else x


@pytest.mark.parametrize("name", REFERENCES)
@np.errstate(all="ignore")
def test_float32_is_within_its_bound(loops, name):
    x = dense_singles()
    result = apply(loops(name), x)
    off = spacings_off(result, REFERENCES[name].double(x.astype(np.float64)))
    worst = off.argmax()
    assert off[worst] <= (1.0 if name == "exp" else 2.0), (x[worst], result[worst], off[worst])


@pytest.mark.parametrize("name", REFERENCES)
@np.errstate(all="ignore")
def test_float64_is_within_its_bound(loops, name):
    x = within_domain(name, doubles(name))
    result = apply(loops(name), x)
    off = exact_spacings_off(result, x, REFERENCES[name])
    worst = off.argmax()
    assert off[worst] <= ULP_BOUND[np.float64], (x[worst], result[worst], off[worst])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(loops, name, dtype):
    x = np.array([-np.inf, -0.0, 0.0, np.inf, np.nan, -np.nan], dtype)
    wanted = np.array([*SPECIAL[name], np.nan, np.nan], dtype)
    result = apply(loops(name), x)
    np.testing.assert_allclose(result, wanted, rtol=2 * np.finfo(dtype).eps, atol=0)
    exact = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(result)[exact], np.signbit(wanted)[exact])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [n for n in REFERENCES if n not in ("abs", "sqrt")])
def test_any_nan_stays_nan(loops, name, dtype):
    integer = np.dtype(f"u{np.dtype(dtype).itemsize}")
    infinity = int(np.array(np.inf, dtype).view(integer))
    payloads = np.array([infinity | 1 << k for k in range(np.finfo(dtype).nmant)], integer)
    sign = integer.type(1 << (8 * integer.itemsize - 1))
    x = np.concatenate([payloads, payloads | sign]).view(dtype)
    assert np.isnan(apply(loops(name), x)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["log", "log1p", "sqrt", "rsqrt"])
def test_outside_the_domain(loops, name, dtype):
    x = np.array([-1.5, -2, -1e30], dtype)
    assert np.isnan(apply(loops(name), x)).all()
    assert apply(loops("log1p"), np.array([-1], dtype))[0] == -np.inf


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_overflows_exactly_where_the_rounded_result_does(loops, dtype):
    edge = np.array([np.log(np.float64(np.finfo(dtype).max))], dtype)
    integer = np.dtype(f"i{edge.itemsize}")
    x = (edge.view(integer) + np.arange(-40, 41, dtype=integer)).view(dtype)
    # float64 has too few digits to tell for itself.
    limit = (mp.mpf(2) - mp.mpf(2) ** -(np.finfo(dtype).nmant + 1)) * mp.mpf(2) ** (
        np.finfo(dtype).maxexp - 1
    )
    wanted = [bool(mp.exp(mp.mpf(float(value))) >= limit) for value in x]
    assert np.isinf(apply(loops("exp"), x)).tolist() == wanted


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_remainder_agrees_with_the_vector_body(loops, name, dtype):
    rng = np.random.default_rng(7)
    x = (rng.normal(0, 1, 67) * 2.0 ** rng.integers(-6, 7, 67)).astype(dtype)
    loop = loops(name)
    single = np.concatenate([apply(loop, x[i : i + 1]) for i in range(x.size)])
    for length in range(1, x.size + 1):
        assert apply(loop, x[:length]).tobytes() == single[:length].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*SPLIT, *SPLIT_GATES])
def test_split_form_is_three_normal_factors(split_loops, name, dtype):
    z = knees(dtype) if dtype == np.float64 else dense_singles()
    z = z[~np.isnan(z)]
    q, s1, s2, _, _ = split_loops(name)(z, z, z)
    tiny = np.finfo(dtype).tiny
    # e^z overflows, and q with it, where the least operand could not bring it back.
    beyond = z > (175.5 if dtype == np.float32 else 1417.5)
    assert (q[beyond] == (np.inf if name == "exp" else q[beyond])).all()
    within = q[~beyond] if name == "exp" else q
    assert ((np.abs(within) >= tiny) & (np.abs(within) <= 1)).all()
    for factor in (s1, s2):
        mantissa, _ = np.frexp(factor[s2 != 0])
        assert (mantissa == 0.5).all()
        assert (factor[s2 != 0] >= tiny).all()
    at_infinity = split_loops(name)(*[np.array([-np.inf], dtype)] * 3)
    assert at_infinity[2] == 0


@pytest.mark.parametrize("name", [*SPLIT, *SPLIT_GATES])
@np.errstate(all="ignore")
def test_float32_products_keep_the_digits_of_the_tail(split_loops, name):
    z = dense_singles()
    z = z[np.isfinite(z)]
    a = np.random.default_rng(3).permutation(z)
    reference = SPLIT_GATES.get(name) or REFERENCES[name].double
    factor = reference(z.astype(np.float64))
    bound = 4.5 if name in SPLIT_GATES else 3
    for first in (z, a):
        _, _, s2, once, twice = split_loops(name)(z, first, z)
        wide = first.astype(np.float64)
        # exp grows: there a subnormal q·a has lost what the powers of two would need.
        kept = (s2 != 0) & ((factor <= 1) | (np.abs(wide) > 1e-30))
        assert spacings_off(once, wide * factor)[kept].max() <= bound
        product = wide * factor * z
        # Of two operands the second must not be what brings a subnormal partial product back.
        kept &= (np.abs(z) < 1e3) & (np.abs(wide) > 1e-30) & (np.abs(wide) < 1e30)
        assert spacings_off(twice, product)[kept].max() <= bound + 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*SPLIT, *SPLIT_GATES])
def test_saturated_factor_gives_zero_for_anything_but_nan(split_loops, name, dtype):
    a, b = np.array(
        list(itertools.product([-np.inf, -1, 0, np.inf, np.nan], repeat=2)), dtype
    ).T.copy()
    for z in (-np.inf, np.finfo(dtype).min):
        *_, once, twice = split_loops(name)(np.full_like(a, z), a, b)
        np.testing.assert_array_equal(once, np.where(np.isnan(a), np.nan, 0))
        np.testing.assert_array_equal(twice, np.where(np.isnan(a) | np.isnan(b), np.nan, 0))
    *_, once, twice = split_loops(name)(np.full_like(a, np.nan), a, b)
    assert np.isnan(once).all()
    assert np.isnan(twice).all()


def test_minimum_and_maximum_let_nan_through():
    @numba.njit
    def both(x, y):
        return maths.minimum(x, y), maths.maximum(x, y)

    for dtype in DTYPES:
        one, two, nan = dtype(1), dtype(2), dtype(np.nan)
        assert both(one, two) == (1, 2)
        assert np.isnan(both(one, nan)).all()
        assert np.isnan(both(nan, one)).all()


on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86 assembly")


def assembly(loop):
    """The instructions of a loop as compiled for contiguous float32 arrays or the like."""
    return loop.inspect_asm(loop.signatures[-1])


def registers(text):
    """How often registers of each width are named."""
    return {width: len(re.findall(rf"%{width}mm\d", text)) for width in "xyz"}


@pytest.fixture(scope="session")
def preferred():
    """The registers that LLVM chooses for the plainest loop on this machine."""

    @numba.njit
    def add(x, o):
        for i in range(x.size):
            o[i] = x[i] + x[i]

    apply(add, np.ones(64, np.float32))
    counts = registers(assembly(add))
    return next(width for width in "zyx" if counts[width])


@on_x86
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_hot_loop_is_packed_and_calls_nothing(loops, preferred, name, dtype):
    run = loops(name).py_func
    fresh = numba.njit(error_model="numpy")(run)
    apply(fresh, np.ones(64, dtype))
    text = assembly(fresh)
    hot = [block for block in re.split(r"(?m)^\.L", text) if re.search(r"\tj[a-z]+\t", block)]
    instruction = re.compile(rf"\tv?(?!v?mov)\w+\t.*%{preferred}mm")
    packed = max(len(instruction.findall(block)) for block in hot)
    plain = name in ("abs", "floor", "round", "sqrt", "reciprocal", "rsqrt")
    assert packed >= (1 if plain else 15)
    called = set(re.findall(r"(?:call\w*\s+|movabsq\s+\$)([A-Za-z_]\w*)", text))
    assert not {symbol for symbol in called if hasattr(np, symbol.rstrip("f")) or "erf" in symbol}


@on_x86
def test_related_functions_share_their_exponential_and_division():
    sigmoid, dsigmoid_split = maths.sigmoid, maths.dsigmoid_split
    normal_cdf, normal_pdf_split = maths.normal_cdf, maths.normal_pdf_split

    @numba.njit(error_model="numpy")
    def sigmoids(x, o):
        for i in range(x.size):
            q, s1, s2 = dsigmoid_split(x[i])
            o[i] = sigmoid(x[i]) + sigmoid(-x[i]) * q * s1 * s2

    @numba.njit(error_model="numpy")
    def normals(x, o):
        for i in range(x.size):
            q, s1, s2 = normal_pdf_split(x[i])
            o[i] = normal_cdf(x[i]) + q * s1 * s2

    for loop, divisions in ((sigmoids, 1), (normals, 2)):
        apply(loop, np.ones(64, np.float32))
        blocks = re.split(r"(?m)^\.L", assembly(loop))
        hot = max(blocks, key=lambda block: len(re.findall(r"ps\t.*%[xyz]mm", block)))
        assert len(re.findall(r"\tvdivps|\tdivps", hot)) == divisions
        assert len(re.findall(r"\tvpsrad|\tpsrad", hot)) == 1
