"""Numba's threading layers, for programs with parallel kernels of the user's own beside ours."""

from __future__ import annotations

import ctypes.util
import os
import sys
from pathlib import Path

#: Where pip's `tbb` puts its library, which no loader looks into by itself.
_PREFIX = Path(sys.prefix, "lib")

_TBB = (_PREFIX / "libtbb.so.12").exists() or ctypes.util.find_library("tbb")

#: TBB is part of neither Numba nor the test's requirements: it is tested where it loads.
LAYERS = ("default", "omp", "workqueue", *(["tbb"] if _TBB else []))


def under(layer: str) -> dict[str, str]:
    """The environment in which Numba takes `layer`."""
    paths = os.pathsep.join([str(_PREFIX), os.environ.get("LD_LIBRARY_PATH", "")])
    where = {"LD_LIBRARY_PATH": paths.rstrip(os.pathsep)} if layer == "tbb" else {}
    return {"NUMBA_THREADING_LAYER": layer, **where}
