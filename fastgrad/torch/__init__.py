"""fastgrad's operators for PyTorch on the CPU: functions, modules, and one call that patches a model.

    import fastgrad.torch
    report = fastgrad.torch.patch(model)

Importing it compiles nothing.
"""

from ._devices import get_other_devices, set_other_devices
from ._wrap import wrap
from .functional import *  # noqa: F403
from .functional import __all__ as _functions
from .modules import *  # noqa: F403
from .modules import __all__ as _modules
from .patching import Report, patch, unpatch
from .sync_batch_norm import SyncBatchNorm

__all__ = [
    *_functions,
    *_modules,
    "Report",
    "SyncBatchNorm",
    "get_other_devices",
    "patch",
    "set_other_devices",
    "unpatch",
    "wrap",
]
