"""What the operators are, written plainly in float64; nothing of fastgrad is called here.

A slope comes with the size of the terms that it is a sum of: near its root, an error is measured
against those.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfc


@np.errstate(all="ignore")
def sigmoid(z):
    """In the form that overflows on neither side."""
    decay = np.exp(-np.abs(z))
    return np.where(z >= 0, 1 / (1 + decay), decay / (1 + decay))


@np.errstate(all="ignore")
def normal_cdf(x):
    """Right down to x = -37.5: beyond, SciPy's erfc underflows before its time."""
    return 0.5 * erfc(-x / np.sqrt(2))


def _limit(product: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """0 where the factor has decayed to 0, so that inf·0 is the limit."""
    return np.where(factor == 0, 0.0, product)


@np.errstate(all="ignore")
def swish(x, beta=1.0):
    s = sigmoid(beta * x)
    return _limit(x * s, s)


@np.errstate(all="ignore")
def swish_terms(x, beta=1.0):
    z = beta * x
    s, slope = sigmoid(z), sigmoid(z) * sigmoid(-z)
    return s, _limit(z * slope, slope)


@np.errstate(all="ignore")
def mish(x):
    gate = mish_gate(x)
    return _limit(x * gate, gate)


@np.errstate(all="ignore")
def mish_gate(x):
    """tanh(softplus(x)) with e = e^-|x|, without a difference."""
    e = np.exp(-np.abs(x))
    below = e * (e + 2) / (e * (e + 2) + 2)
    return np.where(x < 0, below, (1 + 2 * e) / (1 + 2 * e * (1 + e)))


@np.errstate(all="ignore")
def mish_terms(x):
    e = np.exp(-np.abs(x))
    below = 4 * e * (1 + e) / (e * (e + 2) + 2) ** 2
    slope = np.where(x < 0, below, 4 * e * e * (1 + e) / (1 + 2 * e * (1 + e)) ** 2)
    slope = np.where(np.isnan(x), x, slope)
    return mish_gate(x), _limit(x * slope, slope)


@np.errstate(all="ignore")
def swish_beta_slope(x, beta=1.0):
    slope = sigmoid(beta * x) * sigmoid(-beta * x)
    return _limit(x * x * slope, slope)


@np.errstate(all="ignore")
def normal_pdf(x):
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


@np.errstate(all="ignore")
def gelu(x):
    return _limit(x * normal_cdf(x), normal_cdf(x))


@np.errstate(all="ignore")
def gelu_terms(x):
    return normal_cdf(x), _limit(x * normal_pdf(x), normal_pdf(x))


_K = 2 * np.sqrt(2 / np.pi)


@np.errstate(all="ignore")
def gelu_tanh(x):
    s = sigmoid(_K * (x + 0.044715 * x**3))
    return _limit(x * s, s)


@np.errstate(all="ignore")
def gelu_tanh_terms(x):
    z = _K * (x + 0.044715 * x**3)
    slope = sigmoid(z) * sigmoid(-z)
    inner = _K * (1 + 3 * 0.044715 * x * x)
    return sigmoid(z), _limit(x * slope * inner, slope)


# --- sigmoids -------------------------------------------------------------------------------------


def sigmoid_terms(x):
    return (sigmoid(x) * sigmoid(-x),)


@np.errstate(all="ignore")
def logsigmoid(x):
    return -softplus(-x, threshold=np.inf)


def logsigmoid_terms(x):
    return (sigmoid(-x),)


@np.errstate(over="ignore")
def tanh_terms(x):
    return (4 * sigmoid(2 * x) * sigmoid(-2 * x),)


#: x - tanh(x) = x³·Σ c_k·x^2k, to k = 7.
_TANHSHRINK = np.array([1 / 3, -2 / 15, 17 / 315, -62 / 2835, 1382 / 155925, -21844 / 6081075,
                        929569 / 638512875, -6404582 / 10854718875])  # fmt: skip


@np.errstate(all="ignore")
def tanhshrink(x):
    """By its series where the difference would cancel, else in extended precision."""
    series = x * (x * x) * np.polynomial.polynomial.polyval(x * x, _TANHSHRINK)
    wide = x.astype(np.longdouble)
    return np.where(np.abs(x) < 0.1, series, (wide - np.tanh(wide)).astype(np.float64))


def tanhshrink_terms(x):
    return (np.tanh(x) ** 2,)


@np.errstate(all="ignore")
def softplus(x, beta=1.0, threshold=20.0):
    z = beta * x
    smooth = np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))
    return np.where(z > threshold, x, smooth / beta)


@np.errstate(all="ignore")
def softplus_terms(x, beta=1.0, threshold=20.0):
    return (np.where(beta * x > threshold, 1, sigmoid(beta * x)),)


@np.errstate(all="ignore")
def softsign(x):
    return np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x)))


@np.errstate(all="ignore")
def softsign_terms(x):
    return (1 / (1 + np.abs(x)) / (1 + np.abs(x)),)


# --- rectifiers -----------------------------------------------------------------------------------


def relu(x):
    return np.where(x <= 0, 0, x)


def _at_nan(slope, x):
    return (np.where(np.isnan(x), np.nan, slope),)


def relu_terms(x):
    return _at_nan(x > 0, x)


@np.errstate(all="ignore")
def leaky_relu(x, negative_slope=0.01):
    return np.where(x > 0, x, negative_slope * x)


def leaky_relu_terms(x, negative_slope=0.01):
    return _at_nan(np.where(x > 0, 1, negative_slope), x)


@np.errstate(all="ignore")
def elu(x, alpha=1.0, scale=1.0):
    return scale * np.where(x > 0, x, alpha * np.expm1(x))


@np.errstate(all="ignore")
def elu_terms(x, alpha=1.0, scale=1.0):
    return (scale * np.where(x > 0, 1, alpha * np.exp(x)),)


@np.errstate(all="ignore")
def celu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


@np.errstate(all="ignore")
def celu_terms(x, alpha=1.0):
    return (np.where(x > 0, 1, np.exp(x / alpha)),)


@np.errstate(all="ignore")
def squared_relu(x):
    return np.where(x <= 0, 0, x * x)


@np.errstate(all="ignore")
def squared_relu_terms(x):
    return (np.where(x <= 0, 0, 2 * x),)


# --- straight pieces ------------------------------------------------------------------------------


def hardtanh(x, min_val=-1.0, max_val=1.0):
    return np.where(x <= min_val, min_val, np.where(x >= max_val, max_val, x))


def hardtanh_terms(x, min_val=-1.0, max_val=1.0):
    return _at_nan((x > min_val) & (x < max_val), x)


@np.errstate(invalid="ignore")
def hardsigmoid(x):
    return np.where(x <= -3, 0, np.where(x >= 3, 1, (x + 3) / 6))


def hardsigmoid_terms(x):
    return _at_nan(np.where(np.abs(x) < 3, 1 / 6, 0), x)


@np.errstate(all="ignore")
def hardswish(x):
    return np.where(x <= -3, 0, np.where(x >= 3, x, x * (x + 3) / 6))


@np.errstate(all="ignore")
def hardswish_terms(x):
    inside = ~(np.abs(x) >= 3)
    return np.where(inside, x / 3, 0), np.where(inside, 0.5, x >= 3)


def hardshrink(x, lambd=0.5):
    return np.where(np.abs(x) <= lambd, 0, x)


def shrink_terms(x, lambd=0.5):
    return _at_nan(np.abs(x) > lambd, x)


@np.errstate(invalid="ignore")
def softshrink(x, lambd=0.5):
    return np.where(np.abs(x) <= lambd, 0, x - np.copysign(lambd, x))
