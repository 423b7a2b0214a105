"""`Adapter`: a fastgrad operator as a function of tensors, eager, compiled and exported.

An adapter says what forward and backward are on arrays. From that come

- the eager way, one `autograd.Function` for all operators, which saves inputs and statistics alone;
- an operator of `torch.library` with a fake kernel and a gradient (`_library.py`), for what sees no
  arrays: `torch.compile`, `torch.export`, `torch.func`, fake and meta tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from ._devices import check_devices, is_elsewhere
from ._library import Registered, register

__all__ = ["Adapter", "Tensors", "is_eager"]

#: Tensors of a call; None for those that are left out.
Tensors = Sequence[Any]

_is_compiling = torch.compiler.is_compiling
_strided = torch.strided
_is_grad_enabled = torch.is_grad_enabled
_has_mode = torch._C._len_torch_dispatch_stack
_has_transform = torch._C._are_functorch_transforms_active
#: What an eager call may be given: other classes may have a meaning of their own (fake, distributed, …).
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


def is_eager(tensors: Tensors) -> bool:
    """Whether these are plain tensors on the CPU, and nothing is at work that looks into operators."""
    if _is_compiling() or _has_mode() or _has_transform():
        return False
    for tensor in tensors:
        if tensor is not None and (
            type(tensor) not in _PLAIN or not tensor.is_cpu or tensor.layout is not _strided
        ):
            return False
    return True


class Adapter(ABC):
    """What every family of operators has in common.

    Parameters
    ----------
    name : str
        Of the operator in ``torch.ops.fastgrad``, and in errors.
    tensors : sequence of str
        Its tensors; a name that ends in ``?`` may be None.
    options : sequence of str
        Its other arguments as a schema has them: ``"float eps"``, ``"str approximate"``.
    results : int
        How many of what forward returns are results; the others are kept for backward.

    Attributes
    ----------
    same : mapping of int to int
        The places of tensors whose gradient is that of another one.
    shows_kept : bool
        Whether a call returns what is kept for backward, too.
    """

    shows_kept = False

    same: Mapping[int, int] = MappingProxyType({})

    def __init__(
        self, name: str, tensors: Sequence[str], options: Sequence[str] = (), results: int = 1
    ):
        self.name, self.results = name, results
        #: What computes it on another device, of the same tensors and options: see `set_other_devices`.
        self.stock: Callable | None = None
        self.tensors, self.options = tuple(tensors), tuple(options)
        self.kept = self._names_kept()
        self.shown = results + (len(self.kept) if self.shows_kept else 0)
        registered: Registered = register(self)
        #: The operators of `torch.library`.
        self.op, self.op_backward = registered.forward, registered.backward

    def _names_kept(self) -> tuple[str, ...]:
        """What forward returns after its results."""
        return ()

    # --- What a family says

    @abstractmethod
    def forward(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """The results, then what is kept for backward."""

    @abstractmethod
    def backward(
        self,
        dys: Tensors,
        tensors: Tensors,
        kept: Tensors,
        options: tuple,
        needs: Sequence[bool],
    ) -> list[torch.Tensor | None]:
        """The gradient of each tensor that needs one."""

    @abstractmethod
    def fake(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """Tensors such as `forward` returns, without values."""

    def differentiable_backward(
        self, dys: Tensors, tensors: Tensors, kept: Tensors, options: tuple, needs: Sequence[bool]
    ) -> list[torch.Tensor | None]:
        """As `backward`, where the gradient may be differentiated itself; here that is an error."""
        with torch.no_grad():
            gradients: list[Any] = self.backward(dys, tensors, kept, options, needs)
        places = [place for place, gradient in enumerate(gradients) if gradient is not None]
        message = (
            f"fastgrad's {self.name} has no second derivative: it reduces over elements. For a double "
            f"backward use PyTorch's own, or fastgrad.torch.unpatch(model)"
        )
        delayed = torch._C._functions.DelayedError(message, len(places))
        guarded: Any = delayed(*(gradients[place].detach().requires_grad_() for place in places))
        if len(places) == 1:  # then it is no tuple
            guarded = (guarded,)
        for place, gradient in zip(places, guarded, strict=True):
            gradients[place] = gradient
        return gradients

    def saved(self, tensors: Tensors, found: Tensors) -> Tensors:
        """What takes the place of the tensors in backward: mostly they themselves."""
        return tensors

    # --- The call

    def __call__(self, tensors: Tensors, options: tuple = ()) -> Any:
        """The result, or a tuple of the results."""
        if not is_eager(tensors):
            return self._dispatched(tensors, options)
        needs_grad = False
        for tensor in tensors:
            needs_grad = needs_grad or (tensor is not None and tensor.requires_grad)
        if needs_grad and _is_grad_enabled():
            return _apply(self, options, *tensors)
        return self._one(self.forward(tensors, options))

    def _dispatched(self, tensors: Tensors, options: tuple) -> Any:
        """By PyTorch's dispatcher, which knows of modes, transforms and tensors without values."""
        if self.stock is not None and is_elsewhere(tensors):
            return self.stock(*tensors, *options)
        check_devices(self.name, self.tensors, tensors)
        return self._one(self.op(*tensors, *options))

    def _one(self, found: Any) -> Any:
        if isinstance(found, torch.Tensor):
            return found
        return found[0] if self.shown == 1 else tuple(found[: self.shown])


class _Eager(torch.autograd.Function):
    """One node of autograd's graph."""

    @staticmethod
    def forward(ctx: Any, adapter: Adapter, options: tuple, *tensors: torch.Tensor | None) -> Any:
        found = adapter.forward(tensors, options)
        ctx.adapter, ctx.options = adapter, options
        if len(found) == 1:
            ctx.save_for_backward(*adapter.saved(tensors, found))
            return found[0]
        ctx.save_for_backward(*adapter.saved(tensors, found), *found[adapter.results :])
        if adapter.shows_kept:
            ctx.mark_non_differentiable(*found[adapter.results :])
        return found[0] if adapter.shown == 1 else found[: adapter.shown]

    @staticmethod
    def backward(ctx: Any, *dys: torch.Tensor) -> tuple:
        adapter, saved = ctx.adapter, ctx.saved_tensors
        count = len(adapter.tensors)
        way = adapter.differentiable_backward if _is_grad_enabled() else adapter.backward
        gradients = way(
            dys[: adapter.results],
            saved[:count],
            saved[count:],
            ctx.options,
            ctx.needs_input_grad[2:],
        )
        return (None, None, *gradients)


# `Function.apply` first asks what the call has asked already, for 1.5 µs: whether there is a transform.
_apply = super(torch.autograd.Function, _Eager).apply
