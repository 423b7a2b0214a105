"""Hand-fused forward and backward kernels for neural-network operators on the CPU.

Importing this package compiles nothing and does not import Numba: kernels are compiled, or loaded from
the cache, when they are first called.
"""

from . import cache
from ._version import __version__
from .functional._activations import (
    gelu,
    gelu_grad,
    sigmoid,
    silu,
    silu_grad,
    swish,
    swish_grad,
)
from .functional._operator import Operator, elementwise
from .functional._show import show
from .functional._vjp import vjp
from .functional._warmup import warmup
from .program import maths
from .runtime.threads import get_num_threads, set_num_threads
from .runtime.tiling import BLOCK_SIZE, get_block_size, set_block_size

__all__ = [
    "BLOCK_SIZE",
    "Operator",
    "__version__",
    "cache",
    "elementwise",
    "gelu",
    "gelu_grad",
    "get_block_size",
    "get_num_threads",
    "maths",
    "set_block_size",
    "set_num_threads",
    "show",
    "sigmoid",
    "silu",
    "silu_grad",
    "swish",
    "swish_grad",
    "vjp",
    "warmup",
]
