"""The modules of `fastgrad.torch`; a block is patched."""

from __future__ import annotations

from typing import Any

from torch import nn

import fastgrad
import fastgrad.torch
from fastgrad.bench.contenders import tensors
from fastgrad.bench.torch_modules.worker import ModuleWorker

WORKER = ModuleWorker
MODULES: Any = fastgrad.torch
swiglu = MODULES.swiglu


def start(threads: int) -> dict[str, str]:
    fastgrad.set_num_threads(threads)
    return {**tensors.start(threads), "fastgrad": fastgrad.__version__}


def adapt(model: nn.Module) -> nn.Module:
    fastgrad.torch.patch(model)
    return model
