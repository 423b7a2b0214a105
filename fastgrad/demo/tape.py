"""The same denoiser in composed autodiff: HIPS autograd, which records every operation on a tape.

The activations are what one writes without a fused operator, and autograd derives their backward:
operation by operation, over the intermediates that each of them keeps.
"""

import math
from collections.abc import Iterator
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import value_and_grad
from autograd.extend import defvjp, primitive
from autograd.scipy.special import erf

from fastgrad.demo.denoiser import GROUPS, PLACES, Weights
from fastgrad.demo.photographs import Pixels
from fastgrad.demo.training import Meter


def group_norm(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
    """(x - mean) / sqrt(variance + eps) · gamma + beta over each group of channels, composed."""
    groups = anp.reshape(x, (len(x), GROUPS, -1))
    distance = groups - anp.mean(groups, axis=2, keepdims=True)
    variance = anp.mean(distance * distance, axis=2, keepdims=True)
    normalised = anp.reshape(distance / anp.sqrt(variance + eps), x.shape)
    return normalised * gamma[:, None] + beta[:, None]


def swish(x: Any) -> Any:
    """x · sigmoid(x), composed; the fastest way to write it in autograd."""
    return x / (1.0 + anp.exp(-x))


def gelu(x: Any) -> Any:
    """x · Φ(x), composed."""
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def loss_and_gradient(
    weights: Weights, noisy: Pixels, clean: Pixels, meter: Meter
) -> tuple[float, Weights]:
    """Mean squared error of the denoised patches, and its gradient, by the tape."""

    def loss(trained: Any) -> Any:
        w1, b1, gamma, beta, w2, b2, w3, b3, w4, b4 = trained
        z1 = begin(anp.reshape(anp.dot(noisy, w1) + b1, (len(noisy), -1, PLACES)), meter)
        hidden1 = end(swish(group_norm(z1, gamma, beta)), meter)
        feature = noisy + (anp.dot(anp.reshape(hidden1, (len(noisy), -1)), w2) + b2)
        z2 = begin(anp.dot(feature, w3) + b3, meter)
        hidden2 = end(gelu(z2), meter)
        meter.keep(*arrays_kept(z1, hidden1), *arrays_kept(z2, hidden2))
        error = noisy - (anp.dot(hidden2, w4) + b4) - clean
        return anp.mean(error * error)

    value, gradient = value_and_grad(loss)(tuple(weights))
    return float(value), Weights(*gradient)


# Two marks around an activation. They hand their operand on, and take the time: in the forward
# pass from `begin` to `end`, in the backward pass, which runs the tape from its end, from `end` to
# `begin`.


@primitive
def begin(x: Pixels, meter: Meter) -> Pixels:
    """Mark the input of an activation."""
    meter.forward.start()
    return x


@primitive
def end(y: Pixels, meter: Meter) -> Pixels:
    """Mark the output of an activation."""
    meter.forward.stop()
    return y


def _begin_vjp(_ans: Pixels, _x: Pixels, meter: Meter) -> Any:
    def stop_and_pass_on(gradient: Pixels) -> Pixels:
        meter.backward.stop()
        return gradient

    return stop_and_pass_on


def _end_vjp(_ans: Pixels, _y: Pixels, meter: Meter) -> Any:
    def start_and_pass_on(gradient: Pixels) -> Pixels:
        meter.backward.start()
        return gradient

    return start_and_pass_on


defvjp(begin, _begin_vjp, argnums=(0,))
defvjp(end, _end_vjp, argnums=(0,))


def arrays_kept(begun: Any, ended: Any) -> list[Pixels]:
    """The arrays that the tape holds for an activation, between the marks at its begin and its end.

    What a node of the tape holds for its backward sits in the closure of its vector-Jacobian
    product.
    """
    kept = {}
    seen = {begun._node}
    nodes = [ended._node]
    while nodes:
        node = nodes.pop()
        if node not in seen:
            seen.add(node)
            nodes.extend(node.parents)
            for array in _arrays_in(node.vjp):
                owner = array if array.base is None else array.base
                kept[id(owner)] = owner
    return list(kept.values())


def _arrays_in(thing: Any) -> Iterator[Pixels]:
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, tuple | list):
        for item in thing:
            yield from _arrays_in(item)
    elif closure := getattr(thing, "__closure__", None):
        for cell in closure:
            yield from _arrays_in(cell.cell_contents)
