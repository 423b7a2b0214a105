"""`check`: whether an operator is what its maths says, in all precisions and layouts, with a table.

The yardstick of the values is the operator itself in float64; of its gradients, central differences of that.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..program.row_program import FULL
from ..runtime import threads, tiling
from ..vector_unit.precision import PRECISIONS
from ._loss_operator import LossOperator
from ._operator import Operator
from ._row_operator import RowOperator
from ._seeded_operator import SeededOperator
from ._variants import LossVariants

__all__ = ["Checked", "Row", "check"]

#: Shape of the arrays that are checked, and of those whose bits are compared on several threads.
_SHAPE, _LARGE = (7, 5, 33), (301, 257)
_STEP = 1e-5
#: What a difference quotient in float64 is good for, as a part of what it is a difference of.
_QUOTIENT = 2e-6
#: Errors in ULP, of the compute dtype, beyond those that the rounding of the operands explains.
_SPARE_ULP = 64.0


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    what : str
        What was checked.
    ok : bool
        Whether it holds.
    found : str
        The largest error, the number of kinks, or where it does not hold.
    """

    what: str
    ok: bool
    found: str


@dataclass(frozen=True)
class Checked:
    """What `check` found.

    Attributes
    ----------
    name : str
        The operator.
    rows : tuple of Row
    """

    name: str
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return all(row.ok for row in self.rows)

    def raise_if_failed(self) -> None:
        """Raise an `AssertionError` that names what does not hold."""
        if not self.ok:
            raise AssertionError(f"{self.name} does not pass its check:\n{self}")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "operator": self.name,
            "ok": self.ok,
            "rows": [dataclasses.asdict(row) for row in self.rows],
        }

    def __str__(self) -> str:
        width = max(len(row.what) for row in self.rows)
        lines = [
            f"{'ok  ' if row.ok else 'FAIL'}  {row.what:{width}}  {row.found}" for row in self.rows
        ]
        return "\n".join([f"{self.name}: {'passes' if self.ok else 'FAILS'}", *lines])


def check(
    op: Any,
    *,
    domain: tuple[float, float] = (-6.0, 6.0),
    dtypes: Sequence[Any] | None = None,
    seed: int = 0,
    verbose: bool = True,
    **static: str,
) -> Checked:
    """Check an operator: its gradients, precisions, special values, layouts, threads.

    Parameters
    ----------
    op : Operator, LossOperator, RowOperator
        One of the library's, or one made by `elementwise`, `loss`, `seeded` or `rowwise`.
    domain : (float, float)
        Where the maths is defined: operands are drawn from it. ``(0.01, 5)`` for one with a logarithm.
    dtypes : sequence of dtype, optional
        Of float16, bfloat16, float32 and float64; by default all.
    seed : int
        Of the operands.
    verbose : bool
        Whether to print the table, by `rich` where it is installed.
    **static : str
        Arguments that choose a program, ``approximate="tanh"``.

    Returns
    -------
    Checked
        ``.ok``, ``.rows``, ``.as_dict()``, ``.raise_if_failed()``.

    Notes
    -----
    *Derivatives*: of every operand, parameters too, against central differences in float64; where the
    differences to the left and to the right are two, there is a kink, which is counted and left out.
    *Precisions*: against the operator in float64; 16-bit results within 1 ULP of it, rounded once. A float32
    result may be off by what the rounding of the operands and 64 roundings on the way explain.
    *Special values*: a NaN stays, and alone; an infinity gives its limit and changes nothing beside it.
    *Layouts, threads, block sizes, in place, again*: the same bits.

    Raises
    ------
    TypeError
        If `op` is no operator.

    Examples
    --------
    >>> fastgrad.check(fastgrad.silu, verbose=False).ok
    True
    """
    if isinstance(op, LossVariants):
        op = op.operators[0]
    if not isinstance(op, Operator | RowOperator):
        raise TypeError(f"check takes an operator of fastgrad, got {type(op).__name__}")
    names = [np.dtype(np.float64 if dtype is None else dtype) for dtype in dtypes or PRECISIONS]
    subject = _Subject(op, domain, seed, static)
    found = Checked(op.__name__, tuple(_rows(subject, names)))
    if verbose:
        _print(found)
    return found


def _rows(subject: _Subject, dtypes: Sequence[np.dtype]) -> Iterator[Row]:
    for name in subject.names:
        yield _derivative(subject, name)
    for dtype in dtypes:
        yield _precision(subject, dtype)
    if subject.is_elementwise:
        for dtype in dtypes:
            yield _special_values(subject, dtype)
    for dtype in dtypes:
        yield _layouts(subject, dtype)
        yield _in_place(subject, dtype)
        yield _settings(subject, dtype)


class _Subject:
    """The operator, with operands for it."""

    def __init__(
        self, op: Operator | RowOperator, domain: tuple[float, float], seed: int, static: dict
    ):
        self.op, self._domain, self._seed, self._static = op, domain, seed, static
        self.is_elementwise = isinstance(op, Operator)
        self._options: dict[str, Any] = dict(static)
        if isinstance(op, LossOperator):
            self._options["reduction"] = "none"
        if isinstance(op, SeededOperator):
            self._options["seed"] = 7
        if isinstance(op, Operator):
            self.arrays: tuple[str, ...] = op.arrays
            self.numbers = {name: op.defaults[name] for name in op.parameters}
        else:
            self.arrays = op.kernels.arrays
            self.numbers = {}
        #: Whose gradients are checked; the probability of a dropout has none.
        self.names = (
            self.arrays if isinstance(op, SeededOperator) else (*self.arrays, *self.numbers)
        )

    def operands(self, shape: tuple[int, ...], dtype: Any) -> tuple[np.ndarray, ...]:
        """Arrays from the domain, then the gradient of the result."""
        rng = np.random.default_rng(self._seed)
        low, high = self._domain
        arrays = [rng.uniform(low, high, shape).astype(dtype) for _ in self.arrays]
        return (*arrays, rng.normal(0, 1, shape).astype(dtype))

    def call(self, arrays: Sequence[np.ndarray], **changes: Any) -> np.ndarray:
        result = self.op(*arrays, **{**self._named(), **changes})
        return result[0] if isinstance(result, tuple) else result

    def gradients(
        self, dy: np.ndarray, arrays: Sequence[np.ndarray], wrt: Any = None, **options: Any
    ) -> tuple:
        return self.op.grad(
            self._dy(dy), *arrays, wrt=wrt or self.arrays, **self._named(), **options
        )

    def _dy(self, dy: np.ndarray) -> Any:
        """The gradient of the first of several results, 0 of the others."""
        if isinstance(self.op, Operator):
            return dy
        others = len(self.op.program.named(FULL)) - 1
        return (dy, *[np.zeros_like(dy)] * others) if others else dy

    def _named(self) -> dict[str, Any]:
        return {**self.numbers, **self._options}


# --- Gradients ------------------------------------------------------------------------------------


def _derivative(subject: _Subject, name: str) -> Row:
    *arrays, dy = subject.operands(_SHAPE, np.float64)
    dy = np.ones_like(dy) if subject.is_elementwise else dy
    (got,) = subject.gradients(dy, arrays, (name,))
    if name in subject.numbers:
        return _compared_number(subject, name, arrays, dy, float(got))
    place = subject.arrays.index(name)
    if not subject.is_elementwise:
        return _compared_rows(subject, name, arrays, dy, np.asarray(got))
    x, here = arrays[place], subject.call(arrays)
    right, left = _quotients(subject, arrays, place, here, _STEP)
    middle, scale = (right + left) / 2, np.abs(right) + np.abs(left) + np.abs(here) + 1.0
    # What the two sides differ by is a 16th where the step is, unless there is a kink within it.
    near_right, near_left = _quotients(subject, arrays, place, here, _STEP / 16)
    jump, near_jump = np.abs(right - left), np.abs(near_right - near_left)
    is_smooth = (jump < 1e-7 * scale) | ((near_jump < jump / 4) & (near_jump > jump / 64))
    kink = ~is_smooth
    error = np.where(kink, 0.0, np.abs(got - middle) / scale)
    ok = bool((error < _QUOTIENT * 50).all())
    kinks = f", {int(kink.sum())} kinks" if kink.any() else ""
    worst = np.unravel_index(int(np.nanargmax(error)), error.shape)
    where = "" if ok else f" at {name} = {x[worst]:.6g}: {got[worst]:.6g}, not {middle[worst]:.6g}"
    return Row(f"derivative by {name}", ok, f"off by {error.max():.1e} of its terms{kinks}{where}")


def _quotients(
    subject: _Subject, arrays: Sequence[np.ndarray], place: int, here: np.ndarray, step: float
) -> list[np.ndarray]:
    """Difference quotients to the right and to the left."""
    x, found = arrays[place], []
    steps = step * np.maximum(np.abs(x), 1.0)
    for side in (1.0, -1.0):
        moved = list(arrays)
        moved[place] = x + side * steps
        found.append((subject.call(moved) - here) / (moved[place] - x))
    return found


def _compared_number(
    subject: _Subject, name: str, arrays: Sequence[np.ndarray], dy: np.ndarray, got: float
) -> Row:
    value = subject.numbers[name]
    step = _STEP * max(abs(value), 1.0)
    terms = [
        subject.call(arrays, **{name: value + side * step}) * dy * side / (2 * step)
        for side in (1.0, -1.0)
    ]
    total, size = np.sum(terms[0] + terms[1]), np.sum(np.abs(terms[0] + terms[1])) + 1.0
    error = abs(got - total) / size
    text = f"off by {error:.1e} of its terms" + ("" if error < 1e-4 else f": {got}, not {total}")
    return Row(f"derivative by {name}", bool(error < 1e-4), text)


def _compared_rows(
    subject: _Subject, name: str, arrays: Sequence[np.ndarray], dy: np.ndarray, got: np.ndarray
) -> Row:
    """Along some directions: a row is more than its lanes."""
    rng = np.random.default_rng(1)
    place, worst = subject.arrays.index(name), 0.0
    for _ in range(8):
        direction = rng.normal(size=arrays[place].shape)
        ends = []
        for side in (1.0, -1.0):
            moved = list(arrays)
            moved[place] = arrays[place] + side * _STEP * direction
            ends.append(subject.call(moved))
        quotient = np.sum((ends[0] - ends[1]) * dy) / (2 * _STEP)
        size = np.sum(np.abs(got * direction)) + 1e-12
        worst = max(worst, abs(float(np.sum(got * direction) - quotient)) / size)
    return Row(f"derivative by {name}", worst < 1e-5, f"off by {worst:.1e} of its terms")


# --- Values ---------------------------------------------------------------------------------------


def _precision(subject: _Subject, dtype: np.dtype) -> Row:
    """Against the same operands in float64."""
    *arrays, dy = subject.operands(_SHAPE, dtype)
    wide = [array.astype(np.float64) for array in arrays]
    wide_dy = dy.astype(np.float64)
    pairs = [(subject.call(arrays), subject.call(wide))]
    exact = subject.gradients(wide_dy, wide)
    pairs += list(zip(subject.gradients(dy, arrays), exact, strict=True))
    errors = [_error(got, right, dtype, subject, wide) for got, right in pairs]
    ok = all(error <= 1.0 for error in errors)
    unit = "of what is allowed" if dtype.itemsize > 2 else "ULP"
    value, gradient = errors[0], max(errors[1:])
    return Row(f"{dtype} beside float64", ok, f"value {value:.2g}, gradients {gradient:.2g} {unit}")


def _error(
    got: np.ndarray, right: np.ndarray, dtype: np.dtype, subject: _Subject, wide: list
) -> float:
    """16-bit: in ULP. Else as a part of what roundings of terms of the size of the operands explain."""
    error = np.abs(got.astype(np.float64) - right)
    size = np.abs(right)
    if dtype.itemsize > 2:
        spacing = float(np.finfo(dtype).eps)
        terms = size + sum(np.abs(array) for array in wide) + 1.0
        return float((error / (_SPARE_ULP * spacing * terms)).max())
    bits = {"float16": 10, "bfloat16": 7}[dtype.name]
    least = {"float16": 2.0**-24, "bfloat16": 2.0**-133}[dtype.name]
    _, exponent = np.frexp(size)
    spacing = np.maximum(np.ldexp(1.0, exponent - 1 - bits), least)
    # Beside the rounding of the result, float32 on the way, of terms of the size of the operands.
    float32 = _SPARE_ULP * 2.0**-23 * (size + sum(np.abs(array) for array in wide) + 1.0)
    return float(np.nanmax(np.maximum(error - float32, 0) / spacing))


def _special_values(subject: _Subject, dtype: np.dtype) -> Row:
    *arrays, dy = subject.operands((64,), dtype)
    value, gradients = subject.call(arrays), subject.gradients(dy, arrays)
    wrong = []
    for place, name in enumerate(subject.arrays):
        for special, text in ((np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-inf")):
            own = [array.copy() for array in arrays]
            own[place][[5, 40]] = special
            results = [subject.call(own), *subject.gradients(dy, own)]
            others = np.ones(64, bool)
            others[[5, 40]] = False
            for got, right in zip(results, (value, *gradients), strict=True):
                if not _same_bits(got[others], right[others]):
                    wrong.append(f"{text} in {name} changes other elements")
            if special is np.nan and not np.isnan(results[0][[5, 40]]).all():
                wrong.append(f"NaN in {name} is lost in the value")
            slope = results[1 + place][[5, 40]]
            is_lost = special is np.nan and not np.isnan(slope).all()
            if is_lost and _depends_on(subject, name):
                wrong.append(f"NaN in {name} is lost in its gradient")
            is_alone = special is not np.nan and len(subject.arrays) == 1
            if is_alone and np.isnan(results[0][[5, 40]]).any():
                wrong.append(f"{text} gives NaN")
    text = "; ".join(dict.fromkeys(wrong)) or "NaN stays and alone, infinities give their limits"
    return Row(f"{dtype} special values", not wrong, text)


def _depends_on(subject: _Subject, name: str) -> bool:
    """Whether the slope by an operand has that operand in it."""
    assert isinstance(subject.op, Operator)
    nodes = subject.op.trace(wrt=name, **subject._static).nodes
    return any(node.op == "operand" and node.name == name for node in nodes)


# --- Bits -----------------------------------------------------------------------------------------


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    kind = f"u{a.dtype.itemsize}"
    return np.array_equal(np.ascontiguousarray(a).view(kind), np.ascontiguousarray(b).view(kind))


def _in_layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    unaligned = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    unaligned[...] = array
    read_only = array.copy()
    read_only.setflags(write=False)
    return {
        "transposed": np.ascontiguousarray(array.T).T,
        "strided": wide[..., ::2],
        "reversed": np.ascontiguousarray(array[::-1])[::-1],
        "unaligned": unaligned,
        "read-only": read_only,
    }


def _results(subject: _Subject, dy: np.ndarray, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [subject.call(arrays), *subject.gradients(dy, arrays)]


def _differs(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
    return not all(_same_bits(a, b) for a, b in zip(results, expected, strict=True))


def _layouts(subject: _Subject, dtype: np.dtype) -> Row:
    *arrays, dy = subject.operands(_SHAPE, dtype)
    expected = _results(subject, dy, arrays)
    turned = [_in_layouts(array) for array in (*arrays, dy)]
    wrong = []
    for name in turned[0]:
        *own, own_dy = (layouts[name] for layouts in turned)
        before = [array.tobytes() for array in own]
        if _differs(_results(subject, own_dy, own), expected):
            wrong.append(name)
        if before != [array.tobytes() for array in own]:
            wrong.append(f"{name}: an operand was written")
    text = f"other bits when {', '.join(wrong)}" if wrong else f"the same bits in {len(turned[0])}"
    return Row(f"{dtype} layouts", not wrong, text)


def _in_place(subject: _Subject, dtype: np.dtype) -> Row:
    *arrays, dy = subject.operands(_SHAPE, dtype)
    expected = _results(subject, dy, arrays)
    own = [array.copy() for array in arrays]
    gradient = subject.gradients(dy, own, (subject.arrays[0],), out=(own[0],))[0]
    again = _results(subject, dy, arrays)
    ok = _same_bits(gradient, expected[1]) and not _differs(again, expected)
    return Row(f"{dtype} in place, again", ok, "the same bits" if ok else "other bits")


def _settings(subject: _Subject, dtype: np.dtype) -> Row:
    *arrays, dy = subject.operands(_LARGE, dtype)
    expected = _results(subject, dy, arrays)
    before = threads.get_num_threads(), tiling.get_block_size()
    wrong = []
    try:
        for count, size in itertools.product((1, 2, 3), (64, 1000, tiling.BLOCK_SIZE)):
            threads.set_num_threads(count)
            tiling.set_block_size(size)
            if _differs(_results(subject, dy, arrays), expected):
                wrong.append(f"{count} threads, tiles of {size}")
    finally:
        threads.set_num_threads(before[0])
        tiling.set_block_size(before[1])
    text = f"other bits with {'; '.join(wrong)}" if wrong else "the same bits"
    return Row(f"{dtype} threads, block sizes", not wrong, text)


def _print(found: Checked) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(found)
        return
    table = Table(title=f"{found.name}: {'passes' if found.ok else 'FAILS'}", title_justify="left")
    for heading in ("", "checked", "found"):
        table.add_column(heading)
    for row in found.rows:
        table.add_row("[green]ok" if row.ok else "[red]FAIL", row.what, row.found)
    Console().print(table)
