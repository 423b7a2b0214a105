"""Checks that the process-wide settings share."""

from __future__ import annotations

from typing import Any

__all__ = ["positive_integer"]


def positive_integer(value: Any, name: str) -> int:
    """`value` as an int, if it is a positive integer.

    Raises
    ------
    TypeError, ValueError
        If it is not an integer, not positive.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}: {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return int(value)
