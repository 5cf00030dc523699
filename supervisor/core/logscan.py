"""Reading a log for what matters in it: a stub until the diagnosis lands."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogFindings:
    """The lines of a log that a signature recognised, in the order of the log."""
