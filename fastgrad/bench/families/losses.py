"""Elementwise losses, their mean: value and gradient in one pass."""

from __future__ import annotations

import fastgrad
from fastgrad.bench.forms import Shaped, nothing
from fastgrad.bench.fused_references import LossReference
from fastgrad.bench.workload import BEYOND_CACHE, IN_CACHE, Workload

#: By the name of the workload, the name here and the operator of a call without options.
LOSSES: dict[str, tuple[str, fastgrad.LossOperator]] = {
    "mse_value_and_grad": ("mse_loss", fastgrad.mse_loss),
    "huber_value_and_grad": ("huber_loss", fastgrad.huber_loss),
    "bce_with_logits_value_and_grad": (
        "binary_cross_entropy_with_logits",
        fastgrad.binary_cross_entropy_with_logits.operators[0],
    ),
}


def _workload(operator: fastgrad.LossOperator) -> Workload:
    return Workload(
        ("x", "target"),
        3,
        (LossReference(operator), LossReference(operator, "x")),
        modes=("allocate",),
        selection={"float32": (BEYOND_CACHE,)},
        beside_all={},
        sizes=(IN_CACHE, BEYOND_CACHE),
        form=Shaped((("value", nothing),)),
        family="losses",
    )


LOSS_WORKLOADS: dict[str, Workload] = {
    name: _workload(operator) for name, (_, operator) in LOSSES.items()
}
