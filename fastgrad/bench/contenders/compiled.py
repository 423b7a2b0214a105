"""`torch.compile`: Inductor's C++ for composed code (swish, norms) and for PyTorch's own functions.

A gradient alone is the backward pass of a compiled function whose forward pass ran before, untimed.
"""

from __future__ import annotations

import functools
import os
import shutil
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch._dynamo import config as dynamo_config
from torch._inductor import config as inductor_config

from fastgrad.bench.contenders import composed_norms, tensors, torch_functions
from fastgrad.bench.contenders.composed import swish
from fastgrad.bench.contenders.protocol import CannotStart, Prepared, refuse_in_place, source
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.workloads import Case

Function = Callable[..., torch.Tensor]

silu = torch.nn.functional.silu
gelu = torch.nn.functional.gelu
gelu_tanh = functools.partial(gelu, approximate="tanh")

# Function, and what a user writes for it.
_SWISH = (swish, f"{source(swish)}\n\nfunction = torch.compile(swish, dynamic=False)")
_SILU = (silu, "function = torch.compile(torch.nn.functional.silu, dynamic=False)")
_GELU = (gelu, "function = torch.compile(torch.nn.functional.gelu, dynamic=False)")
_GELU_TANH = (
    gelu_tanh,
    'gelu = functools.partial(torch.nn.functional.gelu, approximate="tanh")\n'
    "function = torch.compile(gelu, dynamic=False)",
)

_FORWARD: dict[str, tuple[Function, str]] = {"silu": _SILU, "gelu": _GELU}
_GRADIENT: dict[str, tuple[Function, str]] = {
    "swish_grad": _SILU,
    "gelu_grad": _GELU,
    "gelu_tanh_grad": _GELU_TANH,
}
_FORWARD_BACKWARD: dict[str, tuple[Function, str]] = {"swish_forward_backward": _SWISH}

OPERATORS = frozenset([*_FORWARD, *_GRADIENT, *_FORWARD_BACKWARD, *NORM_CALLS])

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
            _compile(silu)(torch.ones(64))
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise CannotStart(f"torch.compile does not work with {name!r}: {reason}") from error


def prepare(case: Case, inputs: dict[str, np.ndarray]) -> Prepared:
    refuse_in_place(case)
    if case.operator in NORM_CALLS:
        return composed_norms.prepare(case, inputs, _compile)
    if case.operator in _FORWARD_BACKWARD:
        function, code = _FORWARD_BACKWARD[case.operator]
        code = f"{code}\n\ny = function(x)\n(dx,) = torch.autograd.grad(y, x, dy)"
        return tensors.prepare_forward_backward(_compile(function), inputs, code)
    if case.operator in _GRADIENT:
        return _prepare_gradient(*_GRADIENT[case.operator], inputs)
    function, code = _FORWARD[case.operator]
    call = functools.partial(_compile(function), tensors.to_tensor(inputs["x"]))
    return Prepared(call, lambda y: (tensors.to_array(y),), f"{code}\ny = function(x)")


def _prepare_gradient(function: Function, code: str, inputs: dict[str, np.ndarray]) -> Prepared:
    code = (
        f"{code}\ny = function(x)  # before, untimed\n"
        "(dx,) = torch.autograd.grad(y, x, dy, retain_graph=True)"
    )
    return tensors.prepare_gradient(_compile(function), inputs, code)


def _compile(function: Function) -> Function:
    """For one shape: a network's do not change, and code for any shape may be slower."""
    compiled: Function = torch.compile(function, dynamic=False)
    return compiled
