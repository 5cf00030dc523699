"""Text search in a block of a log, by the C library.

``bytes.find`` looks at one byte to know how far it may skip ahead, ``memmem`` of glibc
at two (string/memmem.c): where letters are frequent that is twice as fast.
"""

import ctypes
from collections.abc import Callable
from operator import contains

Holds = Callable[[bytes, bytes], bool]
"""Whether the first holds the second."""


def native_search() -> Holds:
    """``memmem``; Python's own search where the C library has none (it is no POSIX)."""
    try:
        memmem = ctypes.PyDLL(None).memmem  # a block takes 40 us: the lock is kept
    except (OSError, AttributeError):
        return contains
    memmem.restype = ctypes.c_void_p
    memmem.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
    ]  # fmt: skip

    def holds(block: bytes, text: bytes) -> bool:
        found: int | None = memmem(block, len(block), text, len(text))
        return found is not None

    return holds


holds: Holds = native_search()
