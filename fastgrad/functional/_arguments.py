"""Checking and normalising what a caller hands over, before anything is computed or written."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ..vector_unit.precision import PRECISIONS, Precision

__all__ = [
    "Spread",
    "as_number",
    "as_operand",
    "as_parameter",
    "check_out_alone",
    "check_outs",
    "check_same",
    "choose",
    "native",
    "precision_of",
    "require",
]

_NAMES = ", ".join(precision.name for precision in PRECISIONS.values())
_FRAMEWORKS = {"torch": "fastgrad.torch", "jax": "fastgrad.jax", "jaxlib": "fastgrad.jax",
               "mindspore": "fastgrad.mindspore", "tensorflow": ""}  # fmt: skip
#: Work that NumPy may spend on telling whether two strided arrays overlap.
_OVERLAP_WORK = 100_000


def as_operand(value: Any, name: str) -> np.ndarray:
    """`value` as an array of one of the four precisions, in any layout, without a copy if it is one.

    Raises
    ------
    TypeError
        For integers, complex numbers, objects, masked arrays and tensors of a framework.
    """
    if type(value) is not np.ndarray:
        _refuse_lookalikes(value, name)
        value = np.asarray(value)
    if value.dtype not in PRECISIONS and native(value.dtype) not in PRECISIONS:
        raise TypeError(f"{name} must be {_NAMES}, got {value.dtype}: {_remedy(value, name)}")
    return value


def _refuse_lookalikes(value: Any, name: str) -> None:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose masked elements would be computed on: "
            f"pass {name}.filled(value) and apply the mask to the result"
        )
    origins = [base.__module__.partition(".")[0] for base in type(value).__mro__]
    framework = next((origin for origin in origins if origin in _FRAMEWORKS), "")
    if framework:
        adapter = _FRAMEWORKS[framework]
        by = f"call the same operator in {adapter}, or " if adapter else ""
        raise TypeError(
            f"{name} is a {framework} {type(value).__name__}, whose gradient would be lost: {by}"
            f"pass its values as a NumPy array"
        )


def _remedy(value: np.ndarray, name: str) -> str:
    if value.dtype.kind in "iub":
        return f"pass {name}.astype(np.float32)"
    if value.dtype.kind == "c":
        return f"pass {name}.real and {name}.imag in two calls, if that is what you mean"
    return f"convert it, e.g. np.asarray({name}, np.float64)"


def precision_of(array: np.ndarray) -> Precision:
    """The precision of an array that `as_operand` let through."""
    return PRECISIONS[native(array.dtype)]


def native(dtype: np.dtype) -> np.dtype:
    """`dtype` in native byte order."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def check_same(array: np.ndarray, name: str, reference: np.ndarray, reference_name: str) -> None:
    """Check that `array` has the shape and the dtype (in any byte order) of `reference`.

    Raises
    ------
    ValueError, TypeError
        If it has another shape, another dtype.
    """
    if array.shape != reference.shape:
        raise ValueError(
            f"{name} must have the shape of {reference_name}, {reference.shape}, got {array.shape}"
        )
    if array.dtype is reference.dtype:
        return
    wanted = native(reference.dtype)
    if native(array.dtype) != wanted:
        raise TypeError(
            f"{name} must have the dtype of {reference_name}, {wanted}, got {array.dtype}: "
            f"pass {name}.astype({reference_name}.dtype)"
        )


class Spread:
    """An operand that is spread over the lanes: one element a channel, or an array that is broadcast.

    Attributes
    ----------
    name : str
        The argument's name.
    values : ndarray
        As the caller gave it.
    aligned : ndarray
        The values with as many axes as the result, of length 1 where they are spread.
    """

    __slots__ = ("aligned", "name", "values")

    def __init__(self, name: str, values: np.ndarray, aligned: np.ndarray):
        self.name, self.values, self.aligned = name, values, aligned

    def over(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """The values in `dtype`, as a view of `shape`."""
        return np.broadcast_to(self.aligned.astype(dtype, copy=False), shape)

    def kept(self, shape: tuple[int, ...]) -> frozenset[int]:
        """The axes along which it has elements of its own; its gradient is summed over the others."""
        lengths = enumerate(zip(self.aligned.shape, shape, strict=True))
        return frozenset(axis for axis, (own, length) in lengths if own == length != 1)


def as_parameter(
    value: Any, name: str, axis: int | None, x: np.ndarray, channel_axis: int | None = None
) -> float | Spread:
    """A parameter: a number, or one a channel along `axis` of `x`, by default along `channel_axis`.

    Raises
    ------
    TypeError, ValueError
        If it is neither, if its length is not that of the axis, or if `axis` is missing or wrong.
    """
    if isinstance(value, numbers.Real | np.floating | np.integer):
        _check_axis(axis, x)
        return float(value)
    array = value if type(value) is np.ndarray else _as_parameter_array(value, name)
    if array.dtype.kind not in "fiu" and native(array.dtype) not in PRECISIONS:
        raise TypeError(f"{name} must be a real number or an array of {_NAMES}, got {array.dtype}")
    if array.ndim == 0 or (array.shape == (1,) and axis is None):
        _check_axis(axis, x)
        return float(array.reshape(()))
    if axis is None and channel_axis is not None and channel_axis < x.ndim:
        axis = channel_axis
    return _as_channel(as_operand(array, name), name, axis, x)


def as_number(value: Any, name: str) -> float:
    """One real number: of Python, of NumPy, or an array of one element.

    Raises
    ------
    TypeError, ValueError
        If it is none, or an array of more.
    """
    if isinstance(value, numbers.Real | np.floating | np.integer):
        return float(value)
    array = as_operand(value, name)
    if array.size != 1:
        raise ValueError(f"{name} must be one number, got an array of shape {array.shape}")
    return float(array.reshape(()))


def _as_parameter_array(value: Any, name: str) -> np.ndarray:
    _refuse_lookalikes(value, name)
    if value is None or isinstance(value, str | bytes | complex):
        raise TypeError(
            f"{name} must be a number or an array of one number a channel, "
            f"got {type(value).__name__}: {value!r}"
        )
    return np.asarray(value)


def _as_channel(array: np.ndarray, name: str, axis: int | None, x: np.ndarray) -> Spread:
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be a number or a 1-D array of one number a channel, "
            f"got an array of shape {array.shape}"
        )
    if axis is None:
        raise ValueError(
            f"{name} has {array.size} elements, one a channel: say along which axis of x, "
            f"e.g. axis=1 for NCHW or axis=-1 for channels last"
        )
    own_axis = _check_axis(axis, x)
    assert own_axis is not None
    if array.size != x.shape[own_axis]:
        raise ValueError(
            f"{name} must have one element a channel, {x.shape[own_axis]} along axis {axis} of x "
            f"with shape {x.shape}, got {array.size}"
        )
    aligned = [1] * x.ndim
    aligned[own_axis] = -1
    return Spread(name, array, array.reshape(aligned))


def _check_axis(axis: int | None, x: np.ndarray) -> int | None:
    if axis is None:
        return None
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"axis must be an integer, got {type(axis).__name__}: {axis!r}")
    index = axis.__index__()
    if not -x.ndim <= index < x.ndim:
        raise ValueError(
            f"axis must be in [{-x.ndim}, {x.ndim}) for x of shape {x.shape}, got {axis}"
        )
    return index % x.ndim


def choose(value: Any, name: str, choices: Sequence[str]) -> str:
    """`value`, if it is one of `choices`.

    Raises
    ------
    ValueError
        If it is not.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return str(value)


def require(parameters: Sequence[Any], holds: Callable, message: str) -> None:
    """Check what must hold of parameters, of numbers or of each channel.

    Raises
    ------
    ValueError
        With `message`, formatted with the parameters.
    """
    found = holds(*parameters)
    if found is not True and not np.all(found):
        raise ValueError(message.format(*parameters))


def check_outs(
    outs: Sequence[Any],
    results: Sequence[str],
    x: np.ndarray,
    operands: Sequence[tuple[str, np.ndarray]],
) -> bool:
    """Check the result arrays given by the caller; returns whether one of them is an operand.

    Parameters
    ----------
    outs : sequence of (ndarray or None)
        At most one for each of `results`.
    results : sequence of str
        Names of the results of full shape.
    x : ndarray
        Gives shape and dtype.
    operands : sequence of (str, ndarray)
        Everything that is read.

    Raises
    ------
    TypeError, ValueError
        As `_check_out`; also if there are too many, or two of them overlap.
    """
    if len(outs) > len(results):
        raise ValueError(f"out has {len(outs)} arrays, there are {len(results)} results: {results}")
    if len(outs) == 1:
        return outs[0] is not None and _check_out(outs[0], "out", x, operands)
    in_place = False
    for index, out in enumerate(outs):
        if out is None:
            continue
        name = f"out[{index}]"
        in_place |= _check_out(out, name, x, operands)
        for other in outs[:index]:
            if other is not None and _overlaps(out, other):
                raise ValueError(f"{name} overlaps another result: pass memory of its own")
    return in_place


def check_out_alone(
    out: Any, name: str, like: np.ndarray, operands: Sequence[tuple[str, np.ndarray]] = ()
) -> None:
    """Check one result array of the shape and dtype of `like` against the `operands` that are read."""
    _check_out(out, name, like, operands)


def _check_out(
    out: Any, name: str, x: np.ndarray, operands: Sequence[tuple[str, np.ndarray]]
) -> bool:
    """Check a result array given by the caller.

    Raises
    ------
    TypeError
        If it is no array.
    ValueError
        If it is read-only, of another shape or dtype than `x`, not in native byte order, overlaps
        itself, or overlaps an operand without being exactly it.
    """
    if type(out) is not np.ndarray and (
        not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray | np.matrix)
    ):
        raise TypeError(f"{name} must be a numpy.ndarray, got {type(out).__name__}")
    flags = out.flags
    if not flags.writeable:
        raise ValueError(f"{name} is read-only: pass a writable array")
    if out.shape != x.shape:
        raise ValueError(f"{name} must have the shape of x, {x.shape}, got {out.shape}")
    wanted = native(x.dtype)
    if out.dtype is not wanted and out.dtype != wanted:
        raise ValueError(f"{name} must have the native dtype of x, {wanted}, got {out.dtype}")
    if not flags.c_contiguous and _overlaps_itself(out):
        raise ValueError(
            f"{name} has elements that share memory: pass an array without broadcasting"
        )
    in_place, owns = False, flags.owndata
    for operand_name, operand in operands:
        if out is operand:
            in_place = True
        elif owns and operand.flags.owndata:
            continue  # each has memory of its own: 0.1 µs instead of the 3 µs of what follows
        elif not np.may_share_memory(out, operand):
            continue  # most are far apart: 0.2 µs instead of 2
        elif _is_exactly(out, operand):
            in_place = True
        elif _overlaps(out, operand):
            raise ValueError(
                f"{name} overlaps {operand_name} in part: pass exactly {operand_name}, "
                f"or memory of its own"
            )
    return in_place


def _is_exactly(a: np.ndarray, b: np.ndarray) -> bool:
    same_place = a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
    return same_place and a.dtype == b.dtype and a.shape == b.shape and _steps(a) == _steps(b)


def _steps(array: np.ndarray) -> list[int]:
    """The strides that matter: those of axes longer than 1."""
    return [step for step, length in zip(array.strides, array.shape, strict=True) if length > 1]


def _overlaps(a: np.ndarray, b: np.ndarray) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        # NumPy's annotations know two of the values of max_work.
        return np.shares_memory(a, b, max_work=cast(Any, _OVERLAP_WORK))
    except np.exceptions.TooHardError:
        return True  # undecided: refusing is safe


def _overlaps_itself(array: np.ndarray) -> bool:
    """Whether an axis steps over less than what the axes inside it span (dense views never do)."""
    span = array.itemsize
    for stride, length in sorted(
        (abs(stride), length)
        for stride, length in zip(array.strides, array.shape, strict=True)
        if length > 1
    ):
        if stride < span:
            return array.size > 0
        span = stride * (length - 1) + span
    return False
