"""What a line of maths has done that no vector program can do, where, and what to write instead."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from . import maths
from .maths import TraceError

__all__ = ["called"]

#: Folders whose steps a user has not written.
_NOT_A_USERS = (str(Path(__file__).parents[1]), str(Path(np.__file__).parent))

#: Messages of Python about a traced operand, and what to write instead.
_HINTS = (
    (r"subscriptable|not iterable|looped over", "write the maths of one element: it has no others"),
    (r"has no len", "`m.mean` and `m.sum` of a row are for @fastgrad.rowwise"),
    (r"for %: |for divmod", "write x - k * m.floor(x / k) instead of x % k"),
    (r"for //: ", "write m.floor(a / b) instead of a // b"),
    (r"for @: ", "a product of matrices is no operator of elements: use NumPy's"),
    (
        r"for [&|^<>]+: |for unary ~",
        "conditions are numbers: a * b for both, m.maximum(a, b) for either",
    ),
    (
        r"no attribute '(sum|mean|var|std|max|min)'",
        "a reduction over a row is for @fastgrad.rowwise",
    ),
    (r"no attribute '\w+'", "an operand is one element: it has no shape and no dtype"),
    (r"__round__", "write m.round(x)"),
)
_BRANCHES = (
    (r"\b(max|min)\(", "write m.{0}imum(a, b) instead of {0}(a, b)"),
    (r"\b(and|or|not)\b", "write a * b for `and`, m.maximum(a, b) for `or`, 1 - a for `not`"),
    (r"[<>]=?[^<>=]+[<>]=?", "write (a < x) * (x < b): Python takes a < x < b apart with a branch"),
)


def called(function: Callable, *arguments: Any, **keywords: Any) -> Any:
    """``function(*arguments)``, whose errors about traced operands say where and what to do.

    Raises
    ------
    TraceError
        With the file, the line and its text, and a hint.
    """
    try:
        return function(*arguments, **keywords)
    except TraceError as error:
        if "\n" in str(error):
            raise  # an operator inside of this one has said it
        raise TraceError(_explained(function, error)) from error
    except (TypeError, AttributeError, ValueError) as error:
        if "Traced" not in str(error):
            raise  # a fault of another kind
        raise TraceError(_explained(function, error)) from error


def _explained(function: Callable, error: Exception) -> str:
    file, number = _place(function, error.__traceback__)
    line = linecache.getline(file, number).strip()
    message = str(error).replace("'Traced'", "an operand").replace("Traced", "an operand")
    hint = _hint(str(error), line)
    where = f'\n  File "{file}", line {number}, in {function.__name__}'
    text = f"\n    {line}" if line else ""
    return f"{message}{where}{text}" + (f"\n  {hint[0].upper()}{hint[1:]}." if hint else "\n")


def _place(function: Callable, traceback: TracebackType | None) -> tuple[str, int]:
    """The file and line of the last step that a user has written."""
    code = getattr(function, "__code__", None)
    place = (code.co_filename, code.co_firstlineno) if code else ("<unknown>", 0)
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith(_NOT_A_USERS):
            place = (file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return place


def _hint(message: str, line: str) -> str:
    if "truth value" in message:
        for pattern, hint in _BRANCHES:
            if found := re.search(pattern, line):
                return hint.format(*found.groups()) if "{0}" in hint else hint
        return "write m.where(condition, a, b) instead of a branch"
    for pattern, hint in _HINTS:
        if re.search(pattern, message):
            return hint
    for module, name in re.findall(r"\b(\w+(?:\.\w+)*)\.(\w+)\(", line):
        if module not in ("m", "maths", "fastgrad.maths") and hasattr(maths, name):
            return f"write m.{name}(…) instead of {module}.{name}(…), with fastgrad.maths as m"
    if re.search(r"\b(float|int|complex)\(|math\.\w+\(", line):
        return f"there are: {', '.join(name for name in maths.__all__ if name[0].islower())}"
    return ""
