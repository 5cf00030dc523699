"""One line of ``trainwarden check``."""

import enum
from dataclasses import dataclass


class FindingLevel(enum.StrEnum):
    """How a finding is to be taken."""

    OK = "OK"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of ``trainwarden check``."""

    level: FindingLevel
    about: str
    text: str
    fix: str = ""
    """What to do; empty where nothing has to be."""
