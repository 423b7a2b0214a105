"""`patch` and `unpatch`: fastgrad's kernels in a model that is there already."""

from ._patch import patch, unpatch
from ._report import Left, Replaced, Report

__all__ = ["Left", "Replaced", "Report", "patch", "unpatch"]
