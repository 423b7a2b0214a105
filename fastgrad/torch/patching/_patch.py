"""`patch` and `unpatch`: a model's modules get fastgrad's forward, and theirs back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from . import _fused
from ._classes import Patched, base_of_torch, is_patched, patched_class, sites_of
from ._known import known
from ._report import Left, Replaced, Report
from ._roles import activation_of, norm_of
from ._share import share_of
from ._source import UnreadableError

__all__ = ["patch", "unpatch"]

#: Whose slope can be told from the result, so that nothing is copied when it is written over the input.
_IN_PLACE = (nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.LeakyReLU)
#: A class so named is expected to be replaced: where it is not, the report says why.
_EXPECTED = re.compile(r"Norm|G[Ee]LU|SiLU|Swish|Mish|GLU|Activation")


def patch(model: nn.Module, *, measure: Callable[[], Any] | None = None) -> Report:
    """Give the modules of a model fastgrad's kernels, in place.

    A module keeps its identity, its parameters, its buffers, its hooks and its name; its class becomes
    a subclass of the one that it had, which overrides forward. `state_dict` is what it was, an optimizer
    goes on with its parameters, and a pickled or copied model is a patched one.

    - Activations, norms and losses of `torch.nn`, and subclasses that keep their forward. Dropout is left:
      its random numbers would be others.
    - Calls of activations and norms of `torch.nn.functional` in a forward.
    - Modules of other packages and yours whose forward says the same as one that is known, such as the
      RMS norms and activations of `transformers`; no package is imported for it.
    - Modules that follow each other, in `nn.Sequential` or in a forward that can be read: GroupNorm and
      SiLU, Linear and its activation, an addition and its norm, an activation and the product after it.
      Whether they are fused is decided at each call: not under autocast, not where one has a hook.

    Parameters
    ----------
    model : nn.Module
        On the CPU; what is elsewhere is left.
    measure : callable, optional
        Runs one step, forward and backward. It is called twice, before anything is replaced, and tells
        `Report.share`; that is an estimate, of whole modules, without what is fused into their neighbours.

    Returns
    -------
    Report
        What is replaced, what is left and why.

    Raises
    ------
    TypeError
        If `model` is no module.
    """
    _check(model)
    report = Report()
    plans = [plan for name, module in model.named_modules() for plan in _plan(name, module, report)]
    if measure is not None:
        report.share = share_of(measure, [plan.module for plan in plans if not plan.is_container])
    for plan in plans:
        plan.module.__class__ = plan.cls
        was = _name_of(plan.cls._fastgrad_original)
        report.replaced.append(Replaced(plan.name, was, plan.now))
    return report


def unpatch(model: nn.Module) -> None:
    """Give the modules of a model the classes that they had before `patch`.

    Parameters
    ----------
    model : nn.Module
        Patched or not, in whole or in part.

    Raises
    ------
    TypeError
        If `model` is no module.
    RuntimeError
        If something has derived a class from a patched one since, as `torch.nn.utils.parametrize`
        does: undo that first. Nothing is changed then.
    """
    _check(model)
    modules = list(model.named_modules())
    for name, module in modules:
        if isinstance(module, Patched) and not is_patched(module):
            raise RuntimeError(
                f"{name or 'the model'} is a {type(module).__name__}, derived from what patch made: undo "
                f"that (for a parametrization torch.nn.utils.parametrize.remove_parametrizations), then "
                f"unpatch"
            )
    for _, module in modules:
        if is_patched(module):
            module.__class__ = type(module)._fastgrad_original


def _check(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")


@dataclass
class _Plan:
    """What a module is to become."""

    name: str
    module: nn.Module
    cls: Any
    now: str
    is_container: bool


def _plan(name: str, module: nn.Module, report: Report) -> Iterator[_Plan]:
    """At most one; what speaks against it goes into the report."""
    if isinstance(module, Patched):
        return
    original: Any = type(module)
    reason = _refusal(module)
    cls = None
    if reason is None:
        try:
            cls = patched_class(original)
        except UnreadableError as error:
            reason = str(error)
    if cls is None:
        if _is_expected(module, reason):
            reason = reason or "its forward is not one that fastgrad knows"
            report.left.append(Left(name, _name_of(original), reason))
        return
    base = base_of_torch(original)
    if base is not None:
        yield _Plan(name, module, cls, f"fastgrad.torch.{base.__name__}", False)
    elif (now := _known_name(module)) is not None:
        if now:
            yield _Plan(name, module, cls, f"fastgrad.torch.{now}", False)
        elif _EXPECTED.search(original.__name__):
            reason = "a configuration that fastgrad has no kernel for"
            report.left.append(Left(name, _name_of(original), reason))
    else:
        fused = list(_fusions(name, module, report))
        if fused:
            yield _Plan(name, module, cls, ", ".join(fused), True)


def _refusal(module: nn.Module) -> str | None:
    """What of this very module forbids another class."""
    if isinstance(module, torch.jit.ScriptModule):
        return "a ScriptModule"
    if "forward" in module.__dict__:
        return "its forward is set on the object"
    if getattr(module, "inplace", False) is True and not isinstance(module, _IN_PLACE):
        return "inplace=True"
    if getattr(module, "_compiled_call_impl", None) is not None:
        return "compiled by Module.compile"
    if parametrize.is_parametrized(module):
        return "parametrized"
    for parameter in module.parameters(recurse=False):
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            return "lazy, and not initialised"
        if parameter.device.type not in ("cpu", "meta"):
            return f"its parameters are on {parameter.device}"
    return None


def _is_expected(module: nn.Module, reason: str | None) -> bool:
    """Whether the report owes a reason."""
    cls = type(module)
    if cls.__module__.startswith("fastgrad."):
        return False
    if base_of_torch(cls) is not None:
        return True
    if cls.__module__.startswith("torch."):
        return False
    if _EXPECTED.search(cls.__name__) and next(module.children(), None) is None:
        return True
    # A container that could not be read, of modules that might be fused.
    return reason is not None and any(
        norm_of(child) or activation_of(child) for child in module.children()
    )


def _known_name(module: nn.Module) -> str | None:
    """What a module of known text becomes: "" if nothing, None if its text is not known."""
    found = known(type(module).forward)
    if found is None:
        return None
    if found.what == "linear_quick_gelu":
        return "quick_gelu"
    if found.what.startswith("rms_norm"):
        return "rms_norm" if norm_of(module) else ""
    return activation_of(module) or ""


def _fusions(name: str, module: nn.Module, report: Report) -> Iterator[str]:
    """What its forward fuses, as the module is now."""
    for kind, steps in _sites(module):
        taken = False
        for place, (label, step) in enumerate(steps):
            follows = steps[place + 1 : place + 2] if kind in ("chain", "norm_add") else []
            if taken:  # by the one before
                taken = False
                continue
            what = _what(kind, step, *[own for _, own in follows])
            watched = [own for own, one in [(label, step), *follows] if _fused.is_watched(one)]
            if what is not None and not watched:
                taken = bool(follows)
                yield f"{what}({', '.join(own for own, _ in [(label, step), *follows])})"
            elif what is not None:
                reason = f"{what} not fused: a hook, or another forward, on {', '.join(watched)}"
                report.left.append(Left(name, _name_of(type(module)), reason))
            elif kind in ("chain", "call", "norm_add") and _fused.counterpart(step) is not step:
                yield _fused.counterpart(step).__name__


def _what(kind: str, step: Any, *follows: Any) -> str | None:
    if kind == "chain":
        return _fused.pairs(step, *follows) if follows else None
    if kind == "norm_add":
        return (_fused.ends(step, *follows) or _fused.adds(step)) if follows else None
    if kind == "add_norm":
        return _fused.adds(step)
    return _fused.gates(step) if kind == "gated" else None


def _sites(module: nn.Module) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """The kind of a place where modules meet, their names and themselves."""
    cls: Any = type(module)
    if isinstance(module, nn.Sequential) and cls.forward is nn.Sequential.forward:
        yield "chain", [(key, own) for key, own in module._modules.items() if own is not None]
        return
    for site in sites_of(cls):
        yield site.kind, [_step(module, step) for step in site.steps]


def _step(module: nn.Module, step: Any) -> tuple[str, Any]:
    if not isinstance(step, tuple):
        return step.__name__, step
    found: Any = module
    for name in step:
        found = getattr(found, name, None)
    return ".".join(step), found


def _name_of(cls: type) -> str:
    return f"{cls.__module__.split('.')[0]}.{cls.__name__}"
