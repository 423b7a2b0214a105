"""The kernel cache on disk: generated source files, and the machine code compiled from them."""

from .content import digest, environment
from .files import counts, keep, load, publish, seal
from .places import folder, read_only
from .size import LIMIT, clear, limit, usage

__all__ = [
    "LIMIT",
    "clear",
    "counts",
    "digest",
    "environment",
    "folder",
    "keep",
    "limit",
    "load",
    "publish",
    "read_only",
    "seal",
    "usage",
]
