"""Forward and backward in one kernel each: gated units, an addition before an activation, a user's own.

Results are new arrays for everyone (mode "allocate"), as in a training step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import fastgrad
from fastgrad.bench.forms import ELEMENTWISE, Form, Shaped, a_row, doubled
from fastgrad.bench.fused_references import PackedReference
from fastgrad.bench.references import Reference, SumReference
from fastgrad.bench.workload import BEYOND_CACHE, Selection, Workload
from fastgrad.functional._gated import _glu


@fastgrad.elementwise
def own(x):
    """What a user may come with: five vector instructions that no library has a kernel for."""
    return 0.9 * x * fastgrad.maths.sigmoid(1.3 * x + 0.2)


@dataclass(frozen=True)
class Fused:
    """An operator that is run forward and backward.

    Parameters
    ----------
    operator : Operator
        Of fastgrad.
    keywords : mapping
        What it is told besides arrays.
    packed : str
        Which half of one array is the gate, ``"first"`` or ``"last"``; empty where the operands are two.
    summed : str
        The operand that is one row, added to all; its gradient is a sum.
    name : str
        Of the functions, forward and `_grad`, that a user calls where the operator is not given to him.
    """

    operator: fastgrad.Operator
    keywords: Mapping[str, Any] = field(default_factory=dict)
    packed: str = ""
    summed: str = ""
    name: str = ""

    @property
    def operands(self) -> tuple[str, ...]:
        return ("packed",) if self.packed else self.operator.arrays

    @property
    def form(self) -> Form:
        if self.packed:
            return Shaped((("packed", doubled),))
        return Shaped(((self.summed, a_row),), least_axes=2) if self.summed else ELEMENTWISE

    @property
    def arrays_moved(self) -> int:
        """Each array once in either direction, a packed one as two, a row not at all."""
        operands = 2 if self.packed else len(self.operands) - bool(self.summed)
        return (operands + 1) + (operands + 1 + operands)

    def references(self) -> tuple[Any, ...]:
        """What its results are: y, and the gradient of each operand."""
        choices = tuple(self.keywords.items())
        if self.packed:
            halves = (self.operator, choices, self.packed)
            return PackedReference(*halves), PackedReference(*halves, is_gradient=True)
        gradients = {name: Reference(self.operator, name, choices) for name in self.operands}
        return Reference(self.operator, "", choices), *(
            SumReference(one) if name == self.summed else one for name, one in gradients.items()
        )


#: By the name of the workload.
FUSED: dict[str, Fused] = {
    "swiglu_forward_backward": Fused(fastgrad.swiglu),
    "swiglu_packed_forward_backward": Fused(fastgrad.swiglu, packed="first"),
    "geglu_forward_backward": Fused(fastgrad.geglu),
    "geglu_tanh_forward_backward": Fused(fastgrad.geglu, {"approximate": "tanh"}),
    "reglu_forward_backward": Fused(fastgrad.reglu),
    "glu_forward_backward": Fused(_glu, packed="last", name="glu"),
    "add_gelu_forward_backward": Fused(fastgrad.add_gelu, summed="bias"),
    "add_swish_forward_backward": Fused(fastgrad.add_swish, summed="bias"),
    "add_relu_forward_backward": Fused(fastgrad.add_relu, summed="bias"),
    "own_operator_forward_backward": Fused(own),
}

_BEYOND_CACHE: Selection = {"float32": (BEYOND_CACHE,), "bfloat16": (BEYOND_CACHE,)}

# Where a number is to be reached, and beside whom.
_SELECTIONS: dict[str, Selection] = {
    "swiglu_forward_backward": _BEYOND_CACHE,
    "add_gelu_forward_backward": _BEYOND_CACHE,
    "own_operator_forward_backward": _BEYOND_CACHE,
}
_BESIDE_ALL: dict[str, Selection] = {"own_operator_forward_backward": _BEYOND_CACHE}


def _workload(name: str, fused: Fused) -> Workload:
    return Workload(
        ("dy", *fused.operands),
        fused.arrays_moved,
        fused.references(),
        modes=("allocate",),
        selection=_SELECTIONS.get(name, {"float32": (BEYOND_CACHE,)}),
        beside_all=_BESIDE_ALL.get(name, {}),
        sizes=((64, 4096), BEYOND_CACHE),
        form=fused.form,
        family="fused",
    )


FUSED_WORKLOADS: dict[str, Workload] = {name: _workload(name, one) for name, one in FUSED.items()}
