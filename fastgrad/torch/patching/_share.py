"""Which share of a step some modules take, by PyTorch's profiler."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

__all__ = ["share_of"]

_STEP, _MODULE = "fastgrad: step", "fastgrad: module"
#: `torch.autograd.profiler_util`: the scope of a node of autograd's graph as it runs backward.
_BACKWARD = 1


def share_of(step: Callable[[], Any], modules: Iterable[nn.Module]) -> float:
    """An estimate: the profiler costs microseconds an operator, which weigh on small tensors.

    Forward is what runs inside of the modules. Backward are the nodes that forward made there, found by
    the number that the profiler gives both.
    """
    step()  # the first costs what later ones do not
    with contextlib.ExitStack() as stack:
        for module in modules:
            _mark(module, stack)
        profiler = stack.enter_context(torch.autograd.profiler.profile())
        with torch.autograd.profiler.record_function(_STEP):
            step()
    events: Any = profiler.function_events
    total = sum(event.cpu_time_total for event in events if event.name == _STEP)
    own = [e for e in events if e.name == _MODULE and not _is_within(e, _MODULE)]
    taken = sum(event.cpu_time_total for event in own)
    numbers = {
        child.sequence_nr
        for event in own
        for child in _descendants(event)
        if child.sequence_nr >= 0 and child.scope != _BACKWARD
    }
    taken += sum(
        event.cpu_time_total
        for event in events
        if event.scope == _BACKWARD
        and event.sequence_nr in numbers
        and not (event.cpu_parent is not None and event.cpu_parent.scope == _BACKWARD)
    )
    return float(taken / total) if total else 0.0


def _mark(module: nn.Module, stack: contextlib.ExitStack) -> None:
    """Calls of a module appear in the profile."""
    ranges: list[Any] = []

    def enter(*_: Any) -> None:
        ranges.append(torch.autograd.profiler.record_function(_MODULE).__enter__())

    def leave(*_: Any) -> None:
        ranges.pop().__exit__(None, None, None)

    stack.callback(module.register_forward_pre_hook(enter).remove)
    stack.callback(module.register_forward_hook(leave, always_call=True).remove)


def _is_within(event: Any, name: str) -> bool:
    while event.cpu_parent is not None:
        event = event.cpu_parent
        if event.name == name:
            return True
    return False


def _descendants(event: Any) -> Iterable[Any]:
    for child in event.cpu_children:
        yield child
        yield from _descendants(child)
