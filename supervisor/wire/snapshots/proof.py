"""The proof of a resume: the words for what came of it."""

import enum


class Proof(enum.StrEnum):
    """Whether an attempt that resumed continued to the bit, as two snapshots show."""

    BEGUN = "begun"
    """It trains from the older one to the newer one."""
    PROVED = "proved"
    """There it had what the newer one has."""
    DIFFERS = "differs"
    """... or not: it ends, and the next attempt goes on from the newer one."""
    SKIPPED = "skipped"
    """There was nothing to show it with, or it would have taken too long."""
