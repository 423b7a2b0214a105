"""The backward of every other activation: one kernel each, beside PyTorch's own where it has one."""

from __future__ import annotations

import fastgrad
from fastgrad.bench.forms import Shape, Shaped, one_number
from fastgrad.bench.references import Reference, SumReference
from fastgrad.bench.workload import BEYOND_CACHE, IN_CACHE, Selection, Workload

#: Those of one array, by their names here and in PyTorch.
NAMES = (
    *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "squared_relu"),
    *("quick_gelu", "mish", "hardswish", "hardsigmoid", "hardtanh", "hardshrink", "softshrink"),
    *("sigmoid", "logsigmoid", "tanh", "tanhshrink", "softplus", "softsign"),
)

#: From the smallest size that a number to reach is about to that beyond the cache.
ACTIVATION_SIZES: tuple[Shape, ...] = ((4096,), (1 << 16,), IN_CACHE, BEYOND_CACHE)

# There are many: a run without filters measures what the numbers to reach name.
_SELECTION: Selection = {"float32": (BEYOND_CACHE,), "bfloat16": (BEYOND_CACHE,)}


def _gradient(name: str) -> Workload:
    return Workload(
        ("dy", "x"),
        3,
        (Reference(getattr(fastgrad, name), "x"),),
        modes=("out", "allocate"),
        selected_modes=("out",),
        selection=_SELECTION,
        beside_all={},
        sizes=ACTIVATION_SIZES,
    )


ACTIVATION_GRADIENTS: dict[str, Workload] = {
    **{f"{name}_grad": _gradient(name) for name in NAMES},
    "prelu_grad": Workload(
        ("dy", "x", "weight"),
        3,
        (Reference(fastgrad.prelu, "x"), SumReference(Reference(fastgrad.prelu, "weight"))),
        modes=("out", "allocate"),
        selected_modes=("out",),
        selection=_SELECTION,
        beside_all={},
        sizes=ACTIVATION_SIZES,
        form=Shaped((("weight", one_number),)),
    ),
}

#: Every activation's backward: what the numbers to reach about all of them count.
GRADIENTS = ("swish_grad", "gelu_grad", "gelu_tanh_grad", *ACTIVATION_GRADIENTS)
