"""The command line, ``fastgrad COMMAND``: a file a command, joined in `app`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; without its packages say what to install."""
    try:
        import typer  # noqa: F401 - to see whether it is there
    except ImportError:
        sys.exit("fastgrad's command line needs typer and rich: pip install 'fastgrad[cli]'")
    from .app import app

    app()
