"""What the operators are, written plainly in float64; nothing of fastgrad is called here.

A slope comes with the size of the terms that it is a sum of: near its root, an error is measured
against those.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtr


def _limit(product: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """0 where the factor has decayed to 0, so that inf·0 is the limit."""
    return np.where(factor == 0, 0.0, product)


@np.errstate(all="ignore")
def swish(x, beta=1.0):
    s = expit(beta * x)
    return _limit(x * s, s)


@np.errstate(all="ignore")
def swish_terms(x, beta=1.0):
    z = beta * x
    s, slope = expit(z), expit(z) * expit(-z)
    return s, _limit(z * slope, slope)


@np.errstate(all="ignore")
def swish_beta_slope(x, beta=1.0):
    slope = expit(beta * x) * expit(-beta * x)
    return _limit(x * x * slope, slope)


@np.errstate(all="ignore")
def normal_pdf(x):
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


@np.errstate(all="ignore")
def gelu(x):
    return _limit(x * ndtr(x), ndtr(x))


@np.errstate(all="ignore")
def gelu_terms(x):
    return ndtr(x), _limit(x * normal_pdf(x), normal_pdf(x))


_K = 2 * np.sqrt(2 / np.pi)


@np.errstate(all="ignore")
def gelu_tanh(x):
    s = expit(_K * (x + 0.044715 * x**3))
    return _limit(x * s, s)


@np.errstate(all="ignore")
def gelu_tanh_terms(x):
    z = _K * (x + 0.044715 * x**3)
    slope = expit(z) * expit(-z)
    inner = _K * (1 + 3 * 0.044715 * x * x)
    return expit(z), _limit(x * slope * inner, slope)


def sigmoid(x):
    return expit(x)
