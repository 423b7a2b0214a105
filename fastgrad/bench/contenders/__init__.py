"""Who is measured: one entry and one module each.

A module holds `OPERATORS`, the workloads that it takes part in; `start(threads)`, which sets its
library up and returns versions; and `prepare(case, inputs)`, which returns a `Prepared`, or raises
`Unsupported` for a dtype or mode that its library does not have (see `protocol`). It is imported in
the contender's own process alone; a library that is missing there is `CannotStart`, with advice.

Mode "out" asks for a result in memory that was there before. JAX is given such memory by donation;
a library that has neither is measured by the call that its user writes instead, into a new array.

A library whose freed memory the system does not see again says so by `POOLS_MEMORY = True`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["CONTENDERS", "SELF", "Contender"]


@dataclass(frozen=True)
class Contender:
    """Where a contender's code is, what it stands for, and the environment of its process."""

    module: str
    about: str
    environment: Mapping[str, str] = field(default_factory=dict)


#: The contender that every other one is a ratio to.
SELF = "fastgrad"

CONTENDERS: dict[str, Contender] = {
    SELF: Contender("fastgrad.bench.contenders.fastgrad_", "this library, NumPy arrays"),
    "torch": Contender("fastgrad.bench.contenders.torch_", "PyTorch's own kernels (aten)"),
    "torch-thp": Contender(
        "fastgrad.bench.contenders.torch_",
        "the same, its memory in huge pages",
        {"THP_MEM_ALLOC_ENABLE": "1"},
    ),
    "composed": Contender(
        "fastgrad.bench.contenders.composed", "PyTorch autodiff of the idiomatic code"
    ),
    "compiled": Contender(
        "fastgrad.bench.contenders.compiled", "torch.compile of the idiomatic code"
    ),
    "jax": Contender("fastgrad.bench.contenders.jax_", "JAX, jit of vjp"),
    "mindspore": Contender("fastgrad.bench.contenders.mindspore_", "MindSpore, graph mode"),
    "autograd": Contender(
        "fastgrad.bench.contenders.autograd_", "NumPy with HIPS autograd, one thread"
    ),
}
