"""`keep_memory`: let the C library keep what PyTorch frees, for its next tensors."""

from __future__ import annotations

import ctypes

__all__ = ["keep_memory"]

# Of malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: The most that fits into mallopt's argument.
_LARGEST = (1 << 31) - 1


def keep_memory(limit: int = _LARGEST) -> bool:
    """Have the GNU C library keep freed memory instead of returning it to the system.

    A convolution's result of some megabytes is otherwise given back when it is freed, and comes back as
    fresh pages in the next step: 120 MB a step in a bottleneck of ResNet-50, a quarter of its time. This is
    a setting of the whole process, for PyTorch's tensors as for all else, so it is yours to make: call it
    before the first step. The variables of the environment MALLOC_TRIM_THRESHOLD_ and
    MALLOC_MMAP_THRESHOLD_ do the same.

    Parameters
    ----------
    limit : int
        Bytes of one allocation up to which memory is kept, and of free memory beyond which it is returned.

    Returns
    -------
    bool
        Whether the C library knows the setting; False anywhere but on Linux with glibc.

    Raises
    ------
    ValueError
        If `limit` is not from 0 to 2^31 - 1.
    """
    if not 0 <= limit <= _LARGEST:
        raise ValueError(f"limit must be from 0 to {_LARGEST}, got {limit}")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, limit)) and bool(mallopt(_M_TRIM_THRESHOLD, limit))
