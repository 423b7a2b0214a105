"""Operators, dtypes and choices as a command line names them."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

import fastgrad

__all__ = ["AsJson", "OperatorName", "choices_of", "failed", "find"]

#: Help of the argument that names an operator.
OperatorName = typer.Argument(
    metavar="OP",
    help="An operator of fastgrad (gelu, swish_grad), module:name, or path/to/file.py:name.",
    show_default=False,
)
AsJson = typer.Option("--json", help="Print JSON.")


def failed(message: str) -> typer.Exit:
    """Print what a user got wrong; returns what to raise: exit code 2."""
    typer.echo(f"fastgrad: {message}", err=True)
    return typer.Exit(2)


def find(name: str) -> Any:
    """The operator that a user named.

    Raises
    ------
    typer.Exit
        If there is none: with the nearest names printed.
    """
    place, _, own = name.rpartition(":")
    value = _of_user(place, own) if place else _of_library(name)
    if not hasattr(value, "grad"):
        raise failed(f"{name} is no operator, but a {type(value).__name__}")
    return value


def _of_library(name: str) -> Any:
    known = {
        own: value
        for own, value in vars(fastgrad).items()
        if hasattr(value, "grad") and not isinstance(value, type)
    }
    own = name.removesuffix("_grad")
    if own in known:
        return known[own]
    near = difflib.get_close_matches(own, known, 3, 0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(sorted(known))}"
    raise failed(f"there is no operator {name!r}; {hint}")


def _of_user(place: str, name: str) -> Any:
    try:
        module = _loaded(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (ImportError, OSError) as error:
        raise failed(f"{place} cannot be imported: {error}") from None
    if not hasattr(module, name):
        near = difflib.get_close_matches(name, vars(module), 3, 0.5)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise failed(f"{place} has no {name!r}{hint}")
    return getattr(module, name)


def _loaded(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def choices_of(texts: Sequence[str]) -> dict[str, str]:
    """``approximate=tanh`` as a keyword."""
    pairs = [text.partition("=") for text in texts]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise failed(f"--choice takes name=value, as approximate=tanh, got {name}{sign}{value}")
    return {name: value for name, _, value in pairs}
