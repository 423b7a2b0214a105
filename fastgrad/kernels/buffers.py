"""The Unified Buffer of a kernel: its tiles in one piece of memory, none in another's way.

A processor finds out by the last 12 bits of addresses whether a load reads what a store before it has yet to
write. Where these are alike in two tiles that a loop goes through, loads wait for stores that have nothing to
do with them: up to a sixth of the time of layer_norm's backward. Allocated one by one, tiles of the same size
lie a few bytes more than whole pages apart, which is the worst that can be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["carved"]

_PAGE, _LINE = 4096, 64
#: Where in a page the first tile begins, and how far on the next. A loop's operands lie at the begin of one.
_FIRST, _STEP = 1472, 1280


def carved(
    buffers: Sequence[tuple[str, str, str]], small: Sequence[tuple[str, str, str]] = ()
) -> list[str]:
    """Lines that allocate buffers.

    Parameters
    ----------
    buffers, small : sequence of (str, str, str)
        Name, element type and number of elements of each. The small ones follow each other line by line.
    """
    everything = [*buffers, *small]
    if not everything:
        return []
    sizes = [f"({count}) * {np.dtype(kind).itemsize}" for _, kind, count in everything]
    spare = (len(buffers) + 1) * 2 * _PAGE + len(small) * 2 * _LINE
    lines = [f"ub_size = {spare} + " + " + ".join(sizes)]
    lines += ["ub = np.empty(ub_size, np.uint8)", f"ub_start = -ub.ctypes.data % {_PAGE}"]
    for k, ((name, kind, _), size) in enumerate(zip(everything, sizes, strict=True)):
        is_small = k >= len(buffers)
        phase = 0 if is_small else (_FIRST + k * _STEP) % _PAGE // _LINE * _LINE
        unit = _LINE if is_small else _PAGE
        lines += [
            f"ub_end = ub_start + {phase} + {size}",
            f"{name} = ub[ub_start + {phase} : ub_end].view(np.{kind})",
            f"ub_start += ({phase} + {size} + {unit - 1}) // {unit} * {unit}",
        ]
    return lines
