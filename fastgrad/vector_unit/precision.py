"""The four precisions: how an element is stored, and what it is computed in."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

__all__ = ["PRECISIONS", "Precision"]


@dataclass(frozen=True)
class Precision:
    """One storage dtype.

    Attributes
    ----------
    name : str
        The dtype's name.
    dtype : numpy.dtype
        What the caller's arrays have.
    compute : str
        What the vector unit computes in: ``"float32"`` or ``"float64"``.
    storage : str
        Numba's type for an element. Numba has no 16-bit floats; one unsigned and one signed integer
        let it tell them apart.
    load, store : str
        The casts of `fastgrad.vector_unit.casts` between the two; empty where they are the same.
    """

    name: str
    dtype: np.dtype
    compute: str
    storage: str
    load: str = ""
    store: str = ""

    @property
    def compute_dtype(self) -> np.dtype:
        """`compute` as a NumPy dtype."""
        return np.dtype(self.compute)


_ROWS = (
    Precision(
        "float16", np.dtype(np.float16), "float32", "uint16", "half_to_float", "float_to_half"
    ),
    Precision(
        "bfloat16",
        np.dtype(ml_dtypes.bfloat16),
        "float32",
        "int16",
        "bfloat_to_float",
        "float_to_bfloat",
    ),
    Precision("float32", np.dtype(np.float32), "float32", "float32"),
    Precision("float64", np.dtype(np.float64), "float64", "float64"),
)

#: dtype -> Precision, native byte order.
PRECISIONS = {row.dtype: row for row in _ROWS}
