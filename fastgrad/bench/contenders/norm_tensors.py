"""Norms of PyTorch tensors, whoever wrote them: forward, and backward by autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fastgrad.bench.contenders import norm_code, tensors
from fastgrad.bench.contenders.norm_code import norm_and_sum
from fastgrad.bench.contenders.protocol import Prepared
from fastgrad.bench.norms import NormCall


def view_of(call: NormCall) -> tensors.View:
    return tensors.CHANNELS_LAST if call.norm.channels_last else tensors.AS_STORED


def prepare(
    call: NormCall, function: Callable[..., Any], inputs: dict[str, np.ndarray], code: str
) -> Prepared:
    """Bind `inputs` to what `call` asks of `function`."""
    view = view_of(call)
    function = functools.partial(function, **norm_code.keywords(call))
    if call.direction == "both":
        return tensors.prepare_forward_backward(function, inputs, code, view)
    if call.direction == "gradient":
        function = functools.partial(norm_and_sum, function) if call.of_sum else function
        return tensors.prepare_gradient(function, inputs, code, view)
    operands = [view.of_stored(tensors.to_tensor(array)) for array in inputs.values()]

    def arrays(results: Any) -> tuple[np.ndarray, ...]:
        several = results if isinstance(results, tuple) else (results,)
        return tensors.to_arrays(map(view.stored, several))

    return Prepared(functools.partial(function, *operands), arrays, code)
