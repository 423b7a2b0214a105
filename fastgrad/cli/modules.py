"""`fastgrad demo` and `fastgrad compare`: modules with a command line of their own."""

from __future__ import annotations

from typing import Any

import typer

from .finding import failed

__all__ = ["PASSED_ON", "compare", "demo"]

#: The arguments are the module's.
PASSED_ON: dict[str, Any] = {
    "add_help_option": False,
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
}


def demo(context: typer.Context) -> None:
    """Train a denoiser, with fastgrad and with composed autodiff (--help for its options)."""
    try:
        from ..demo.__main__ import main
    except ImportError as error:
        raise failed(f"the demo needs {error.name}: pip install 'fastgrad[demo]'") from None
    raise typer.Exit(main(context.args))


def compare(context: typer.Context) -> None:
    """Measure operators beside PyTorch, torch.compile, JAX, … (--help for its options)."""
    try:
        from ..bench.compare import main
    except ImportError as error:
        raise failed(f"compare needs {error.name}: pip install 'fastgrad[report]'") from None
    raise typer.Exit(main(context.args))
