"""The denoiser: two small networks on a patch, their backward written by hand over fastgrad.

    hidden  = swish(x @ w1 + b1, beta)              beta: one a channel, trained
    feature = x + hidden @ w2 + b2                  the residual connection
    noise   = gelu(feature @ w3 + b3) @ w4 + b4
    denoised = x - noise

Between forward and backward an activation keeps its input and nothing else: `swish_grad` and
`gelu_grad` compute again what they need, tile by tile.
"""

from typing import NamedTuple

import numpy as np

import fastgrad
from fastgrad.demo.photographs import Pixels, brightness, join, split
from fastgrad.demo.training import Config, Meter


class Weights(NamedTuple):
    """All that is trained; a gradient has the same fields."""

    w1: Pixels
    b1: Pixels
    beta: Pixels
    w2: Pixels
    b2: Pixels
    w3: Pixels
    b3: Pixels
    w4: Pixels
    b4: Pixels


def initial_weights(config: Config) -> Weights:
    """He's initialisation, but small last layers: the network starts near the identity."""
    rng = np.random.default_rng(config.seed)
    width, hidden = config.width, config.hidden

    def matrix(rows: int, columns: int, gain: float) -> Pixels:
        scale = np.float32(gain * (2 / rows) ** 0.5)
        return scale * rng.standard_normal((rows, columns), dtype=np.float32)

    def zeros(size: int) -> Pixels:
        return np.zeros(size, np.float32)

    return Weights(
        w1=matrix(width, hidden, 1),
        b1=zeros(hidden),
        beta=np.ones(hidden, np.float32),
        w2=matrix(hidden, width, 0.1),
        b2=zeros(width),
        w3=matrix(width, hidden, 1),
        b3=zeros(hidden),
        w4=matrix(hidden, width, 0.1),
        b4=zeros(width),
    )


def affine(x: Pixels, w: Pixels, b: Pixels) -> Pixels:
    """x @ w + b, in one array."""
    y = x @ w
    y += b
    return y


def loss_and_gradient(
    weights: Weights, noisy: Pixels, clean: Pixels, meter: Meter
) -> tuple[float, Weights]:
    """Mean squared error of the denoised patches, and its gradient."""
    w1, b1, beta, w2, b2, w3, b3, w4, b4 = weights

    z1 = affine(noisy, w1, b1)
    with meter.forward:
        hidden1 = fastgrad.swish(z1, beta, axis=1)
    feature = noisy + affine(hidden1, w2, b2)
    z2 = affine(feature, w3, b3)
    with meter.forward:
        hidden2 = fastgrad.gelu(z2)
    meter.keep(z1, z2)
    error = noisy - affine(hidden2, w4, b4) - clean
    loss = np.mean(error * error)

    d_noise = error * np.float32(-2 / error.size)
    d_hidden2 = d_noise @ w4.T
    with meter.backward:
        d_z2 = fastgrad.gelu_grad(d_hidden2, z2, out=d_hidden2)
    d_feature = d_z2 @ w3.T
    d_hidden1 = d_feature @ w2.T
    with meter.backward:
        d_z1, d_beta = fastgrad.swish_grad(
            d_hidden1, z1, beta, axis=1, beta_grad=True, out=d_hidden1
        )
    gradient = Weights(
        w1=noisy.T @ d_z1,
        b1=d_z1.sum(axis=0),
        beta=d_beta,
        w2=hidden1.T @ d_feature,
        b2=d_feature.sum(axis=0),
        w3=feature.T @ d_z2,
        b3=d_z2.sum(axis=0),
        w4=hidden2.T @ d_noise,
        b4=d_noise.sum(axis=0),
    )
    return float(loss), gradient


def denoise(weights: Weights, picture: Pixels, patch: int, step: int = 2) -> Pixels:
    """Denoise a picture of any size: every pixel is the mean of all patches that cover it."""
    w1, b1, beta, w2, b2, w3, b3, w4, b4 = weights
    patches = split(picture, patch, step)
    level = brightness(patches)
    x = patches - level
    feature = x + affine(fastgrad.swish(affine(x, w1, b1), beta, axis=1), w2, b2)
    noise = affine(fastgrad.gelu(affine(feature, w3, b3)), w4, b4)
    return join(x - noise + level, picture.shape, patch, step)
