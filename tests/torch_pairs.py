"""Every function of `fastgrad.torch` beside PyTorch's own, or what it is composed of."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import fastgrad.torch as ft
from tensor_checking import Pair

_NAMES = [
    "celu", "elu", "gelu", "hardshrink", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish",
    "relu", "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink",
]  # fmt: skip
ACTIVATIONS = [
    *(Pair(name, getattr(ft, name), getattr(F, name)) for name in _NAMES),
    # PyTorch's own slope in float64 is 1/6 rounded to float32.
    Pair("hardsigmoid", ft.hardsigmoid, lambda x: (x / 6 + 0.5).clamp(0, 1)),
    Pair("sigmoid", ft.sigmoid, torch.sigmoid),
    Pair("tanh", ft.tanh, torch.tanh),
    Pair("gelu-tanh", lambda x: ft.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    Pair("quick_gelu", ft.quick_gelu, lambda x: x * torch.sigmoid(1.702 * x)),
    Pair("squared_relu", ft.squared_relu, lambda x: F.relu(x) ** 2),
    Pair("swish", lambda x: ft.swish(x, 1.5), lambda x: x * torch.sigmoid(1.5 * x)),
    Pair("swish-beta", ft.swish, lambda x, b: x * torch.sigmoid(b * x), ((5, 8), (8,))),
    Pair("prelu", ft.prelu, F.prelu, ((5, 8), (8,))),
    Pair("prelu-one", ft.prelu, F.prelu, ((5, 8, 3), (1,))),
]

_TWO = ((5, 8), (5, 8))
GATED = [
    Pair("swiglu", ft.swiglu, lambda g, u: F.silu(g) * u, _TWO),
    Pair(
        "swiglu-packed",
        lambda x: ft.swiglu(x, gate="last", dim=0),
        lambda x: x[:3] * F.silu(x[3:]),
        ((6, 4),),
    ),
    Pair("geglu", ft.geglu, lambda g, u: F.gelu(g) * u, _TWO),
    Pair("geglu-tanh", lambda g, u: ft.geglu(g, u, "tanh"),
         lambda g, u: F.gelu(g, approximate="tanh") * u, _TWO),
    Pair("reglu", ft.reglu, lambda g, u: F.relu(g) * u, _TWO),
    Pair("glu", ft.glu, F.glu),
    Pair("add_gelu", ft.add_gelu, lambda x, b: F.gelu(x + b), ((5, 8), (8,))),
    Pair("add_relu", ft.add_relu, lambda x, b: F.relu(x + b), ((5, 8), (8,))),
    Pair("add_swish", ft.add_swish, lambda x, b: F.silu(x + b), ((5, 8), (8,))),
]  # fmt: skip


def _bce(x, t, w, p):
    return ft.binary_cross_entropy_with_logits(x, t, w, pos_weight=p)


def _stock_bce(x, t, w, p):
    """Composed: PyTorch's own has no gradient of the weight."""
    return (w * (p * t * F.softplus(-x) + (1 - t) * F.softplus(x))).mean()


LOSSES = [
    *(
        Pair(
            f"{name}-{reduction}",
            lambda x, t, name=name, reduction=reduction: getattr(ft, name)(x, t, reduction=reduction),
            lambda x, t, name=name, reduction=reduction: getattr(F, name)(x, t, reduction=reduction),
            _TWO,
        )
        for name in ("mse_loss", "huber_loss", "smooth_l1_loss")
        for reduction in ("mean", "sum", "none")
    ),
    Pair("bce", ft.binary_cross_entropy_with_logits, F.binary_cross_entropy_with_logits, _TWO,
         positive=(1,)),
    Pair("bce-weighted", _bce, _stock_bce, (*_TWO, (5, 8), (8,)), positive=(1, 2, 3)),
    Pair("kl_div", lambda x, t: ft.kl_div(x, t, "batchmean"),
         lambda x, t: F.kl_div(x, t, reduction="batchmean"), _TWO, positive=(1,)),
    Pair("kl_div-log", lambda x, t: ft.kl_div(x, t, "sum", log_target=True),
         lambda x, t: F.kl_div(x, t, reduction="sum", log_target=True), _TWO),
]  # fmt: skip


def _stock_add_layer_norm(x, r, w, b):
    return F.layer_norm(x + r, (8,), w, b), x + r


def _stock_add_rms_norm(x, r, w):
    return F.rms_norm(x + r, (8,), w, 1e-6), x + r


def _running(x):
    steps = torch.arange(x.shape[1], dtype=x.dtype)
    return steps * 0.1, steps + 1


_LANES, _CHANNELS = ((5, 8), (8,), (8,)), ((3, 32, 3, 5), (32,), (32,))
NORMS = [
    Pair("group_norm", lambda x, w, b: ft.group_norm(x, 4, w, b),
         lambda x, w, b: F.group_norm(x, 4, w, b), _CHANNELS, False),
    Pair("group_norm-plain", lambda x: ft.group_norm(x, 4), lambda x: F.group_norm(x, 4),
         _CHANNELS[:1], False),
    Pair("group_norm-few-channels", lambda x, w, b: ft.group_norm(x, 2, w, b),
         lambda x, w, b: F.group_norm(x, 2, w, b), ((2, 4, 3, 5), (4,), (4,)), False),
    Pair("group_norm_swish", lambda x, w, b: ft.group_norm_swish(x, 4, w, b),
         lambda x, w, b: F.silu(F.group_norm(x, 4, w, b)), _CHANNELS, False),
    Pair("layer_norm", lambda x, w, b: ft.layer_norm(x, (8,), w, b),
         lambda x, w, b: F.layer_norm(x, (8,), w, b), _LANES, False),
    Pair("layer_norm-two-axes", lambda x, w, b: ft.layer_norm(x, (4, 8), w, b),
         lambda x, w, b: F.layer_norm(x, (4, 8), w, b), ((5, 4, 8), (4, 8), (4, 8)), False),
    Pair("layer_norm-bias", lambda x, b: ft.layer_norm(x, (8,), None, b),
         lambda x, b: F.layer_norm(x, (8,), None, b), _LANES[:2], False),
    Pair("rms_norm", lambda x, w: ft.rms_norm(x, (8,), w), lambda x, w: F.rms_norm(x, (8,), w),
         _LANES[:2], False),
    Pair("add_layer_norm", lambda x, r, w, b: ft.add_layer_norm(x, r, (8,), w, b),
         _stock_add_layer_norm, ((5, 8), *_LANES), False),
    Pair("add_rms_norm", lambda x, r, w: ft.add_rms_norm(x, r, (8,), w), _stock_add_rms_norm,
         ((5, 8), *_LANES[:2]), False),
    Pair("batch_norm", lambda x, w, b: ft.batch_norm(x, None, None, w, b, True),
         lambda x, w, b: F.batch_norm(x, None, None, w, b, True), _CHANNELS, False),
    Pair("batch_norm-two-axes", lambda x, w, b: ft.batch_norm(x, None, None, w, b, True),
         lambda x, w, b: F.batch_norm(x, None, None, w, b, True), _LANES, False),
    Pair("batch_norm-inference",
         lambda x, w, b: ft.batch_norm(x, *_running(x), w, b),
         lambda x, w, b: F.batch_norm(x, *_running(x), w, b),
         _CHANNELS, False),
    Pair("instance_norm", lambda x, w, b: ft.instance_norm(x, None, None, w, b),
         lambda x, w, b: F.instance_norm(x, None, None, w, b), _CHANNELS, False),
]  # fmt: skip

PAIRS = [*ACTIVATIONS, *GATED, *LOSSES, *NORMS]
