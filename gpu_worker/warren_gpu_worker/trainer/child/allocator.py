"""glibc keeps what one op's activations took for the next op: giving it back and having it again costs a page
fault for every 4 KiB."""

import ctypes
import os

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
"""Parameters of `mallopt`, by malloc.h."""
_MMAP_BYTES = 32 * 1024**2
_TRIM_BYTES = 256 * 1024**2
"""At most this much is kept."""
_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


def keep_freed_memory() -> None:
    """Of this process, unless its environment says otherwise, or its C library isn't glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for name in _SETTINGS):
        return
    mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
    mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
