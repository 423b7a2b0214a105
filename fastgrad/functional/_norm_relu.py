"""Group norm and ReLU in one, with or without a residual between them: the pairs of a ResNet's block."""

from __future__ import annotations

from typing import Any

from ._normalization import _AFFINE, _STATS, _norm
from ._rectifiers import relu
from ._row_call import RowCall, not_negative
from ._row_operator import RowOperator, row_operator
from ._rows import RowKernels

__all__ = [
    "group_norm_add_relu",
    "group_norm_add_relu_grad",
    "group_norm_relu",
    "group_norm_relu_grad",
]


def _norm_relu(x, gamma=None, beta=None, eps=1e-5):
    return relu(_norm(x, gamma, beta, eps))


def _norm_add_relu(x, residual, gamma=None, beta=None, eps=1e-5):
    return relu(_norm(x, gamma, beta, eps) + residual)


_RELU = RowKernels(_norm_relu, "norm_relu", ("x",), _AFFINE, ("eps",), _STATS)
_ADD_RELU = RowKernels(
    _norm_add_relu, "norm_add_relu", ("x", "residual"), _AFFINE, ("eps",), _STATS
)


@row_operator(_RELU, "runs")
def group_norm_relu(
    x: Any,
    num_groups: int,
    gamma: Any = None,
    beta: Any = None,
    eps: float = 1e-5,
    *,
    data_format: str = "NCHW",
) -> RowCall:
    """``relu(group_norm(x, …))`` in one.

    Parameters
    ----------
    x, num_groups, gamma, beta, eps, data_format, return_stats, out
        As in `group_norm`.

    Returns
    -------
    y, or (y, mean, rstd)
        As `group_norm`.

    Raises
    ------
    TypeError, ValueError
        As `group_norm`.

    Notes
    -----
    Backward keeps `x` and the statistics: which elements are above 0 is computed again.
    """
    eps = not_negative(eps, "eps")
    call = RowCall({"x": x}, {"gamma": gamma, "beta": beta}, eps=eps)
    return call.by_groups(num_groups, data_format)


@row_operator(_ADD_RELU, "runs")
def group_norm_add_relu(
    x: Any,
    residual: Any,
    num_groups: int,
    gamma: Any = None,
    beta: Any = None,
    eps: float = 1e-5,
    *,
    data_format: str = "NCHW",
) -> RowCall:
    """``relu(group_norm(x, …) + residual)`` in one: the end of a ResNet's bottleneck.

    Parameters
    ----------
    x, num_groups, gamma, beta, eps, data_format, return_stats, out
        As in `group_norm`.
    residual : array_like
        Of the shape and dtype of `x`.

    Returns
    -------
    y, or (y, mean, rstd)
        As `group_norm`.

    Raises
    ------
    TypeError, ValueError
        As `group_norm`.

    Notes
    -----
    Backward keeps `x`, `residual` and the statistics. The sum is rounded once, with the result.

    References
    ----------
    He et al., "Deep Residual Learning for Image Recognition", arXiv:1512.03385.
    """
    eps = not_negative(eps, "eps")
    arrays = {"x": x, "residual": residual}
    call = RowCall(arrays, {"gamma": gamma, "beta": beta}, eps=eps)
    return call.by_groups(num_groups, data_format)


def group_norm_relu_grad(
    dy: Any,
    x: Any,
    num_groups: int,
    gamma: Any = None,
    beta: Any = None,
    mean: Any = None,
    rstd: Any = None,
    eps: float = 1e-5,
    *,
    data_format: str = "NCHW",
    out: Any = None,
) -> tuple:
    """The gradients of `group_norm_relu`: those of `group_norm` at dy where the norm is above 0, else 0.

    Parameters
    ----------
    dy, x, num_groups, gamma, mean, rstd, eps, data_format, out
        As in `group_norm_grad`.
    beta : array_like, optional
        As in the forward call.

    Returns
    -------
    dx, dgamma, dbeta
        As `group_norm_grad`; the gradient of what was not given is None.

    Raises
    ------
    TypeError, ValueError
        As `group_norm_grad`.
    """
    arguments = {"num_groups": num_groups, "eps": eps, "data_format": data_format}
    statistics = {"mean": mean, "rstd": rstd}
    return _gradients(group_norm_relu, dy, {"x": x}, gamma, beta, arguments, statistics, out)


def group_norm_add_relu_grad(
    dy: Any,
    x: Any,
    residual: Any,
    num_groups: int,
    gamma: Any = None,
    beta: Any = None,
    mean: Any = None,
    rstd: Any = None,
    eps: float = 1e-5,
    *,
    data_format: str = "NCHW",
    out: Any = None,
) -> tuple:
    """The gradients of `group_norm_add_relu`, where `dresidual` is dy where the sum is above 0, else 0.

    Parameters
    ----------
    dy, x, num_groups, gamma, mean, rstd, eps, data_format, out
        As in `group_norm_grad`; `out` is for (dx, dresidual).
    residual, beta : array_like
        As in the forward call.

    Returns
    -------
    dx, dresidual, dgamma, dbeta
        The gradient of what was not given is None.

    Raises
    ------
    TypeError, ValueError
        As `group_norm_grad`.
    """
    arrays = {"x": x, "residual": residual}
    arguments = {"num_groups": num_groups, "eps": eps, "data_format": data_format}
    statistics = {"mean": mean, "rstd": rstd}
    return _gradients(group_norm_add_relu, dy, arrays, gamma, beta, arguments, statistics, out)


def _gradients(
    operator: RowOperator,
    dy: Any,
    arrays: dict[str, Any],
    gamma: Any,
    beta: Any,
    arguments: dict[str, Any],
    statistics: dict[str, Any],
    out: Any,
) -> tuple:
    """The gradient of each operand, None for one that is not given."""
    channels = {"gamma": gamma, "beta": beta}
    operands = {**arrays, **channels}
    wrt = tuple(name for name, value in operands.items() if value is not None)
    found = operator.grad(dy, **operands, **arguments, **statistics, wrt=wrt, out=out)
    by_name = dict(zip(wrt, found, strict=True))
    return tuple(by_name.get(name) for name in operands)
