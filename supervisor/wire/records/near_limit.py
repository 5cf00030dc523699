"""A step in slices that came near the memory limit: in which they had been, and are since.

Stands in the record of kind ``microbatch`` that says so (``near_limit``).
"""

from dataclasses import dataclass

from supervisor.wire.json_record import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NearLimit(JsonRecord):
    """The newest of a call of ``fit``."""

    batch: int
    """Samples in a whole one."""
    first_size: int
    """Samples a slice before any step came so near."""
    size: int
    """... and from here on."""
    peak_bytes: int
    """Of the step that came so near."""
    limit_bytes: int
    unsliced_bytes: int | None
    """What did not shrink with the slices, where they have become smaller in vain and do no
    more; None: they have helped so far."""
