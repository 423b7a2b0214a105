"""Between NumPy arrays and PyTorch tensors, bfloat16 included; forward and backward by autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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


def prepare_forward_backward(
    function: Callable[[torch.Tensor], torch.Tensor], inputs: dict[str, np.ndarray], code: str
) -> Prepared:
    """`function` and its backward by PyTorch's autograd, as a training step runs them."""
    dy, x = to_tensor(inputs["dy"]), to_tensor(inputs["x"]).requires_grad_()

    def forward_backward() -> tuple[torch.Tensor, torch.Tensor]:
        y = function(x)
        (dx,) = torch.autograd.grad(y, x, dy)
        return y, dx

    return Prepared(
        forward_backward,
        to_arrays,
        code,
        bytes_kept=lambda: _bytes_saved(lambda: function(x)),
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
