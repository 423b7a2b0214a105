"""The denoiser: two small blocks on a patch, their backward written by hand over fastgrad.

    hidden  = swish(group_norm(x @ w1 + b1, gamma, beta))     the pair of every diffusion U-Net
    feature = x + hidden @ w2 + b2                            the residual connection
    noise   = gelu(feature @ w3 + b3) @ w4 + b4
    denoised = x - noise

The hidden layer of the first block is a feature map: some channels, each with `PLACES` places. Between
forward and backward the norm with its swish keeps its input and two numbers a group, and gelu its input:
`group_norm_swish_grad` and `gelu_grad` compute again what they need, tile by tile.
"""

from typing import NamedTuple

import numpy as np

import fastgrad
from fastgrad.demo.photographs import Pixels, brightness, join, split
from fastgrad.demo.training import Config, Meter

PLACES = 8
"""Places of a channel of the feature map."""

GROUPS = 4
"""Groups of channels that are normalised."""


class Weights(NamedTuple):
    """All that is trained; a gradient has the same fields."""

    w1: Pixels
    b1: Pixels
    gamma: Pixels
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
        gamma=np.ones(hidden // PLACES, np.float32),
        beta=zeros(hidden // PLACES),
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


def feature_map(z: Pixels) -> Pixels:
    """A hidden layer as channels with places."""
    return z.reshape(len(z), -1, PLACES)


def loss_and_gradient(
    weights: Weights, noisy: Pixels, clean: Pixels, meter: Meter
) -> tuple[float, Weights]:
    """Mean squared error of the denoised patches, and its gradient."""
    w1, b1, gamma, beta, w2, b2, w3, b3, w4, b4 = weights

    z1 = feature_map(affine(noisy, w1, b1))
    with meter.forward:
        activated, *stats = fastgrad.group_norm_swish(z1, GROUPS, gamma, beta, return_stats=True)
    hidden1 = activated.reshape(len(noisy), -1)
    feature = noisy + affine(hidden1, w2, b2)
    z2 = affine(feature, w3, b3)
    with meter.forward:
        hidden2 = fastgrad.gelu(z2)
    meter.keep(z1, *stats, z2)
    error = noisy - affine(hidden2, w4, b4) - clean
    loss = np.mean(error * error)

    d_noise = error * np.float32(-2 / error.size)
    d_hidden2 = d_noise @ w4.T
    with meter.backward:
        d_z2 = fastgrad.gelu_grad(d_hidden2, z2, out=d_hidden2)
    d_feature = d_z2 @ w3.T
    d_activated = feature_map(d_feature @ w2.T)
    with meter.backward:
        d_map, d_gamma, d_beta = fastgrad.group_norm_swish_grad(
            d_activated, z1, GROUPS, gamma, beta, *stats, out=d_activated
        )
    d_z1 = d_map.reshape(len(noisy), -1)
    gradient = Weights(
        w1=noisy.T @ d_z1,
        b1=d_z1.sum(axis=0),
        gamma=d_gamma,
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
    w1, b1, gamma, beta, w2, b2, w3, b3, w4, b4 = weights
    patches = split(picture, patch, step)
    level = brightness(patches)
    x = patches - level
    z1 = feature_map(affine(x, w1, b1))
    hidden = fastgrad.group_norm_swish(z1, GROUPS, gamma, beta, out=z1).reshape(len(x), -1)
    feature = x + affine(hidden, w2, b2)
    noise = affine(fastgrad.gelu(affine(feature, w3, b3)), w4, b4)
    return join(x - noise + level, picture.shape, patch, step)
