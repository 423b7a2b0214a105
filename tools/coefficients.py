"""Derive the polynomial coefficients of the vector maths with mpmath.

Every table in ``fastgrad/vector_unit/_coefficients.py`` names the call that printed it, like::

    python tools/coefficients.py exp

The fit is a nearly minimax one (Lawson's iteration on a Chebyshev grid) of the relative error of the
function that the table serves. The lowest coefficients are rounded to the precision one at a time
and the others fitted again, so that their rounding costs nothing.
Printed beside them is the maximum relative error of the rounded polynomial in exact arithmetic, for
float32 and for float64.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

import mpmath as mp

mp.mp.dps = 100
GRID = 300
LAWSON_STEPS = 12
#: Coefficients of at most this order are rounded before the others are fitted.
ROUNDED_FIRST = 5
#: Candidates for the point about which a tail is developed.
CENTERS = 400


class Fit(NamedTuple):
    """`target` is approximated on [lower, upper]; `weight` turns its error into a relative one."""

    target: Callable
    weight: Callable
    lower: mp.mpf
    upper: mp.mpf
    degrees: dict[str, int]


def mills(a: mp.mpf) -> mp.mpf:
    """cdf(-a) / exp(-a*a/2), a >= 0."""
    return mp.erfc(a / mp.sqrt(2)) * mp.exp(a * a / 2) / 2


def scaled_erfc(a: mp.mpf) -> mp.mpf:
    """erfc(a) / exp(-a*a), a >= 0."""
    return mp.erfc(a) * mp.exp(a * a)


def gelu_size(v: mp.mpf) -> mp.mpf:
    """The argument a >= 0 for which v = a / (a + 4)."""
    return 4 * v / (1 - v)


def gelu_terms(v: mp.mpf) -> mp.mpf:
    """The sum of the sizes of the terms of GELU's slope, cdf(-a) and a·pdf(a), over exp(-a*a/2)."""
    a = gelu_size(v)
    return mills(a) + a / mp.sqrt(2 * mp.pi)


def tail(name: str, precision: str) -> tuple[Fit, mp.mpf]:
    """function(a) * (a + offset) in v = a/(a + shift) - center, for a in [0, largest]; and the center.

    The center is near the middle of the interval, and such that the value there is nearly a float:
    there the polynomial is its lowest coefficient alone, and nothing makes up for its rounding.
    """
    function = TAIL_FUNCTIONS[name]
    largest, shift, offset, degree = map(mp.mpf, TAILS[name][precision])

    def target(v: mp.mpf) -> mp.mpf:
        a = shift * v / (1 - v)
        return function(a) * (a + offset)

    def miss(v: mp.mpf) -> mp.mpf:
        return abs(rounded(target(v), precision) - target(v))

    upper = largest / (largest + shift)
    start, unit = rounded(upper / 2, precision), mp.mpf(2) ** -SIGNIFICANT_BITS[precision]
    center = min((start + i * unit for i in range(CENTERS)), key=miss)

    def centered(v: mp.mpf) -> mp.mpf:
        return target(v + center)

    degrees = {precision: int(degree)}
    return Fit(centered, lambda v: 1 / centered(v), -center, upper - center, degrees), center


def tanhshrink(x: mp.mpf) -> mp.mpf:
    """(x - tanh(x)) / x**3."""
    return (x - mp.tanh(x)) / x**3 if x > mp.mpf(10) ** -30 else mp.mpf(1) / 3


def divided(function: Callable, terms: Callable, order: int, at: Callable) -> Callable:
    """(function(x) - its first terms) / x**order, by its Taylor value `at` where x is tiny."""

    def target(x: mp.mpf) -> mp.mpf:
        return at(x) if abs(x) < mp.mpf(10) ** -18 else (function(x) - terms(x)) / x**order

    return target


#: Where GELU's tail is developed: near the middle of its interval, where no terms cancel.
GELU_CENTER = mp.mpf("0.4375")
HALF_LN2 = mp.log(2) / 2 + mp.mpf(2) ** -12
TWO_OVER_SQRT_PI = 2 / mp.sqrt(mp.pi)

SIGNIFICANT_BITS = {"float32": 24, "float64": 53}
DIGITS = {"float32": 10, "float64": 18}

FITS = {
    "exp": Fit(
        divided(mp.exp, lambda r: 1 + r, 2, lambda r: mp.mpf(1) / 2 + r / 6),
        lambda r: r * r / mp.exp(r),
        -HALF_LN2,
        HALF_LN2,
        {"float32": 4, "float64": 10},
    ),
    "log": Fit(
        divided(mp.log1p, lambda f: f - f * f / 2, 3, lambda f: mp.mpf(1) / 3 - f / 4),
        lambda f: f * f * f / mp.log1p(f) if f else mp.mpf(0),
        1 / mp.sqrt(2) - 1 - mp.mpf(2) ** -12,
        mp.sqrt(2) - 1 + mp.mpf(2) ** -12,
        {"float32": 7, "float64": 18},
    ),
    "atanh": Fit(
        # of u = s*s; relative to atanh(s)/s
        lambda u: (
            (mp.atanh(mp.sqrt(u)) / mp.sqrt(u) - 1) / u if u > mp.mpf(10) ** -30 else mp.mpf(1) / 3
        ),
        lambda u: u,
        mp.mpf(0),
        mp.mpf(1) / 9 + mp.mpf(2) ** -12,
        {"float32": 3, "float64": 9},
    ),
    "atanh_tail": Fit(
        # of z = s*s; relative to atanh(s)/s
        lambda z: (
            (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1 - z / 3) / z**2
            if z > mp.mpf(10) ** -15
            else mp.mpf(1) / 5 + z / 7
        ),
        lambda z: z**2,
        mp.mpf(0),
        (mp.sqrt(2) - 1) ** 4 + mp.mpf(2) ** -12,
        {"float32": 2, "float64": 8},
    ),
    "sin": Fit(
        # of z = r*r
        lambda z: (
            (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z if z > mp.mpf(10) ** -30 else -mp.mpf(1) / 6
        ),
        lambda z: z,
        mp.mpf(0),
        (mp.pi / 4 + mp.mpf(2) ** -12) ** 2,
        {"float32": 2, "float64": 6},
    ),
    "cos": Fit(
        # of z = r*r
        lambda z: (
            (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > mp.mpf(10) ** -20 else mp.mpf(1) / 24
        ),
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
        mp.mpf(0),
        (mp.pi / 4 + mp.mpf(2) ** -12) ** 2,
        {"float32": 2, "float64": 6},
    ),
    "erf": Fit(
        # of s = x*x
        lambda s: (mp.erf(mp.sqrt(s)) / mp.sqrt(s) if s else TWO_OVER_SQRT_PI) - 1,
        lambda s: mp.sqrt(s) / mp.erf(mp.sqrt(s)) if s else 1 / TWO_OVER_SQRT_PI,
        mp.mpf(0),
        mp.mpf("0.75") ** 2,
        {"float32": 5, "float64": 11},
    ),
    "tanhshrink": Fit(
        # of x*x - 1
        lambda y: tanhshrink(mp.sqrt(y + 1)),
        lambda y: 1 / tanhshrink(mp.sqrt(y + 1)),
        mp.mpf(-1),
        mp.mpf("1.4") ** 2 - 1,
        {"float32": 9, "float64": 22},
    ),
    "gelu": Fit(
        # of v = a/(a + 4) - GELU_CENTER
        lambda v: mills(gelu_size(v + GELU_CENTER)) * (gelu_size(v + GELU_CENTER) + 4),
        lambda v: 1 / (mills(gelu_size(v + GELU_CENTER)) * (gelu_size(v + GELU_CENTER) + 4)),
        -GELU_CENTER,
        mp.mpf(39) / 43 - GELU_CENTER,
        {"float32": 10, "float64": 22},
    ),
    "gelu_slope": Fit(
        # of v = a/(a + 4)
        lambda v: (mills(gelu_size(v)) - mp.mpf(1) / 2) / v if v else -4 / mp.sqrt(2 * mp.pi),
        lambda v: v / gelu_terms(v),
        mp.mpf(0),
        mp.mpf(39) / 43,
        {"float32": 8, "float64": 19},
    ),
}
TAIL_FUNCTIONS = {"mills": mills, "erfc": scaled_erfc}
#: The largest argument, the shift, the offset and the degree.
TAILS = {
    "mills": {"float32": (18.8, 3.5, 1.0, 9), "float64": (53.3, 6.0, 1.0, 22)},
    "erfc": {"float32": (13.3, 2.5, 0.75, 9), "float64": (37.7, 4.0, 0.75, 22)},
}


def fit(job: Fit, precision: str) -> tuple[list, mp.mpf]:
    """Return the rounded coefficients, lowest order first, and the maximum error on the grid."""
    middle, radius = (job.upper + job.lower) / 2, (job.upper - job.lower) / 2
    points = [middle - radius * mp.cos(mp.pi * (i + 0.5) / GRID) for i in range(GRID)]
    target = [job.target(x) for x in points]
    weight = [job.weight(x) for x in points]
    degree = job.degrees[precision]
    fixed: list = []
    for order in range(min(ROUNDED_FIRST, degree) + 1):
        rest = [y - sum(c * x**k for k, c in enumerate(fixed)) for x, y in zip(points, target)]
        free = least_maximum(points, rest, weight, range(order, degree + 1))
        fixed.append(rounded(free[0], precision))
    fixed += [rounded(value, precision) for value in free[1:]]
    error = max(
        abs((mp.polyval(fixed[::-1], x) - y) * w) for x, y, w in zip(points, target, weight)
    )
    return fixed, error


def least_maximum(points: Sequence, target: Sequence, weight: Sequence, orders: range) -> list:
    """Return the coefficients of these powers whose largest weighted error is (nearly) least.

    Lawson's iteration: least squares, whose weights then grow where the error is large.
    """
    columns = [[w * x**order for x, w in zip(points, weight)] for order in orders]
    wanted = [w * y for y, w in zip(target, weight)]
    density = [mp.mpf(1)] * len(points)
    best, least = [], mp.inf
    for _ in range(LAWSON_STEPS):
        dense = [[d * v for d, v in zip(density, column)] for column in columns]
        gram = mp.matrix([[mp.fdot(p, q) for q in columns] for p in dense])
        found = list(mp.lu_solve(gram, mp.matrix([mp.fdot(p, wanted) for p in dense])))
        error = [abs(mp.fdot(found, row) - y) for *row, y in zip(*columns, wanted)]
        largest = max(error)
        if largest < least:
            best, least = found, largest
        density = [d * e / largest + mp.mpf(10) ** -12 for d, e in zip(density, error)]
    return best


def rounded(value: mp.mpf, precision: str) -> mp.mpf:
    """Round to the nearest float of the precision."""
    if value == 0:
        return value
    _, exponent = mp.frexp(value)
    unit = mp.mpf(2) ** (exponent - SIGNIFICANT_BITS[precision])
    return mp.nint(value / unit) * unit


def block(name: str) -> str:
    """Return the definitions of one table as they stand in ``_coefficients.py``."""
    errors, tables, shifts, offsets, centers, values = [], [], [], [], [], []
    for precision, digits in DIGITS.items():
        if name in TAILS:
            job, center = tail(name, precision)
            shifts.append(str(TAILS[name][precision][1]))
            offsets.append(str(TAILS[name][precision][2]))
            centers.append(decimal(center, digits))
        else:
            job = FITS[name]
        coefficients, error = fit(job, precision)
        if name in TAILS:
            values.append(decimal(coefficients.pop(0), digits))
        errors.append(mp.nstr(error, 2))
        tables.append("".join(f"        {decimal(c, digits)},\n" for c in coefficients[::-1]))
    lines = [f"#: tools/coefficients.py {name}: relative error {errors[0]} and {errors[1]}."]
    if name in TAILS:
        lines.append(f"{name.upper()}_SHIFT = pair({', '.join(shifts)})")
        lines.append(f"{name.upper()}_OFFSET = pair({', '.join(offsets)})")
        lines.append(f"{name.upper()}_CENTER = pair({', '.join(centers)})")
        lines.append(f"{name.upper()}_AT_CENTER = pair({', '.join(values)})")
    body = "".join(f"    (\n{rows}    ),\n" for rows in tables)
    return "\n".join([*lines, f"{name.upper()} = table(\n{body})\n"])


def decimal(value: mp.mpf, digits: int) -> str:
    return mp.nstr(value, digits, min_fixed=-4, max_fixed=6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join([*FITS, *TAILS])}; default: all")
    names = parser.parse_args().names or [*FITS, *TAILS]
    for name in names:
        print(block(name), flush=True)


if __name__ == "__main__":
    main()
