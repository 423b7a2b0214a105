"""Bytes that JAX says it needs: what it frees stays in heaps of XLA's threads, so the system can't tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastgrad.bench.contenders.protocol import library

jax = library("jax")


def bytes_kept(function: Callable[..., Any], *operands: Any) -> int:
    """Bytes of the buffers, each once, that the pullback holds.

    That is what lies between a forward and a backward pass jitted apart. What XLA keeps of it
    within the one jitted function that is timed, it does not say.
    """
    _, pullback = jax.vjp(function, *operands)
    buffers = jax.tree_util.tree_leaves(pullback)
    return sum({one.unsafe_buffer_pointer(): one.nbytes for one in buffers}.values())


def planned_peak(jitted: Any, operands: Any) -> int:
    """What XLA has planned: results and temporaries, without those in donated memory."""
    planned = jitted.lower(*operands).compile().memory_analysis()
    return int(
        planned.output_size_in_bytes + planned.temp_size_in_bytes - planned.alias_size_in_bytes
    )
