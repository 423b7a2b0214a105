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
