"""The garbage collector of a long-lived process: what is there at its start is frozen."""

import gc


def settle() -> None:
    """From now on the garbage collector leaves alone what is there now: modules,
    classes and functions stay to the end, and looking through them (and through little
    else) would hold every thread for 30 ms and more, now and then."""
    gc.collect()
    gc.freeze()
