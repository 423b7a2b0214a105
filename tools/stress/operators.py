"""Random operators on random arrays: bits beside a plain call's, values beside the reference.

An episode has one operator and calls its kernels with operands and results in every layout, with any number
of threads, size of a tile and of the last cache. Each call is compared, bit for bit, with one on contiguous
copies, by one thread, in tiles of the usual size, and that one with the reference. Only a NaN's sign is
nobody's business: of two NaNs a processor keeps the first, and LLVM puts which it likes first.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fastgrad
from fastgrad.runtime import tiling

from .arrays import DTYPES, Rng, bits, blank, contiguous, describe, operand, shape_of, surroundings
from .balls import Ball
from .duals import MATHS, reference
from .judge import Fault, check_slopes, check_sum, check_values, compute_of
from .programs import Program, random_program

THREADS, BLOCKS, CACHES = (1, 2, 3, 8), (64, 1000, 2048, 1 << 20), (1 << 14, 1 << 25)
#: Calls of each kernel; lanes that are compared with the reference, where no sum needs them all.
CALLS, LANES = 12, 20_000


def episode(rng: Rng, seconds: float) -> Counter[str]:
    """Calls of one operator, kernel by kernel, until they have taken the time; compiling is not counted."""
    program, done, spent = random_program(rng), Counter[str](), 0.0
    points = {name: rng.normal(0, 1.5, 50) for name in (*program.arrays, *program.parameters)}
    try:
        done["slopes"] = check_slopes(program, points)
        operator = program.operator()
        for dtype, kernel in itertools.product(_some(rng, DTYPES, 2), _kernels(rng, program)):
            for index in range(CALLS):
                start = time.process_time()
                done += Call.random(rng, program, kernel, dtype).check(operator)
                spent += time.process_time() - start if index else 0
                if spent > seconds:
                    return done
    except Exception as error:
        error.add_note(program.text)
        raise
    return done


@dataclass(frozen=True)
class Kernel:
    """The forward one, or that of some gradients, with some parameters one a channel."""

    wrt: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()


def _some(rng: Rng, choices: Any, count: int) -> list[Any]:
    return [choices[index] for index in rng.permutation(len(choices))[:count]]


def _kernels(rng: Rng, program: Program) -> list[Kernel]:
    names = (*program.arrays, *program.parameters)
    channels = [tuple(n for n in program.parameters if rng.random() < 0.4) for _ in range(3)]
    wrts = [(), *(tuple(_some(rng, names, int(rng.integers(1, len(names) + 1)))) for _ in range(2))]
    return _some(rng, list(map(Kernel, wrts, channels)), 3)


@contextlib.contextmanager
def _settings(threads: int, block_size: int, cache: int) -> Iterator[None]:
    known = tiling.last_level_cache
    fastgrad.set_num_threads(threads)
    fastgrad.set_block_size(block_size)
    # A function that remembers its result, to mypy of another type.
    tiling.last_level_cache = lambda: cache  # type: ignore[assignment]
    try:
        yield
    finally:
        tiling.last_level_cache = known


@dataclass
class Call:
    """Operands, results and settings of one call."""

    program: Program
    kernel: Kernel
    dtype: np.dtype
    arrays: dict[str, np.ndarray]
    parameters: dict[str, Any]
    axis: int | None
    outs: list[np.ndarray | None] = field(default_factory=list)
    settings: tuple[int, int, int] = (1, fastgrad.BLOCK_SIZE, 1 << 30)

    @classmethod
    def random(cls, rng: Rng, program: Program, kernel: Kernel, dtype: np.dtype) -> Call:
        shape = shape_of(rng, least_axes=bool(kernel.channels))
        special = float(rng.choice([0, 0, 0.02]))
        names = (*(["dy"] if kernel.wrt else []), *program.arrays)
        arrays = {name: operand(rng, shape, dtype, special) for name in names}
        if rng.random() < 0.1:
            arrays[names[-1]] = arrays[names[0]]
        axis = int(rng.integers(-len(shape), len(shape))) if kernel.channels else None
        parameters = {
            name: operand(rng, (shape[axis],), DTYPES[rng.integers(4)], 0)
            if axis is not None and name in kernel.channels
            else float(rng.choice([1.0, -0.7, 1.702, rng.normal()]))
            for name in program.parameters
        }
        threads, block_size, cache = (int(rng.choice(own)) for own in (THREADS, BLOCKS, CACHES))
        settings = (threads, block_size, cache)
        call = cls(program, kernel, dtype, arrays, parameters, axis, [], settings)
        call.outs = call._random_outs(rng, shape)
        return call

    @property
    def full(self) -> list[str]:
        """The results of full shape, in the order in which `out` takes them."""
        return (
            [n for n in self.kernel.wrt if n in self.program.arrays] if self.kernel.wrt else ["y"]
        )

    def _random_outs(self, rng: Rng, shape: tuple[int, ...]) -> list[np.ndarray | None]:
        """For each result none, memory of its own, or exactly an operand."""
        possible = [
            a for a in self.arrays.values()
            if a.flags.writeable and a.dtype.isnative and (0 not in a.strides or 0 in a.shape)
        ]  # fmt: skip
        outs: list[np.ndarray | None] = []
        for _ in self.full:
            free = [a for a in possible if not any(a is out for out in outs)]
            kind = rng.integers(3)
            if kind == 0 or (kind == 2 and not free):
                outs.append(None)
            elif kind == 1:
                outs.append(blank(rng, shape, self.dtype, is_result=True))
            else:
                outs.append(free[rng.integers(len(free))])
        return outs

    def plain(self) -> Call:
        """The same on contiguous copies, by one thread, in tiles of the usual size."""
        arrays = {name: contiguous(array) for name, array in self.arrays.items()}
        return Call(self.program, self.kernel, self.dtype, arrays, self.parameters, self.axis)

    def run(self, operator: Any) -> dict[str, Any]:
        """The results by name."""
        keywords: dict[str, Any] = dict(self.parameters)
        if self.program.parameters:
            keywords["axis"] = self.axis
        outs = self.outs if any(out is not None for out in self.outs) else None
        with _settings(*self.settings):
            if not self.kernel.wrt:
                out = outs[0] if outs else None
                return {"y": operator(*self.arrays.values(), **keywords, out=out)}
            keywords["out"] = tuple(outs) if outs else None
            results = operator.grad(*self.arrays.values(), **keywords, wrt=self.kernel.wrt)
        return dict(zip(self.kernel.wrt, results, strict=True))

    def check(self, operator: Any) -> Counter[str]:
        """Run it and its plain form, and compare.

        Raises
        ------
        Fault
            If a bit is another one, something else was written, or a value is wrong.
        """
        try:
            plain = self.plain()
            expected = plain.run(operator)
            self._check_bits(operator, expected)
            return Counter(calls=1, values=plain._check_values(expected))
        except Exception as error:
            error.add_note(str(self))
            raise

    def _check_bits(self, operator: Any, expected: dict[str, Any]) -> None:
        before = {name: bits(array) for name, array in self.arrays.items()}
        around = [surroundings(out) for out in self.outs if out is not None]
        got = self.run(operator)
        for name, result in expected.items():
            if difference := _difference(got[name], result):
                raise Fault(f"bits of the result {name}: {difference}")
        for name, out in zip(self.full, self.outs, strict=True):
            if out is not None and got[name] is not out:
                raise Fault(f"the result {name} is not its out")
        if around != [surroundings(out) for out in self.outs if out is not None]:
            raise Fault("memory around a result was written")
        for name, array in self.arrays.items():
            if not any(array is out for out in self.outs) and bits(array) != before[name]:
                raise Fault(f"the operand {name} was written")

    def _check_values(self, results: dict[str, Any]) -> int:
        """Compare with the reference; returns how many values it could judge."""
        compute, size = compute_of(self.dtype), next(iter(self.arrays.values())).size
        summed = [name for name in self.kernel.wrt if name in self.program.parameters]
        few = size <= LANES or (summed and self.dtype != np.float64)
        lanes = np.arange(size) if few else np.random.default_rng(size).integers(0, size, LANES)
        operands = {n: np.asarray(v).reshape(-1)[lanes] for n, v in self._spread().items()}
        names = {n: v for n, v in operands.items() if n != "dy"}
        found = reference(self.program.function(MATHS), names, self.kernel.wrt, compute)
        judged = 0
        for name, result in results.items():
            ball = self._ball(found, name, operands)
            if name in self.full:
                got = np.asarray(result).reshape(-1)[lanes]
                judged += check_values(got, ball, self.dtype, operands)
            elif few and not isinstance(result, np.ndarray):
                judged += check_sum(result, ball, size)
        return judged

    def _spread(self) -> dict[str, np.ndarray]:
        """Every operand in full shape, in the order of the arrays' elements."""
        shape = next(iter(self.arrays.values())).shape
        compute = np.float64 if self.dtype == np.float64 else np.float32
        spread = dict(self.arrays)
        for name, value in self.parameters.items():
            values = np.asarray(value).astype(compute)
            if isinstance(value, np.ndarray) and self.axis is not None:
                values = np.moveaxis(values.reshape(-1, *[1] * (len(shape) - 1)), 0, self.axis)
            spread[name] = np.broadcast_to(values, shape)
        return spread

    @staticmethod
    def _ball(found: Any, name: str, operands: dict[str, np.ndarray]) -> Ball:
        if name == "y":
            return found.ball
        compute = found.ball.compute
        slope = found.slopes.get(name)
        if slope is None or (slope.value.ndim == 0 and slope.value == 0):
            return Ball.exact(0.0, compute)  # whatever dy is: the operand has no influence
        with np.errstate(all="ignore"):
            return slope * Ball.exact(operands["dy"], compute)

    def __str__(self) -> str:
        operands = {**self.arrays, **self.parameters}
        lines = [f"{name}: {describe(value)}" for name, value in operands.items()]
        for name, out in zip(self.full, self.outs):
            same = next((n for n, a in self.arrays.items() if a is out), "")
            lines.append(f"out of {name}: {same or describe(out)}")
        lines.append(f"{self.dtype} {self.kernel} axis={self.axis}")
        lines.append("threads, block size, last cache: {}, {}, {}".format(*self.settings))
        return "\n".join(lines)


def _difference(got: Any, expected: Any) -> str:
    """What is not the same in two results; empty if nothing is."""
    a, b = _one_nan(got), _one_nan(expected)
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{describe(a)} instead of {describe(b)}"
    a, b = a.reshape(-1), b.reshape(-1)
    where = np.flatnonzero(a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}"))
    if not where.size:
        return ""
    first = where[0]
    values = f"{a[first]!r} instead of {b[first]!r}"
    return f"{where.size} of {a.size} differ, the first at {first}: {values}"


def _one_nan(result: Any) -> np.ndarray:
    """A contiguous copy in which every NaN is the same."""
    array = contiguous(np.asarray(result))
    array[np.isnan(array)] = np.nan
    return array
