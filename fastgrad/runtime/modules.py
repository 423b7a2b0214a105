"""Generated source text becomes an importable module with a real file behind it.

The file lies in the cache folder, so that tracebacks, profilers and debuggers show its lines.
"""

from __future__ import annotations

import linecache
import sys
from types import ModuleType

from . import cache
from .locks import compile_lock

__all__ = ["GENERATED", "load_module"]

#: The package of generated modules, which has no folder.
GENERATED = "fastgrad.generated"


def load_module(stem: str, source: str) -> ModuleType:
    """The module of `source`, executed once a process.

    Its name is `stem` and a hash of the source and of all that it is compiled against. It is in
    `sys.modules` under its name: code loaded from the cache looks its globals up there.
    """
    with compile_lock:  # all of it: the environment asks LLVM, which has locks of its own
        file_stem = f"{stem}_{cache.digest(source, cache.environment())}"
        name = f"{GENERATED}.{file_stem}"
        if name not in sys.modules:
            sys.modules[name] = _execute(name, _file_of(file_stem, source), source)
        return sys.modules[name]


def _file_of(file_stem: str, source: str) -> str:
    """Where the source is to be found: its file, written if need be, or a name.

    Its lines are in `linecache` either way: whatever becomes of the file, tracebacks are right.
    """
    path = cache.keep(f"{file_stem}.py", source.encode())
    filename = f"<{file_stem}>" if path is None else str(path)
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    return filename


def _execute(name: str, filename: str, source: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module  # Numba looks its functions' module up while it compiles them
    try:
        exec(compile(source, filename, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module
