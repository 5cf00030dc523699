"""One line of ``trainwarden check``."""

import enum
from dataclasses import dataclass


class FindingLevel(enum.StrEnum):
    """How a finding is to be taken."""

    OK = "OK"
    WARNING = "warning"
    PROBLEM = "problem"
    NOT_CHECKED = "not checked"
    """It could not be told here, or does not matter here: the text says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``trainwarden check``."""

    level: FindingLevel
    about: str
    text: str
    fix: str = ""
    """What to do; empty where nothing has to be."""


def fine(about: str, text: str) -> Finding:
    """All is well."""
    return Finding(FindingLevel.OK, about, text)


def warning(about: str, text: str, fix: str = "") -> Finding:
    """Training works, but not as well as it could."""
    return Finding(FindingLevel.WARNING, about, text, fix)


def unchecked(about: str, why: str) -> Finding:
    """Nothing is known of it, for this reason."""
    return Finding(FindingLevel.NOT_CHECKED, about, why)


def problem(about: str, text: str, fix: str) -> Finding:
    """Training does not work like this."""
    return Finding(FindingLevel.PROBLEM, about, text, fix)
