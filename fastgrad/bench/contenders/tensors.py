"""Between NumPy arrays and PyTorch tensors, bfloat16 included; forward and backward by autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import torch

from fastgrad.bench.contenders.protocol import Prepared


def start(threads: int) -> dict[str, str]:
    torch.set_num_threads(threads)
    return {"torch": torch.__version__, "numpy": np.__version__}


def to_tensor(array: np.ndarray) -> torch.Tensor:
    """A copy of `array` in memory of PyTorch's own allocator, as its users' tensors are."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).clone()
    return torch.from_numpy(array).clone()


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """A view of the memory of `tensor`."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def to_arrays(tensors: Iterable[torch.Tensor]) -> tuple[np.ndarray, ...]:
    return tuple(to_array(tensor) for tensor in tensors)


class View(NamedTuple):
    """How PyTorch sees arrays as they are stored, and the way back."""

    of_stored: Callable[[torch.Tensor], torch.Tensor]
    stored: Callable[[torch.Tensor], torch.Tensor]


def _channels_second(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.movedim(-1, 1) if tensor.ndim > 2 else tensor


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.movedim(1, -1) if tensor.ndim > 2 else tensor


AS_STORED = View(lambda tensor: tensor, lambda tensor: tensor)
#: Stored N×H×W×C, which PyTorch calls N×C×H×W in the memory format channels_last.
CHANNELS_LAST = View(_channels_second, _channels_last)


#: Operands of which nobody wants the gradient.
CONSTANTS = ("target",)


class Operands(NamedTuple):
    """The gradients of results that come in, what a function takes, and what of it is differentiated."""

    incoming: list[torch.Tensor] | None
    operands: list[torch.Tensor]
    wrt: list[torch.Tensor]


def _operands(inputs: dict[str, np.ndarray], view: View) -> Operands:
    tensors = {name: view.of_stored(to_tensor(array)) for name, array in inputs.items()}
    incoming = [tensors.pop(name) for name in ("dy", "dsum") if name in tensors]
    wrt = [tensor.requires_grad_() for name, tensor in tensors.items() if name not in CONSTANTS]
    return Operands(incoming or None, list(tensors.values()), wrt)


def prepare_forward_backward(
    function: Callable[..., torch.Tensor],
    inputs: dict[str, np.ndarray],
    code: str,
    view: View = AS_STORED,
) -> Prepared:
    """`function` and its backward by PyTorch's autograd, as a training step runs them."""
    incoming, operands, wrt = _operands(inputs, view)

    def forward_backward() -> tuple[torch.Tensor, ...]:
        y = function(*operands)
        return y, *torch.autograd.grad(y, wrt, incoming)

    return Prepared(
        forward_backward,
        lambda results: to_arrays(map(view.stored, results)),
        code,
        bytes_kept=lambda: _bytes_saved(lambda: function(*operands)),
    )


def prepare_gradient(
    function: Callable[..., Any],
    inputs: dict[str, np.ndarray],
    code: str,
    view: View = AS_STORED,
) -> Prepared:
    """The backward of `function` alone, by a graph that was recorded before."""
    incoming, operands, wrt = _operands(inputs, view)
    results = function(*operands)
    return Prepared(
        lambda: torch.autograd.grad(results, wrt, incoming, retain_graph=True),
        lambda gradients: to_arrays(map(view.stored, gradients)),
        code,
    )


def _bytes_saved(forward: Callable[[], torch.Tensor]) -> int:
    """Bytes of the storages, each once, that autograd keeps until backward."""
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        # The graph keeps what it saved alive, so no address is used twice.
        y = forward()
    del y
    return sum(storages.values())
