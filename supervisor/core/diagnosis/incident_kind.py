"""What an incident is about: the end of an attempt, or something that it outlived."""

import enum


class IncidentKind(enum.StrEnum):
    """What an incident is about; an attempt has at most one of each."""

    ENDED = "ended"
    """The attempt ended, and nobody wanted that."""
    UNSAVED_IN_MEMORY = "unsaved_in_memory"
    """A snapshot could not be kept in memory; training went on."""
    UNSAVED_ON_DISK = "unsaved_on_disk"
    """A snapshot could not be written to disk; training went on."""
    PLANNED = "planned"
    """The attempt was ended at a snapshot, before memory ran out; nothing was lost."""
    DEVICE_MEMORY_HIGH = "device_memory_high"
    """Device memory is used beyond the threshold of the spec; training goes on."""
    HOST_MEMORY_HIGH = "host_memory_high"
    """Main memory is used beyond the threshold of the spec; training goes on."""
    DRIVER_STUCK = "driver_stuck"
    """The GPU driver hangs beyond help; training goes on as long as it can."""
