"""How grave it is what a person is told."""

import enum
from typing import Protocol


class LogLevel(enum.IntEnum):
    """Priorities of syslog(3), which journals know: the smaller, the graver."""

    ERROR = 3
    """Somebody has to do something."""
    WARNING = 4
    """Something went wrong, and is being taken care of."""
    INFO = 6


class Notifier(Protocol):
    """Says a sentence to whoever watches; never fails."""

    def __call__(self, text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:
        """Say ``text``."""


class JobNotifier(Protocol):
    """The same about a job: its name, and a sentence."""

    def __call__(
        self, job: str, text: str, /, *, level: LogLevel = LogLevel.INFO
    ) -> None:
        """Say ``text`` about ``job``."""
