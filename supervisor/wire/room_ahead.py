"""Room on a disk that is taken before it is needed, beyond the end of a file."""

import ctypes

KEEP_SIZE = 1
"""``FALLOC_FL_KEEP_SIZE`` of fallocate(2): the file is as long as before."""


def take_room(descriptor: int, start: int, count: int) -> bool:
    """``count`` bytes from ``start`` on are there to be written, whatever others write.
    False: there is no room, or the file system knows no such thing."""
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    except (AttributeError, OSError):
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return bool(fallocate(descriptor, KEEP_SIZE, start, count) == 0)
