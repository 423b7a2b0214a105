"""`Adapter`: a fastgrad operator as a function of tensors, eager, compiled and exported.

An adapter says what forward and backward are on arrays. From that come

- the eager way, one `autograd.Function` for all operators, which saves inputs and statistics alone;
- an operator of `torch.library` with a fake kernel and a gradient (`_library.py`), for what sees no
  arrays: `torch.compile`, `torch.export`, `torch.func`, fake and meta tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from ._devices import check_devices, is_elsewhere
from ._library import Registered, register

__all__ = ["Adapter", "Tensors"]

#: Tensors of a call; None for those that are left out.
Tensors = Sequence[Any]

_is_compiling = torch.compiler.is_compiling
_strided = torch.strided
_is_grad_enabled = torch.is_grad_enabled
_has_mode = torch._C._len_torch_dispatch_stack
_has_transform = torch._C._are_functorch_transforms_active
#: What an eager call may be given: other classes may have a meaning of their own (fake, distributed, …).
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})


class Adapter:
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

    def forward(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """The results, then what is kept for backward."""
        raise NotImplementedError

    def backward(
        self,
        dys: Tensors,
        tensors: Tensors,
        kept: Tensors,
        options: tuple,
        needs: Sequence[bool],
    ) -> list[torch.Tensor | None]:
        """The gradient of each tensor that needs one."""
        raise NotImplementedError

    def fake(self, tensors: Tensors, options: tuple) -> tuple[torch.Tensor, ...]:
        """Tensors such as `forward` returns, without values."""
        raise NotImplementedError

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
        if _is_compiling():
            return self._dispatched(tensors, options)
        needs_grad = False
        for tensor in tensors:
            if tensor is not None:
                if type(tensor) not in _PLAIN or not tensor.is_cpu or tensor.layout is not _strided:
                    return self._dispatched(tensors, options)
                needs_grad = needs_grad or tensor.requires_grad
        if _has_mode() or _has_transform():
            return self._dispatched(tensors, options)
        if needs_grad and _is_grad_enabled():
            return _apply(self, options, *tensors)
        return self._one(self.forward(tensors, options))

    def in_place(self, x: torch.Tensor, options: tuple, from_result: bool) -> torch.Tensor:
        """The value, written over the tensor.

        Backward needs what it was, so a copy of it is kept as PyTorch does, unless `from_result` says that
        the slope is the same at the result.
        """
        needs_grad = _is_grad_enabled() and x.requires_grad
        if needs_grad and x.is_leaf:  # told before anything is written
            raise RuntimeError(
                f"input of fastgrad.torch.{self.name} is a leaf that requires a gradient: it cannot be "
                f"written in place"
            )
        is_plain = type(x) in _PLAIN and x.is_cpu and x.layout is _strided
        if is_plain and not (_is_compiling() or _has_mode() or _has_transform()):
            if not needs_grad:
                self.write(x, options)
                torch.autograd.graph.increment_version(x)
                return x
            if from_result:
                return _InPlace.apply(self, options, x)
        return x.copy_(self((x.clone() if needs_grad else x,), options))

    def write(self, x: torch.Tensor, options: tuple) -> None:
        """Write the value over the only tensor."""
        raise NotImplementedError

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


class _InPlace(torch.autograd.Function):
    """An operator written over its only tensor, whose slope can be told from the result."""

    @staticmethod
    def forward(ctx: Any, adapter: Adapter, options: tuple, x: torch.Tensor) -> torch.Tensor:
        adapter.write(x, options)
        ctx.adapter, ctx.options = adapter, options
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple:
        adapter: Adapter = ctx.adapter
        way = adapter.differentiable_backward if _is_grad_enabled() else adapter.backward
        return (None, None, *way((dy,), ctx.saved_tensors, (), ctx.options, (True,)))


# `Function.apply` first asks what the call has asked already, for 2 µs: whether there is a transform.
_apply = super(torch.autograd.Function, _Eager).apply
