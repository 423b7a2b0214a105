"""Gated units: one half of a projection opens the gate of the other.

Each takes two arrays, ``op(gate, up)``, or one that packs them, ``op(x, gate="first")``.
"""

from __future__ import annotations

from typing import Any

from ..program import maths as m
from ._activations import gelu, silu
from ._gated_operator import gated
from ._rectifiers import relu

__all__ = [
    "geglu",
    "geglu_grad",
    "glu",
    "glu_grad",
    "reglu",
    "reglu_grad",
    "swiglu",
    "swiglu_grad",
]


@gated
def swiglu(gate, up):
    """SwiGLU, silu(gate) · up.

    Parameters
    ----------
    x : array_like
        The gate, where `up` is given; else an array that packs both along `axis`. Any layout; float16,
        bfloat16, float32 or float64.
    up : array_like, optional
        What the gate lets through, of the dtype of the gate; the two are broadcast together.
    gate : {"first", "last"}
        Which half of a packed array is the gate.
    axis : int
        The axis that a packed array is halved along.
    out : ndarray, optional
        Where to write the result; may be the gate or `up`.

    Returns
    -------
    ndarray
        Of the shape of a half. 16-bit input is computed in float32 and rounded once.

    Raises
    ------
    TypeError
        If the operands have another dtype, or two dtypes.
    ValueError
        If a packed axis has an odd length, the two arrays do not broadcast, or `out` does not fit.

    Notes
    -----
    Backward keeps the operands alone, and reads each once: both gradients in one pass.

    References
    ----------
    Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """
    return silu(gate) * up


@gated(approximate=("none", "tanh"))
def geglu(gate, up, approximate="none"):
    """GEGLU, gelu(gate) · up.

    Parameters
    ----------
    x, up, gate, axis, out
        As for `swiglu`.
    approximate : {"none", "tanh"}
        As for `gelu`.

    Returns
    -------
    ndarray
        Of the shape of a half.

    Notes
    -----
    Backward keeps the operands alone. The two halves of the GEGLU of `diffusers` are
    ``gate="last"``.

    References
    ----------
    Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """
    return gelu(gate, approximate) * up


@gated
def reglu(gate, up):
    """ReGLU, max(gate, 0) · up; the slope of max at 0 is 0.

    Parameters
    ----------
    x, up, gate, axis, out
        As for `swiglu`.

    Returns
    -------
    ndarray
        Of the shape of a half.

    Notes
    -----
    Backward keeps the operands alone.

    References
    ----------
    Shazeer, "GLU Variants Improve Transformer", arXiv:2002.05202.
    """
    return relu(gate) * up


@gated
def _glu(gate, up):
    """GLU of two arrays, up · sigmoid(gate)."""
    return up * m.sigmoid(gate)


def glu(x: Any, axis: int = -1, *, out: Any = None) -> Any:
    """GLU as PyTorch's: the first half of `x` times the sigmoid of its last half.

    Parameters
    ----------
    x : array_like
        Any layout; float16, bfloat16, float32 or float64.
    axis : int
        The axis that is halved.
    out : ndarray, optional
        Where to write the result.

    Returns
    -------
    ndarray
        Of the shape of a half.

    Raises
    ------
    TypeError, ValueError
        As `swiglu`.

    Notes
    -----
    Backward keeps `x` alone.

    References
    ----------
    Dauphin et al., "Language Modeling with Gated Convolutional Networks", arXiv:1612.08083.
    """
    return _glu(x, gate="last", axis=axis, out=out)


def glu_grad(dy: Any, x: Any, axis: int = -1, *, out: Any = None) -> Any:
    """The gradient of `glu`: dy · sigmoid(b) and dy · a · sigmoid(b) · sigmoid(-b), for halves a and b.

    Parameters
    ----------
    dy : array_like
        The gradient of the result, of its shape and dtype.
    x, axis
        As in the forward call.
    out : ndarray, optional
        Where to write the result; may be `x` itself.

    Returns
    -------
    ndarray
        `dx`, of the shape and dtype of `x`.
    """
    return _glu.grad(dy, x, gate="last", axis=axis, out=out)[0]


def swiglu_grad(
    dy: Any, x: Any, up: Any = None, *, gate: str = "first", axis: int = -1, out: Any = None
) -> Any:
    """The gradients of `swiglu`: dgate = dy · up · silu'(gate), dup = dy · silu(gate), in one pass.

    Parameters
    ----------
    dy : array_like
        The gradient of the result, of its shape and dtype.
    x, up, gate, axis
        As in the forward call.
    out : ndarray or tuple of ndarray, optional
        Where to write: `dx` of a packed array, else (dgate, dup). Each may be an operand itself.

    Returns
    -------
    dgate, dup : ndarray
        Of the shapes of the gate and of `up`; of a packed `x` the one array `dx`.

    Raises
    ------
    TypeError, ValueError
        As `swiglu`; also if `dy` has another shape or dtype than the result.
    """
    found = swiglu.grad(dy, x, up, gate=gate, axis=axis, out=out)
    return found if up is not None else found[0]


def geglu_grad(
    dy: Any,
    x: Any,
    up: Any = None,
    approximate: str = "none",
    *,
    gate: str = "first",
    axis: int = -1,
    out: Any = None,
) -> Any:
    """The gradients of `geglu`: dgate = dy · up · gelu'(gate), dup = dy · gelu(gate), in one pass.

    Parameters
    ----------
    dy, x, up, approximate, gate, axis, out
        As for `swiglu_grad` and `geglu`.

    Returns
    -------
    dgate, dup : ndarray
        Of the shapes of the gate and of `up`; of a packed `x` the one array `dx`.
    """
    found = geglu.grad(dy, x, up, approximate=approximate, gate=gate, axis=axis, out=out)
    return found if up is not None else found[0]


def reglu_grad(
    dy: Any, x: Any, up: Any = None, *, gate: str = "first", axis: int = -1, out: Any = None
) -> Any:
    """The gradients of `reglu`: dgate = dy · up where gate > 0, else 0; dup = dy · max(gate, 0).

    Parameters
    ----------
    dy, x, up, gate, axis, out
        As for `swiglu_grad`.

    Returns
    -------
    dgate, dup : ndarray
        Of the shapes of the gate and of `up`; of a packed `x` the one array `dx`.
    """
    found = reglu.grad(dy, x, up, gate=gate, axis=axis, out=out)
    return found if up is not None else found[0]
