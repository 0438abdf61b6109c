"""How the process keeps the memory it has freed."""

from __future__ import annotations

import ctypes
import functools
import platform

# The names and numbers of malloc.h, which glibc has never changed.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4


@functools.cache
def keep_freed_memory() -> bool:
    """Have malloc keep what is freed for what comes next; tell whether it will.

    A training step makes and frees the same large tensors again and again. By default glibc gives
    each back to the system and asks for it anew, and the system clears it, page by page: on a
    virtual machine more than half of a step. The price is that the process stays as large as it
    once was. Elsewhere than with glibc nothing is done.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    # A gigabyte at once is still mapped by itself; older glibc takes no such threshold, but maps
    # nothing by itself if told so.
    mapped = mallopt(_MMAP_THRESHOLD, 1 << 30) or mallopt(_MMAP_MAX, 0)
    return bool(mapped and mallopt(_TRIM_THRESHOLD, -1) and mallopt(_TOP_PAD, 64 << 20))
