"""`fastgrad show`: an operator's instructions, buffers and compiled source."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Annotated

import typer

import fastgrad

from .finding import AsJson, OperatorName, choices_of, failed, find

__all__ = ["show"]


def show(
    op: Annotated[str, OperatorName],
    dtype: Annotated[str, typer.Option(help="Of the generated source.")] = "float32",
    choice: Annotated[
        list[str] | None, typer.Option(help="Of an argument that chooses a program: name=value.")
    ] = None,
    source: Annotated[bool, typer.Option(help="Whether to print the generated source.")] = True,
    as_json: Annotated[bool, AsJson] = False,
) -> None:
    """Print an operator's programs: forward, then the gradient."""
    operator = find(op)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # `fastgrad.show` prints what it returns
            text = fastgrad.show(operator, dtype=dtype, source=source, **choices_of(choice or []))
    except (TypeError, ValueError) as error:
        raise failed(str(error)) from None
    if as_json:
        print(json.dumps({"operator": operator.__name__, "dtype": dtype, "text": text}))
    else:
        print(text)
