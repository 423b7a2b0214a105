"""The meaning of every instruction in NumPy: what the interpreter runs and constants fold by.

Plain and slow on purpose. `math.erf` and its like stand in for what NumPy does not have.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

__all__ = ["EVALUATE"]


def _quiet(function: Callable) -> Callable:
    @functools.wraps(function)
    def run(*args):
        with np.errstate(all="ignore"):
            return function(*args)

    return run


def _each(function: Callable[[float], float]) -> Callable:
    """A function of one number for arrays, in double precision, back in the array's own dtype."""
    vector = np.vectorize(function, otypes=[np.float64])
    return lambda z: vector(np.asarray(z, np.float64)).astype(np.asarray(z).dtype)[()]


def _sigmoid(z):
    decay = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + decay), decay / (1 + decay))[()]


def _dsigmoid(z):
    return _sigmoid(z) * _sigmoid(-z)


def _weighted(w, factor):
    """w·factor, 0 where the factor is."""
    return np.where((factor == 0) & ~np.isnan(w), 0 * factor, w * factor)


def _scaled(factor: Callable) -> Callable:
    """`a·f(z)`, or `a·b·f(z)`, where an `f(z)` that is 0 wins against an infinite `a`."""

    def run(*args):
        value = factor(args[-1])
        for a in reversed(args[:-1]):
            value = _weighted(a, value)
        return value[()]

    return _quiet(run)


erf, erfc = _each(math.erf), _each(math.erfc)


def _normal_cdf(z):
    return 0.5 * erfc(-z / math.sqrt(2))


def _normal_pdf(z):
    return np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def _sech2(z):
    return 4 * _dsigmoid(2 * z)


def _exp_neg_square(z):
    return np.exp(-z * z)


def _mish_gate(z):
    return np.tanh(np.logaddexp(0, z))


def _mish_gate_slope(z):
    return _sech2(np.logaddexp(0, z)) * _sigmoid(z)


def _sigmoid_slope(w, z):
    return _sigmoid(z) + _weighted(w, _dsigmoid(z))


def _gelu_slope(x):
    return _normal_cdf(x) + _weighted(x, _normal_pdf(x))


#: Factors that decay to 0: products with them have exact tails (`fastgrad.program.tails`).
_DECAYING: dict[str, Callable] = {
    "exp": np.exp,
    "sigmoid": _sigmoid,
    "dsigmoid": _dsigmoid,
    "sech2": _sech2,
    "normal_cdf": _normal_cdf,
    "normal_pdf": _normal_pdf,
    "mish_gate": _mish_gate,
    "mish_gate_slope": _mish_gate_slope,
    "exp_neg_square": _exp_neg_square,
}

#: Instruction name -> function of NumPy arrays and numbers.
EVALUATE: dict[str, Callable] = {
    "add": _quiet(np.add),
    "sub": _quiet(np.subtract),
    "mul": _quiet(np.multiply),
    "scale": _quiet(np.multiply),
    "div": _quiet(np.divide),
    "exp": _quiet(np.exp),
    "exp2": _quiet(np.exp2),
    "expm1": _quiet(np.expm1),
    "log": _quiet(np.log),
    "log1p": _quiet(np.log1p),
    "sigmoid": _quiet(_sigmoid),
    "dsigmoid": _quiet(_dsigmoid),
    "sech2": _quiet(_sech2),
    "softplus": _quiet(lambda z: np.logaddexp(0, z)),
    "log_sigmoid": _quiet(lambda z: -np.logaddexp(0, -z)),
    "tanh": np.tanh,
    "tanhshrink": lambda z: z - np.tanh(z),
    "erf": erf,
    "erfc": erfc,
    "normal_cdf": _normal_cdf,
    "normal_pdf": _quiet(_normal_pdf),
    "exp_neg_square": _quiet(_exp_neg_square),
    "sigmoid_slope": _quiet(_sigmoid_slope),
    "silu": _quiet(lambda z: _weighted(z, _sigmoid(z))),
    "silu_slope": _quiet(lambda z: _sigmoid_slope(z, z)),
    "mish_gate": _quiet(_mish_gate),
    "mish_gate_slope": _quiet(_mish_gate_slope),
    "mish": _quiet(lambda z: _weighted(z, _mish_gate(z))),
    "mish_slope": _quiet(lambda z: _mish_gate(z) + _weighted(z, _mish_gate_slope(z))),
    "gelu": _quiet(lambda x: _weighted(x, _normal_cdf(x))),
    "gelu_slope": _quiet(_gelu_slope),
    "pow": _quiet(np.power),
    "sin": _quiet(np.sin),
    "cos": _quiet(np.cos),
    "reciprocal": _quiet(lambda z: 1 / z),
    "sqrt": _quiet(np.sqrt),
    "rsqrt": _quiet(lambda z: 1 / np.sqrt(z)),
    "abs": np.abs,
    "floor": np.floor,
    "round": np.rint,
    "rounded": lambda z: z,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "where": np.where,
}
for _name, _factor in _DECAYING.items():
    EVALUATE[f"scaled_{_name}"] = EVALUATE[f"scaled2_{_name}"] = _scaled(_factor)
