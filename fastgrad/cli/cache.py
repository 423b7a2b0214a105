"""`fastgrad cache`: the folder of compiled kernels."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

import fastgrad

from .finding import AsJson

__all__ = ["app"]

app = typer.Typer(help="The cache of compiled kernels.", no_args_is_help=True)


@app.command()
def info(as_json: Annotated[bool, AsJson] = False) -> None:
    """Where it is, and what is in it."""
    found = fastgrad.cache.info()
    print(json.dumps(dataclasses.asdict(found), default=str) if as_json else found)


@app.command()
def clear(as_json: Annotated[bool, AsJson] = False) -> None:
    """Remove every file of fastgrad's from it."""
    before = fastgrad.cache.info()
    fastgrad.cache.clear()
    removed = before.files - fastgrad.cache.info().files
    if as_json:
        print(json.dumps({"folder": str(before.folder), "removed": removed}))
    else:
        print(f"{removed} files removed from {before.folder}")
