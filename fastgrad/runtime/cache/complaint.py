"""The one warning of a process about its cache."""

from __future__ import annotations

import warnings

__all__ = ["warn", "warn_not_kept"]

_has_warned = False


def warn(problem: str) -> None:
    """The one warning of this process about its cache."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(problem, RuntimeWarning, stacklevel=3)


def warn_not_kept(reason: str) -> None:
    warn(
        f"fastgrad cannot keep compiled kernels, so each process compiles its own: {reason}. "
        "Set FASTGRAD_CACHE_DIR to a folder that can be written and has space."
    )
