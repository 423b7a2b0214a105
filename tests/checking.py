"""The test of an operator in one call: `check_operator(Case(...))`.

It compares forward and gradients with a plain float64 reference in four precisions (all 65,536 inputs of
the 16-bit ones), the reference's slope with central differences, and bits across lengths, layouts,
thread counts, block sizes, in place and not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import fastgrad
from rounding import DTYPES, as_float64, dtype_name, error_in_ulp, every_16_bit_value, rounded

THREADS = (1, 2, 3, 8)
BLOCK_SIZES = (64, 1000, fastgrad.BLOCK_SIZE)


def _no_amplification(x):
    return 0.0 * x


@dataclass
class Case:
    """An operator with one array operand, and what is right for it.

    Attributes
    ----------
    operator : Operator
    forward : callable
        float64 reference ``forward(x)``.
    terms : callable
        ``terms(x)``: the terms that the slope is a sum of.
    arguments : dict
        Further arguments of the call: parameters, choices.
    ulp, slope_ulp : float
        Error of the value, and of the slope (in ULP of its larger term), in float32 and float64.
    amplification : callable
        ULP more, as a function of x: where an error of the argument is amplified.
    reference_ulp : callable
        ULP of the float64 reference itself, for float64.
    reference_lowest : float
        Below it the float64 reference underflows and cannot judge float64.
    """

    operator: fastgrad.Operator
    forward: Callable
    terms: Callable
    arguments: dict = field(default_factory=dict)
    ulp: float = 4.0
    slope_ulp: float = 5.0
    amplification: Callable = _no_amplification
    reference_ulp: Callable = _no_amplification
    reference_lowest: float = -np.inf

    def slope(self, x):
        with np.errstate(invalid="ignore"):
            return sum(self.terms(x))

    def slope_scale(self, x):
        return sum(map(np.abs, self.terms(x)))

    def call(self, x, **keywords):
        return self.operator(x, **self.arguments, **keywords)

    def grad(self, dy, x, **keywords):
        return self.operator.grad(dy, x, wrt="x", **self.arguments, **keywords)[0]


def check_operator(case: Case) -> None:
    """Everything that holds for every elementwise operator."""
    check_reference(case)
    for dtype in DTYPES:
        check_values(case, dtype)
        check_lengths(case, dtype)
        check_layouts(case, dtype)
        check_threads_and_blocks(case, dtype)
        check_out(case, dtype)
    for dtype in DTYPES[:2]:
        check_every_16_bit_value(case, dtype)


# --- values ---------------------------------------------------------------------------------------


def sample(dtype, seed: int = 0) -> np.ndarray:
    """Both signs, every magnitude down to subnormals, dense around the knees, special values."""
    rng = np.random.default_rng(seed)
    info = np.finfo(np.float32 if np.dtype(dtype).itemsize < 4 else dtype)
    logs = rng.uniform(np.log2(float(info.smallest_subnormal)), np.log2(float(info.max)), 4000)
    parts = [
        np.exp2(logs) * rng.choice([-1.0, 1.0], logs.size),
        rng.normal(0, 3, 20_000),
        rng.uniform(-120, 120, 4000),
        rng.uniform(-1.5, 0.5, 4000),
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e20, -1e20],
    ]
    with np.errstate(over="ignore"):
        return np.concatenate(parts).astype(dtype)


def check_reference(case: Case) -> None:
    """The slope is the derivative: central differences in float64."""
    x = np.linspace(-7, 7, 2000)  # 0 and other whole numbers, the kinks of many, are not among them
    h = 1e-5
    numeric = (case.forward(x + h) - case.forward(x - h)) / (2 * h)
    np.testing.assert_allclose(case.slope(x), numeric, atol=1e-9, rtol=1e-8)
    np.testing.assert_allclose(case.grad(np.ones_like(x), x), numeric, atol=1e-9, rtol=1e-8)


def check_values(case: Case, dtype) -> None:
    x = sample(dtype)
    if dtype is np.float64:
        x = x[~(x < case.reference_lowest) | np.isinf(x)]
    exact_x = as_float64(x)
    y = case.call(x)
    allowed = _allowed(case, dtype, exact_x, case.ulp)
    _compare(case, "forward", y, case.forward(exact_x), x, allowed)
    allowed = _allowed(case, dtype, exact_x, case.slope_ulp)
    slope = case.grad(np.ones_like(x), x)
    _compare(case, "slope", slope, case.slope(exact_x), x, allowed, case.slope_scale(exact_x))
    # dy comes last: where the slope alone is too large for the compute dtype, it cannot bring it back.
    largest = np.finfo(np.float64 if dtype is np.float64 else np.float32).max
    fits = ~(case.slope_scale(exact_x) > largest)
    x, exact_x, allowed = x[fits], exact_x[fits], allowed[fits]
    dy = np.random.default_rng(1).normal(0, 2, x.shape).astype(dtype)
    exact_dy = as_float64(dy)
    with np.errstate(over="ignore"):
        scale = case.slope_scale(exact_x) * np.abs(exact_dy)
        exact = case.slope(exact_x) * exact_dy
    _compare(case, "gradient", case.grad(dy, x), exact, x, allowed + 1 + np.abs(exact_dy), scale)


def _allowed(case: Case, dtype, x: np.ndarray, ulp: float) -> np.ndarray:
    if np.dtype(dtype).itemsize == 2:
        return np.full(x.shape, 1.0)
    with np.errstate(all="ignore"):
        allowed = ulp + case.amplification(x)
        return allowed + case.reference_ulp(x) if dtype is np.float64 else allowed


def _compare(case, what, got, exact, x, allowed, scale=None) -> None:
    assert got.dtype == x.dtype and got.shape == x.shape
    error = error_in_ulp(got, exact, x.dtype, scale)
    wrong = ~(error <= np.where(np.isnan(allowed), np.inf, allowed))
    if wrong.any():
        worst = np.argmax(np.where(wrong, error / allowed, 0))
        raise AssertionError(
            f"{case.operator.__name__} {case.arguments} {dtype_name(x.dtype)} {what}: "
            f"{wrong.sum()} of {x.size} off, worst {error[worst]:.3g} ULP at x = {x[worst]!r}: "
            f"got {got[worst]!r}, exact {exact[worst]!r}"
        )


def check_every_16_bit_value(case: Case, dtype) -> None:
    """Within 1 ULP everywhere, exactly rounded for 99.9 %."""
    x = every_16_bit_value(dtype)
    exact_x = as_float64(x)
    for what, got, exact in (
        ("forward", case.call(x), case.forward(exact_x)),
        ("slope", case.grad(np.ones_like(x), x), case.slope(exact_x)),
    ):
        _compare(case, f"every {what}", got, exact, x, np.full(x.shape, 1.0))
        target = rounded(exact, dtype)
        right = (got == target) | (np.isnan(got) & np.isnan(target))
        assert right.mean() >= 0.999, (
            f"{what}: {right.mean():.5f} of {dtype_name(dtype)} exactly rounded"
        )


# --- bits -----------------------------------------------------------------------------------------


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays hold the same bit patterns, whatever their layouts."""
    unsigned = f"u{a.dtype.itemsize}"
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and np.array_equal(a.view(unsigned), b.view(unsigned))
    )


def pair(shape, dtype, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """dy and x of ordinary values, with a NaN and infinities among them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 4, shape).astype(dtype)
    flat = x.reshape(-1)
    flat[1::97], flat[2::89], flat[3::83] = np.nan, np.inf, -np.inf
    return rng.normal(0, 1, shape).astype(dtype), x


def check_lengths(case: Case, dtype) -> None:
    """Vector body and scalar tail agree."""
    dy, x = pair(67, dtype)
    y, dx = case.call(x), case.grad(dy, x)
    for n in range(68):
        assert same_bits(case.call(x[:n].copy()), y[:n]), n
        assert same_bits(case.grad(dy[:n].copy(), x[:n].copy()), dx[:n]), n


def layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays equal to `array` (3-D) in every layout that NumPy can give one."""
    n, c, s = array.shape
    wide = np.zeros((n, c, 2 * s), array.dtype)
    wide[:, :, ::2] = array
    unaligned = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    unaligned[...] = array
    read_only = array.copy()
    read_only.setflags(write=False)
    found = {
        "C": array.copy(),
        "Fortran": np.asfortranarray(array),
        "transposed": np.ascontiguousarray(array.transpose(2, 0, 1)).transpose(1, 2, 0),
        "reversed": np.ascontiguousarray(array[::-1, :, ::-1])[::-1, :, ::-1],
        "strided": wide[:, :, ::2],
        "sliced": np.pad(array, 1)[1:-1, 1:-1, 1:-1],
        "unaligned": unaligned,
        "read-only": read_only,
    }
    if array.dtype.kind == "f" and array.dtype.byteorder in "=|":
        found["big-endian"] = array.astype(array.dtype.newbyteorder(">"))
    return found


def check_layouts(case: Case, dtype) -> None:
    """Any layout of x, any other of dy: the same bits, dense results, nothing written."""
    dy, x = pair((3, 5, 43), dtype)
    y, dx = case.call(x), case.grad(dy, x)
    for name, own_x in layouts(x).items():
        before = own_x.tobytes()
        got = case.call(own_x)
        assert same_bits(got, y), name
        assert got.dtype == np.dtype(dtype) and got.flags.owndata and got.flags.writeable
        assert got.strides == np.empty_like(own_x, dtype=dtype).strides, name
        for other, own_dy in layouts(dy).items():
            assert same_bits(case.grad(own_dy, own_x), dx), (name, other)
        assert own_x.tobytes() == before, name
    row = np.broadcast_to(x[:1], x.shape)
    assert same_bits(case.call(row), np.broadcast_to(y[:1], y.shape))
    assert same_bits(
        case.grad(np.broadcast_to(dtype(1), x.shape), x), case.grad(np.ones_like(x), x)
    )
    for shape in ((), (0,), (3, 0, 2), (1, 1)):
        own = np.ones(shape, dtype)
        assert case.call(own).shape == case.grad(own, own).shape == shape


@contextlib.contextmanager
def settings(threads: int, block_size: int):
    """Other settings for the time being."""
    old = fastgrad.get_num_threads(), fastgrad.get_block_size()
    fastgrad.set_num_threads(threads)
    fastgrad.set_block_size(block_size)
    try:
        yield
    finally:
        fastgrad.set_num_threads(old[0])
        fastgrad.set_block_size(old[1])


def check_threads_and_blocks(case: Case, dtype) -> None:
    dy, x = pair(100_003, dtype)
    y, dx = case.call(x), case.grad(dy, x)
    for threads in THREADS:
        for block_size in BLOCK_SIZES:
            with settings(threads, block_size):
                assert same_bits(case.call(x), y), (threads, block_size)
                assert same_bits(case.grad(dy, x), dx), (threads, block_size)


def check_out(case: Case, dtype) -> None:
    """`out=` of memory of its own, or exactly an operand, in any layout."""
    dy, x = pair((3, 5, 43), dtype)
    y, dx = case.call(x), case.grad(dy, x)
    for name, out in layouts(np.full_like(x, np.nan)).items():
        if not out.flags.writeable or not out.dtype.isnative:
            continue
        assert case.grad(dy, x, out=out) is out
        assert same_bits(out, dx), name
    for own_dy, own_x in ((dy.copy(), x.copy()), (dy.copy("F"), x.copy("F"))):
        assert same_bits(case.grad(own_dy, own_x, out=own_dy), dx)
        assert same_bits(own_x, x)
        assert same_bits(case.grad(dy, own_x, out=own_x), dx)
    own_x = x.copy()
    assert same_bits(case.call(own_x, out=own_x), y)
