"""All commands. A new one is a file with a function, and a line here."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from . import cache, check, info, modules, show, warmup

__all__ = ["app"]

app = typer.Typer(
    help="Fused forward and backward kernels for neural-network operators on the CPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def fastgrad(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Fused forward and backward kernels for neural-network operators on the CPU."""


app.command()(info.info)
app.command()(show.show)
app.command()(check.check)
app.command(**modules.PASSED_ON)(modules.demo)
app.command(**modules.PASSED_ON)(modules.compare)
app.command()(warmup.warmup)
app.add_typer(cache.app, name="cache")
