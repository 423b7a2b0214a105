"""`gradient_of`: the thin function of an operator's usual gradient, ``name_grad``."""

from __future__ import annotations

from collections.abc import Callable

from ._operator import Operator, with_signature

__all__ = ["gradient_of"]

_DOC = """\
The gradient of `{name}`: dy · {slope}.

Parameters
----------
dy : array_like
    The gradient of the result, of the shape and dtype of `{array}`, in any layout.
{given}
    As in the forward call.
out : ndarray, optional
    Where to write the result; may be `dy` or `{array}` itself.

Returns
-------
ndarray
    `d{array}`, of the shape and dtype of `{array}`. 16-bit input is computed in float32 and rounded once.

Raises
------
TypeError, ValueError
    As `{name}`; also if `dy` has another shape or dtype than `{array}`.

Notes
-----
Computed from `{array}` alone: nothing else is kept from the forward call. {notes}
"""


def gradient_of(operator: Operator, slope: str, notes: str = "") -> Callable:
    """The function ``name_grad(dy, x, …, *, out=None)`` of an operator of one array.

    It belongs to the operator's module, under that name there, so it is pickled as functions are.

    Parameters
    ----------
    operator : Operator
        Whose arguments it has, after `dy`.
    slope : str
        The formula, for the docstring.
    notes : str
        What else there is to say, such as the slope at a kink.

    Returns
    -------
    function
        It calls the kernel by the shortest way.
    """
    (array,) = operator.arrays
    name = f"{operator.__name__}_grad"
    axis = ("axis",) if operator.parameters else ()
    function = with_signature(operator, name, operator.input_grad, ("dy",), (*axis, "out"))
    function.__doc__ = _DOC.format(
        name=operator.__name__,
        slope=slope,
        array=array,
        given=", ".join([*operator.arguments, *axis]),
        notes=notes,
    ).rstrip()
    return function
