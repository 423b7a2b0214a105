"""Operators of `torch.library`: what `torch.compile` and `torch.export` see of an adapter.

``torch.ops.fastgrad.<name>`` takes the tensors and options of the adapter, ``<name>_backward`` the incoming
gradients, the tensors, what was kept, the options, and which gradients are needed, and returns those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from ._adapter import Adapter

__all__ = ["Registered", "register"]

_NAMESPACE = "fastgrad"
#: One for each name: what it registers is gone with it.
_libraries: dict[str, torch.library.Library] = {}


class Registered(NamedTuple):
    """The two operators of an adapter."""

    forward: Any
    backward: Any


def register(adapter: Adapter) -> Registered:
    """Make the operators of an adapter, in place of those of the same name, if there are any."""
    name = adapter.name
    if name in _libraries:
        _libraries.pop(name)._destroy()
    library = _libraries[name] = torch.library.Library(_NAMESPACE, "FRAGMENT")
    _define_forward(library, adapter)
    _define_backward(library, adapter)
    namespace = getattr(torch.ops, _NAMESPACE)
    packet, backward = getattr(namespace, name), getattr(namespace, f"{name}_backward")
    return Registered(packet.default, backward.default)


def _arguments(names: Sequence[str]) -> list[str]:
    """Tensors as a schema has them; ``?`` after a name says that it may be None."""
    return [f"Tensor? {n[:-1]}" if n.endswith("?") else f"Tensor {n}" for n in names]


def _define_forward(library: torch.library.Library, adapter: Adapter) -> None:
    name, count = adapter.name, len(adapter.tensors)
    found = adapter.results + len(adapter.kept)
    returns = "Tensor" if found == 1 else f"({', '.join(['Tensor'] * found)})"
    arguments = [*_arguments(adapter.tensors), *adapter.options]
    library.define(f"{name}({', '.join(arguments)}) -> {returns}")

    def kernel(*given: Any) -> Any:
        results = adapter.forward(given[:count], given[count:])
        return results[0] if found == 1 else tuple(results)

    def fake(*given: Any) -> Any:
        results = adapter.fake(given[:count], given[count:])
        return results[0] if found == 1 else tuple(results)

    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        kept = () if found == 1 else output[adapter.results :]
        outputs = (output,) if found == 1 else output
        ctx.save_for_backward(*adapter.saved(inputs[:count], outputs), *kept)
        ctx.options = tuple(inputs[count:])
        if kept:
            ctx.mark_non_differentiable(*kept)

    def backward(ctx: Any, *dys: Any) -> tuple:
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad[:count]
        gradients = _gradients(
            adapter, dys[: adapter.results], saved[:count], saved[count:], ctx.options, needs
        )
        return (*gradients, *(None for _ in ctx.options))

    qualified = f"{_NAMESPACE}::{name}"
    library.impl(name, kernel, "CPU")
    torch.library.register_fake(qualified, fake, lib=library)
    torch.library.register_autograd(qualified, backward, setup_context=setup_context, lib=library)


def _gradients(
    adapter: Adapter, dys: tuple, tensors: tuple, kept: tuple, options: tuple, needs: Sequence[bool]
) -> list[torch.Tensor | None]:
    """The gradient of each tensor, by the backward operator, or so that it can be differentiated."""
    if torch.is_grad_enabled():
        return adapter.differentiable_backward(dys, tensors, kept, options, needs)
    own = list(needs)
    for place, like in adapter.same.items():  # an operator may not return one tensor twice
        own[like], own[place] = own[like] or own[place], False
    found = iter(adapter.op_backward(*dys, *tensors, *kept, *options, own))
    gradients = [next(found) if need else None for need in own]
    for place, like in adapter.same.items():
        gradients[place] = gradients[like]
    return [gradient if need else None for gradient, need in zip(gradients, needs, strict=True)]


def _define_backward(library: torch.library.Library, adapter: Adapter) -> None:
    name = f"{adapter.name}_backward"
    ends = (adapter.results, len(adapter.tensors), len(adapter.kept))
    dys = ["dy"] if adapter.results == 1 else [f"dy{i}" for i in range(adapter.results)]
    # What is not kept for backward is None there.
    own = [f"{name.removesuffix('?')}?" for name in adapter.tensors]
    tensors = _arguments([*dys, *own, *adapter.kept])
    library.define(f"{name}({', '.join([*tensors, *adapter.options])}, bool[] needs) -> Tensor[]")

    def split(given: tuple) -> tuple:
        parts, start = [], 0
        for count in ends:
            parts.append(given[start : start + count])
            start += count
        return (*parts, given[start:-1], given[-1])

    def kernel(*given: Any) -> list[torch.Tensor]:
        found = adapter.backward(*split(given))
        return [gradient for gradient in found if gradient is not None]

    def fake(*given: Any) -> list[torch.Tensor]:
        dys, tensors, _, _, needs = split(given)
        return [
            torch.empty_like(dys[0] if tensor is None else tensor)
            for tensor, need in zip(tensors, needs, strict=True)
            if need
        ]

    library.impl(name, kernel, "CPU")
    torch.library.register_fake(f"{_NAMESPACE}::{name}", fake, lib=library)
