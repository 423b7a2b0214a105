"""The Unified Buffer of a kernel: its tiles in one piece of memory, each where it does not get in another's way.

A processor finds out whether a load reads what a store before it has yet to write by the last 12 bits of their
addresses. Where these are alike in two tiles that a loop goes through, loads wait for stores that have
nothing to do with them (layer_norm's backward: 25 ms for 16). Allocated one by one, tiles of the same size
lie a few bytes more than whole pages apart, which is the worst that can be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["carved"]

_PAGE = 4096
#: Where in a page the first tile begins, and how far on the next. A loop's operands lie at the begin of one.
_FIRST, _STEP = 1472, 1280


def carved(buffers: Sequence[tuple[str, str, str]]) -> list[str]:
    """Lines that allocate buffers.

    Parameters
    ----------
    buffers : sequence of (str, str, str)
        Name, element type and number of elements of each.
    """
    if not buffers:
        return []
    sizes = [f"({count}) * {np.dtype(kind).itemsize}" for _, kind, count in buffers]
    lines = [f"ub_size = {(len(buffers) + 1) * 2 * _PAGE} + " + " + ".join(sizes)]
    lines += ["ub = np.empty(ub_size, np.uint8)", f"ub_start = -ub.ctypes.data % {_PAGE}"]
    for k, ((name, kind, _), size) in enumerate(zip(buffers, sizes, strict=True)):
        phase = (_FIRST + k * _STEP) % _PAGE // 64 * 64
        lines += [
            f"ub_end = ub_start + {phase} + {size}",
            f"{name} = ub[ub_start + {phase} : ub_end].view(np.{kind})",
            f"ub_start += ({phase} + {size} + {_PAGE - 1}) // {_PAGE} * {_PAGE}",
        ]
    return lines
