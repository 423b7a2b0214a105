"""`fastgrad check`: whether an operator is what its maths says."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

import fastgrad

from .finding import AsJson, OperatorName, choices_of, failed, find

__all__ = ["check"]


def check(
    op: Annotated[str, OperatorName],
    dtype: Annotated[list[str] | None, typer.Option(help="By default all four.")] = None,
    low: Annotated[float, typer.Option(help="The least operand.")] = -6.0,
    high: Annotated[float, typer.Option(help="The largest operand.")] = 6.0,
    choice: Annotated[list[str] | None, typer.Option(help="A choice: name=value.")] = None,
    as_json: Annotated[bool, AsJson] = False,
) -> None:
    """Check derivatives, precisions, special values, layouts, threads; exit code 1 if it fails."""
    operator = find(op)
    options: dict[str, Any] = dict(choices_of(choice or []))
    try:
        found = fastgrad.check(
            operator, domain=(low, high), dtypes=dtype, verbose=not as_json, **options
        )
    except (TypeError, ValueError) as error:
        raise failed(str(error)) from None
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
    if not found.ok:
        raise typer.Exit(1)
