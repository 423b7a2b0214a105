"""The class that a module gets, made of the class that it has.

It is a subclass that overrides forward, of the same name: `isinstance`, what goes by the name of a
class, parameters, hooks and `state_dict` stay as they were. It depends on the original class alone, so
that a pickle names that one and nothing that was made at run time.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

import torch
from torch import nn

from .. import functional as ours
from .. import modules as drop_ins
from . import _fused
from ._known import Known, known
from ._rewrite import HELPERS, Rewritten, Site, rewrite
from ._roles import ACTIVATIONS, activation_of_kind, norm_of
from ._source import UnreadableError, innermost

__all__ = ["Patched", "base_of_torch", "is_patched", "patched_class", "sites_of"]

#: Not Dropout: a seed gives other random numbers than PyTorch's.
_DROP_INS = {
    getattr(nn, name): getattr(drop_ins, name)
    for name in drop_ins.__all__
    if hasattr(nn, name) and name != "Dropout"
}


class Patched:
    """Marks a module that `patch` replaced the class of."""

    _fastgrad_original: type

    def _get_name(self) -> str:
        return f"{self._fastgrad_original.__name__}[fastgrad]"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As a module that is made by its original class and patched then."""
        return _rebuild, (self._fastgrad_original,), self.__getstate__()


def _rebuild(original: type) -> Any:
    cls: Any = patched_class(original) or original
    return cls.__new__(cls)


def is_patched(module: Any) -> bool:
    """Whether its very class is one that `patch` gave it."""
    return "_fastgrad_original" in type(module).__dict__


def base_of_torch(cls: type) -> type | None:
    """The class of `torch.nn`, one that fastgrad has too, which a class is derived from."""
    return next((base for base in cls.__mro__ if base in _DROP_INS), None)


@functools.cache
def patched_class(original: type) -> type | None:
    """The subclass with fastgrad's forward, or None where there is nothing to replace.

    Raises
    ------
    UnreadableError
        If the forward cannot be rewritten; it says why.
    """
    base = base_of_torch(original)
    if base is not None:
        if issubclass(original, _DROP_INS[base]):
            return None
        if original.forward is not base.forward:  # type: ignore[attr-defined]
            raise UnreadableError("its class has a forward of its own")
        return _make(original, (_DROP_INS[base],), {})
    if issubclass(original, nn.Sequential) and original.forward is nn.Sequential.forward:
        return _make(original, (), {"forward": _sequential})
    found = known(original.forward)  # type: ignore[attr-defined]
    if found is not None:
        return _make(original, (), {"forward": _forward_of(found, original)})
    methods = {name: own.function for name, own in _rewritten(original).items()}
    return _make(original, (), {**methods, HELPERS: _fused}) if methods else None


def sites_of(original: type) -> list[Site]:
    """Where modules meet in the methods of a class."""
    return [site for own in _rewritten(original).values() for site in own.sites]


def _make(original: type, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    given = {
        **namespace,
        "_fastgrad_original": original,
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
    }
    # A drop-in is a subclass of torch's: before the original, its forward is the one that is found.
    ancestors = [*bases] if bases and issubclass(bases[0], original) else [*bases, original]
    try:
        return type(original)(original.__name__, (Patched, *ancestors), given)
    except Exception as error:  # what a metaclass or __init_subclass__ of yours objects to
        raise UnreadableError(f"no class can be derived from its class: {error}") from error


@functools.cache
def _rewritten(original: type) -> dict[str, Rewritten]:
    """Forward, and the methods that it calls, each with its sites."""
    found, names, seen = {}, ["forward"], set()
    while names:
        name = names.pop()
        method = getattr(original, name, None)
        function = innermost(method) if callable(method) else None
        is_own = isinstance(function, FunctionType) and not hasattr(nn.Module, name)
        if name in seen or not (is_own or name == "forward"):
            continue
        seen.add(name)
        if name != "forward" and known(method) is not None:
            continue  # an activation, which is recognised by its text where it is called
        try:
            own = rewrite(method)
        except UnreadableError:
            if name == "forward":
                raise
            continue
        if own is not None:
            found[name] = own
        assert isinstance(function, FunctionType)
        names += [called for called in function.__code__.co_names if called not in seen]
    return found


def _sequential(self: Any, input: Any) -> Any:
    return _fused.chain(input, *self)


def _forward_of(found: Known, original: type) -> Any:
    stock = original.forward  # type: ignore[attr-defined]
    if found.what == "linear_quick_gelu":
        return _linear_quick_gelu(found)
    if found.what.startswith("rms_norm"):
        return _rms_norm(stock)
    return _activation(found, stock)


def _linear_quick_gelu(found: Known) -> Any:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        x = getattr(self, found.attributes[0])(x)
        return ours.quick_gelu(x) if _fused.are_plain(x) else x * torch.sigmoid(1.702 * x)

    return forward


def _rms_norm(stock: Any) -> Any:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        norm = norm_of(self)
        if norm is None or not _fused.fits(norm, x):
            return stock(self, x)
        assert norm.eps is not None
        return ours.rms_norm(x, norm.shape, norm.weight, norm.eps)

    return forward


def _activation(found: Known, stock: Any) -> Any:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        what = activation_of_kind(found, self)
        if what is None or not _fused.are_plain(x):
            return stock(self, x)
        return ACTIVATIONS[what](x)

    return forward
