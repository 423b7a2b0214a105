"""`torch.compile`: Inductor's C++ for composed code (swish, norms) and for PyTorch's own functions.

A gradient alone is the backward pass of a compiled function whose forward pass ran before, untimed.
"""

from __future__ import annotations

import functools
import os
import shutil
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch._dynamo import config as dynamo_config
from torch._inductor import config as inductor_config

from fastgrad.bench.contenders import composed, composed_norms, tensors, torch_functions
from fastgrad.bench.contenders.protocol import CannotStart, Prepared, refuse_in_place
from fastgrad.bench.contenders.torch_functions import Function
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.workloads import Case

_FORWARD: dict[str, Function] = {"silu": F.silu, "gelu": F.gelu}

OPERATORS = frozenset(
    [*_FORWARD, *composed.FORWARD_BACKWARD, *torch_functions.OPERATORS, *NORM_CALLS]
)

# Cases of a run are more than the handful of shapes and dtypes after which PyTorch would run a
# function uncompiled, without a word.
_SHAPES_AND_DTYPES = 10_000


def start(threads: int) -> dict[str, str]:
    versions = tensors.start(threads)  # which Inductor writes into the code
    inductor_config.compile_threads = 1  # no processes of its own beside this one
    dynamo_config.recompile_limit = _SHAPES_AND_DTYPES
    dynamo_config.accumulated_recompile_limit = _SHAPES_AND_DTYPES
    _try_compiler()
    return versions


def _try_compiler() -> None:
    name = os.environ.get("CXX", "g++")
    if not shutil.which(name):
        raise CannotStart(
            f"torch.compile needs a C++ compiler: {name!r} was not found. Install one (Debian, "
            "Ubuntu: apt-get install g++), or name it: CXX=/path/to/g++"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of what PyTorch itself still uses
            _compile(F.silu)(torch.ones(64))
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise CannotStart(f"torch.compile does not work with {name!r}: {reason}") from error


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    refuse_in_place(case)
    if case.operator in NORM_CALLS:
        return composed_norms.prepare(case, inputs, _compile)
    if case.operator in composed.FORWARD_BACKWARD:
        return composed.prepare(case, inputs, _compile)
    if case.operator in torch_functions.OPERATORS:
        return torch_functions.prepare(case, inputs, _compile)
    function = _FORWARD[case.operator]
    call = functools.partial(_compile(function), tensors.to_tensor(inputs["x"]))
    code = torch_functions.compiled_text(f"torch.nn.functional.{case.operator}")
    return Prepared(call, lambda y: (tensors.to_array(y),), f"{code}\n\ny = function(x)")


def _compile(function: Function) -> Function:
    """For one shape: a network's do not change, and code for any shape may be slower."""
    compiled: Function = torch.compile(function, dynamic=False)
    return compiled
