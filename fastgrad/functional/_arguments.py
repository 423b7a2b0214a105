"""Checking and normalising what a caller hands over, before anything is computed or written."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ..vector_unit.precision import PRECISIONS, Precision

__all__ = [
    "Channel",
    "as_operand",
    "as_parameter",
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


class Channel:
    """A parameter with one element a channel.

    Attributes
    ----------
    name : str
        The argument's name.
    values : ndarray
        As the caller gave it, 1-D.
    axis : int
        The channel axis of `x`, not negative.
    """

    __slots__ = ("axis", "name", "values")

    def __init__(self, name: str, values: np.ndarray, axis: int):
        self.name, self.values, self.axis = name, values, axis

    @property
    def wide(self) -> np.ndarray:
        """The values in float64."""
        return self.values.astype(np.float64)

    def spread(self, like: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """The values in `dtype`, as a view of the shape of `like`."""
        shape = [1] * like.ndim
        shape[self.axis] = -1
        return np.broadcast_to(self.values.astype(dtype).reshape(shape), like.shape)


def as_parameter(
    value: Any, name: str, axis: int | None, x: np.ndarray, channel_axis: int | None = None
) -> float | Channel:
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


def _as_parameter_array(value: Any, name: str) -> np.ndarray:
    _refuse_lookalikes(value, name)
    if value is None or isinstance(value, str | bytes | complex):
        raise TypeError(
            f"{name} must be a number or an array of one number a channel, "
            f"got {type(value).__name__}: {value!r}"
        )
    return np.asarray(value)


def _as_channel(array: np.ndarray, name: str, axis: int | None, x: np.ndarray) -> Channel:
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
    return Channel(name, array, own_axis)


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
    in_place = False
    for index, out in enumerate(outs):
        if out is None:
            continue
        name = "out" if len(outs) == 1 else f"out[{index}]"
        in_place |= _check_out(out, name, x, operands)
        for other in outs[:index]:
            if other is not None and _overlaps(out, other):
                raise ValueError(f"{name} overlaps another result: pass memory of its own")
    return in_place


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
    if not out.flags.writeable:
        raise ValueError(f"{name} is read-only: pass a writable array")
    if out.shape != x.shape:
        raise ValueError(f"{name} must have the shape of x, {x.shape}, got {out.shape}")
    wanted = native(x.dtype)
    if out.dtype != wanted:
        raise ValueError(f"{name} must have the native dtype of x, {wanted}, got {out.dtype}")
    if not out.flags.c_contiguous and _overlaps_itself(out):
        raise ValueError(
            f"{name} has elements that share memory: pass an array without broadcasting"
        )
    in_place, owns = False, out.flags.owndata
    for operand_name, operand in operands:
        if out is operand:
            in_place = True
        elif owns and operand.flags.owndata:
            continue  # each has memory of its own: 0.1 µs instead of the 3 µs of what follows
        elif _is_exactly(out, operand):
            in_place = True
        elif _overlaps(out, operand):
            raise ValueError(
                f"{name} overlaps {operand_name} in part: pass exactly {operand_name}, "
                f"or memory of its own"
            )
    return in_place


def _is_exactly(a: np.ndarray, b: np.ndarray) -> bool:
    if not np.may_share_memory(a, b):  # most are far apart: 0.2 µs instead of 2
        return False
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
