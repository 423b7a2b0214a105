"""What names in the cache are made of: hashes of all that a content depends on."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["digest", "environment"]

#: What Numba can be told, by environment or file, that changes machine code.
_NUMBA_SETTINGS = (
    *("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "ENABLE_AVX", "CPU_NAME", "CPU_FEATURES"),
    *("BOUNDSCHECK", "DEBUGINFO_DEFAULT"),
)


def digest(*parts: str) -> str:
    """A short hash of `parts`: the name under which what depends on them is kept."""
    import hashlib  # here, as import fastgrad needs none

    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


@functools.cache
def environment() -> str:
    """Everything outside the generated source that machine code depends on, as one hash.

    The text of the vector unit and of the walks, fastgrad's version, Python, NumPy, Numba and its
    settings, LLVM and the processor with its features.
    """
    import llvmlite
    import numba
    import numpy as np
    from llvmlite import binding as llvm

    from fastgrad._version import __version__

    versions = (__version__, sys.version, np.__version__, numba.__version__, llvmlite.__version__)
    features = llvm.get_host_cpu_features().flatten()
    machine = (str(llvm.llvm_version_info), llvm.get_host_cpu_name(), features)
    settings = tuple(f"{name}={getattr(numba.config, name, None)}" for name in _NUMBA_SETTINGS)
    return digest(*versions, *machine, *settings, *_sources())


def _sources() -> Iterator[str]:
    """The text of each module that machine code is made from, wherever Python imports it from."""
    import pkgutil
    from importlib.util import find_spec

    for part in ("fastgrad.vector_unit", "fastgrad.kernels", "fastgrad.runtime"):
        package = find_spec(part)
        assert package is not None
        yield _source(package)
        modules: Any = pkgutil.iter_modules(package.submodule_search_locations)
        for finder, name, _ in sorted(modules, key=operator.itemgetter(1)):
            yield _source(finder.find_spec(f"{part}.{name}"))


def _source(spec: Any) -> str:
    """The text of a module; its bytecode where that is all there is (frozen applications)."""
    text = spec.loader.get_source(spec.name)
    if text is not None:
        return text
    import marshal

    return marshal.dumps(spec.loader.get_code(spec.name), 2).hex()
