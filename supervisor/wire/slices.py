"""The arithmetic of slices, for both sides: who plans them and who works through them.

A batch of n samples is worked through as ``ceil(n / size)`` slices of ``size``
samples; the last one may be shorter.
"""


def count(*, batch: int, size: int) -> int:
    """How many slices of ``size`` samples a ``batch`` has; at least 1."""
    return max(1, -(-batch // max(1, size)))


def balanced(*, batch: int, size: int) -> int:
    """The smallest size with as many slices as ``size`` has: ``batch`` shared out evenly.

    What costs time is the number of slices; larger ones than these only need memory.
    """
    return -(-batch // count(batch=batch, size=size))
