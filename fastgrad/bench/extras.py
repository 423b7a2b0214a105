"""Libraries that only reports need: imported when they are used, with advice where they lack."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, extra: str = "report") -> Any:
    """Import `module`, which an extra of fastgrad installs.

    Raises
    ------
    SystemExit
        If it is not installed, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise SystemExit(
            f"this needs {error.name}, which is not installed: pip install 'fastgrad[{extra}]'"
        ) from None
