"""swish and gelu."""

from __future__ import annotations

import fastgrad
from fastgrad.bench.references import Reference
from fastgrad.bench.workload import FEATURE_MAP, IN_CACHE, MODES, Selection, Workload

# Forward and backward together is what autodiff is for.
_OF_BOTH: Selection = {
    "float32": (IN_CACHE, FEATURE_MAP),
    **dict.fromkeys(("bfloat16", "float16", "float64"), (FEATURE_MAP,)),
}

_SWISH, _SWISH_GRAD = Reference(fastgrad.swish), Reference(fastgrad.swish, "x")
_GELU, _GELU_GRAD = Reference(fastgrad.gelu), Reference(fastgrad.gelu, "x")
_GELU_TANH_GRAD = Reference(fastgrad.gelu, "x", (("approximate", "tanh"),))

ACTIVATIONS: dict[str, Workload] = {
    "swish_grad": Workload(("dy", "x"), 3, (_SWISH_GRAD,), modes=MODES),
    "silu": Workload(("x",), 2, (Reference(fastgrad.silu),)),
    "gelu": Workload(("x",), 2, (_GELU,)),
    "gelu_grad": Workload(("dy", "x"), 3, (_GELU_GRAD,), modes=("out", "in-place")),
    "gelu_tanh_grad": Workload(("dy", "x"), 3, (_GELU_TANH_GRAD,)),
    "swish_forward_backward": Workload(
        ("dy", "x"),
        5,
        (_SWISH, _SWISH_GRAD),
        modes=("allocate",),
        selection=_OF_BOTH,
        beside_all=_OF_BOTH,
    ),
}
