"""The bytes that a graph of autograd keeps for its backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor


def bytes_kept(forward: Callable[[], Tensor], parameters: Iterable[Tensor]) -> int:
    """Bytes of all memory, each part counted once, that the graph of a call holds.

    Counted are the storages of the tensors that are saved, and of tensors and arrays that a Function
    holds as attributes, which the hooks do not see; parameters are not, inputs are.
    """
    # The tensors themselves are held: an address stands for one memory only while nobody frees it.
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    attributes = list(_attributes(result.grad_fn))
    parts = dict(_memory(one) for one in [*saved, *attributes])
    for parameter in parameters:
        parts.pop(_memory(parameter)[0], None)
    return sum(parts.values())


def _attributes(root: Any) -> Iterator[Any]:
    """What the Functions of a graph that are written in Python hold."""
    seen, nodes = set(), [root]
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            nodes += [following for following, _ in node.next_functions]
            yield from _arrays_in(list(getattr(node, "__dict__", {}).values()))


def _arrays_in(thing: Any) -> Iterator[Any]:
    if isinstance(thing, Tensor | np.ndarray):
        yield thing
    elif isinstance(thing, tuple | list):
        for item in thing:
            yield from _arrays_in(item)


def _memory(thing: Tensor | np.ndarray) -> tuple[int, int]:
    """Address and size of the memory that `thing` is a part of."""
    if isinstance(thing, Tensor):
        storage = thing.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    while isinstance(thing.base, np.ndarray):
        thing = thing.base
    return thing.ctypes.data, thing.nbytes
