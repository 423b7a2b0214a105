"""fastgrad's operators for PyTorch on the CPU: functions, modules, and one call that patches a model.

    import fastgrad.torch
    report = fastgrad.torch.patch(model)

Importing it compiles nothing.
"""

from . import functional, modules
from ._devices import get_other_devices, set_other_devices
from ._memory import keep_memory
from ._wrap import wrap
from .functional import *  # noqa: F403
from .modules import *  # noqa: F403
from .patching import Report, patch, unpatch
from .sync_batch_norm import SyncBatchNorm

__all__ = [
    "Report",
    "SyncBatchNorm",
    "get_other_devices",
    "keep_memory",
    "patch",
    "set_other_devices",
    "unpatch",
    "wrap",
]
__all__ += functional.__all__
__all__ += modules.__all__
