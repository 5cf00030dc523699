"""How the systemd unit of an attempt is called: ``trainwarden-attempt-USER@JOB-N.service``."""

import re

PREFIX = "trainwarden-attempt-"

USER_EXPECTED = "a user name of a-z, 0-9, '_' and '-', at most 32"
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def is_user_name(text: str) -> bool:
    """Whether ``text`` is a name that useradd(8) would take, fit for a unit's name."""
    return _USER.fullmatch(text) is not None


def template(user: str) -> str:
    """The template of a user's attempts. It names the user inside: systemd's own ``%j``
    would take ``maria`` for ``anna-maria``."""
    return f"{PREFIX}{user}@.service"


def attempt_unit(user: str, job: str, number: int) -> str:
    """The unit of attempt ``number`` of ``job``."""
    return f"{PREFIX}{user}@{job}-{number}.service"


def attempt_units(user: str, job: str) -> str:
    """A pattern that finds the units of all attempts of ``job``, and a few others."""
    return f"{PREFIX}{user}@{job}-*.service"


def attempt_number(unit: str, user: str, job: str) -> int | None:
    """Which attempt of exactly this job (not of ``JOB-2``) ``unit`` is; None: it is none."""
    start = f"{PREFIX}{user}@{job}-"
    number = unit.removeprefix(start).removesuffix(".service")
    return int(number) if unit.startswith(start) and number.isdecimal() else None
