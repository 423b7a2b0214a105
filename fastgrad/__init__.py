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
from .functional._fused import (
    add_gelu,
    add_gelu_grad,
    add_relu,
    add_relu_grad,
    add_swish,
    add_swish_grad,
)
from .functional._gated import (
    geglu,
    geglu_grad,
    glu,
    glu_grad,
    reglu,
    reglu_grad,
    swiglu,
    swiglu_grad,
)
from .functional._loss_operator import LossOperator, loss
from .functional._losses import (
    binary_cross_entropy_with_logits,
    binary_cross_entropy_with_logits_grad,
    huber_loss,
    huber_loss_grad,
    kl_div,
    kl_div_grad,
    mse_loss,
    mse_loss_grad,
    smooth_l1_loss,
    smooth_l1_loss_grad,
)
from .functional._normalization import (
    add_layer_norm,
    add_layer_norm_grad,
    add_rms_norm,
    add_rms_norm_grad,
    batch_norm,
    batch_norm_grad,
    group_norm,
    group_norm_grad,
    group_norm_swish,
    group_norm_swish_grad,
    instance_norm,
    instance_norm_grad,
    layer_norm,
    layer_norm_grad,
    rms_norm,
    rms_norm_grad,
)
from .functional._operator import Operator, elementwise
from .functional._row_operator import RowOperator, rowwise
from .functional._show import show
from .functional._vjp import vjp
from .functional._warmup import warmup
from .program import maths
from .runtime.threads import get_num_threads, set_num_threads
from .runtime.tiling import BLOCK_SIZE, get_block_size, set_block_size

__all__ = [
    "BLOCK_SIZE",
    "LossOperator",
    "Operator",
    "RowOperator",
    "__version__",
    "add_gelu",
    "add_gelu_grad",
    "add_layer_norm",
    "add_layer_norm_grad",
    "add_relu",
    "add_relu_grad",
    "add_rms_norm",
    "add_rms_norm_grad",
    "add_swish",
    "add_swish_grad",
    "batch_norm",
    "batch_norm_grad",
    "binary_cross_entropy_with_logits",
    "binary_cross_entropy_with_logits_grad",
    "cache",
    "elementwise",
    "geglu",
    "geglu_grad",
    "gelu",
    "gelu_grad",
    "get_block_size",
    "get_num_threads",
    "glu",
    "glu_grad",
    "group_norm",
    "group_norm_grad",
    "group_norm_swish",
    "group_norm_swish_grad",
    "huber_loss",
    "huber_loss_grad",
    "instance_norm",
    "instance_norm_grad",
    "kl_div",
    "kl_div_grad",
    "layer_norm",
    "layer_norm_grad",
    "loss",
    "maths",
    "mse_loss",
    "mse_loss_grad",
    "reglu",
    "reglu_grad",
    "rms_norm",
    "rms_norm_grad",
    "rowwise",
    "set_block_size",
    "set_num_threads",
    "show",
    "sigmoid",
    "silu",
    "silu_grad",
    "smooth_l1_loss",
    "smooth_l1_loss_grad",
    "swiglu",
    "swiglu_grad",
    "swish",
    "swish_grad",
    "vjp",
    "warmup",
]
