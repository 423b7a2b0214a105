"""What a user of JAX writes for activations, gated units and fused additions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.bench.contenders.protocol import library

jax = library("jax")

Function = Callable[..., Any]


def own(x):
    return 0.9 * x * jax.nn.sigmoid(1.3 * x + 0.2)


def swiglu(gate, up):
    return jax.nn.silu(gate) * up


def swiglu_packed(packed):
    gate, up = jax.numpy.split(packed, 2, axis=-1)
    return jax.nn.silu(gate) * up


def geglu(gate, up):
    return jax.nn.gelu(gate, approximate=False) * up


def geglu_tanh(gate, up):
    return jax.nn.gelu(gate, approximate=True) * up


def reglu(gate, up):
    return jax.nn.relu(gate) * up


def glu(packed):
    return jax.nn.glu(packed)


def add_gelu(x, bias):
    return jax.nn.gelu(x + bias, approximate=False)


def add_swish(x, bias):
    return jax.nn.silu(x + bias)


def add_relu(x, bias):
    return jax.nn.relu(x + bias)


FORWARD_BACKWARD: dict[str, Function] = {
    "own_operator_forward_backward": own,
    "swiglu_forward_backward": swiglu,
    "swiglu_packed_forward_backward": swiglu_packed,
    "geglu_forward_backward": geglu,
    "geglu_tanh_forward_backward": geglu_tanh,
    "reglu_forward_backward": reglu,
    "glu_forward_backward": glu,
    "add_gelu_forward_backward": add_gelu,
    "add_swish_forward_backward": add_swish,
    "add_relu_forward_backward": add_relu,
}

# Those that JAX has, by its names; most of them are written in one word here.
_OF_JAX = (
    *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "mish", "sigmoid", "tanh", "softplus"),
    *("hard_swish", "hard_sigmoid", "hard_tanh", "soft_sign", "log_sigmoid"),
)
_HERE = {name: name.replace("_", "") for name in _OF_JAX if name != "leaky_relu"}

#: The functions that are differentiated, and their names in `jax.nn`.
GRADIENTS: dict[str, tuple[Function, str]] = {
    f"{_HERE.get(name, name)}_grad": (getattr(jax.nn, name), f"jax.nn.{name}") for name in _OF_JAX
}
