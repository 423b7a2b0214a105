"""`fastgrad warmup`: compile kernels ahead of the first call."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import fastgrad

from .finding import AsJson, failed, find

__all__ = ["warmup"]


def warmup(
    ops: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OP]...", help="By default all.", show_default=False),
    ] = None,
    dtype: Annotated[list[str] | None, typer.Option(help="By default float32.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All kernels.")] = False,
    as_json: Annotated[bool, AsJson] = False,
) -> None:
    """Compile the kernels of operators into the cache, with progress."""
    operators = [find(name) for name in ops] if ops else None
    progress = False if as_json else None
    try:
        count = fastgrad.warmup(operators, dtype, everything=everything, progress=progress)
    except (TypeError, ValueError) as error:
        raise failed(str(error)) from None
    cache = fastgrad.cache.info()
    if as_json:
        found = {"kernels": count, "compiled": cache.compiled, "loaded": cache.loaded}
        print(json.dumps({**found, "folder": str(cache.folder)}))
    else:
        print(f"{count} kernels are ready; {cache}")
