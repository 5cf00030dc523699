"""The redaction of a report: what tells who and where somebody is, and not what happened."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from supervisor.web.secrets_in_text import HIDDEN, without_secrets

_URL = re.compile(r"\b[a-zA-Z][\w+.-]*://[^\s'\"<>]+")
_MAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_QUOTED = re.compile(r"(?P<quote>['\"`])(?P<path>~?/[^'\"`\n]*/[^'\"`\n/]*)(?P=quote)")
"""A path in quotes may have spaces."""
_PATH = re.compile(r"(?<![\w.…])~?(?:/[^\s/:,;'\"`<>()\[\]{}|=]+){2,}/?")
"""Two parts at least: ``/job:localhost/replica:0`` of a device is none."""
_SHORTEST = 4
"""A shorter value of the environment, or directory, stands in too much else."""
_SHORTEST_NAME = 2
"""Names are looked for as whole words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redactor:
    """What is known of a machine and its user, so that it can be left out."""

    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    """Directories, whatever is written around them."""
    environment: Mapping[str, str]
    secrets: frozenset[str] = frozenset()
    """Values that are left out wherever they stand, also within a word."""

    def __call__(self, text: str) -> str:
        """``text`` without secrets, paths, names, addresses, or values of the environment."""
        for name, value in _longest_first(self.environment.items()):
            text = text.replace(value, f"[{name}]")
        for secret in sorted(filter(None, self.secrets), key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        text = _URL.sub("[url]", without_secrets(text))
        text = _MAIL.sub("[e-mail]", text)
        for place in sorted(filter(_tells, self.places), key=len, reverse=True):
            text = re.sub(re.escape(place) + r"(?=/|\b)", "…", text)
        text = _QUOTED.sub(_last_part_quoted, text)
        text = _PATH.sub(_last_part, text)
        text = re.sub(r"…(?:/[^\s/:,;'\"`<>()\[\]{}|=]+)+/(?=[^\s/])", "…/", text)
        text = _ADDRESS.sub("[address]", text)
        text = _named(text, self.hosts, "[host]")
        return _named(text, self.users, "[user]")


def _tells(text: str) -> bool:
    return len(text) >= _SHORTEST


def _longest_first(items: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    known = [(name, value) for name, value in items if _tells(value)]
    return sorted(known, key=lambda item: -len(item[1]))


def _last_part(match: re.Match[str]) -> str:
    return "…/" + match[0].rstrip("/").rpartition("/")[2]


def _last_part_quoted(match: re.Match[str]) -> str:
    last = match["path"].rstrip("/").rpartition("/")[2]
    return f"{match['quote']}…/{last}{match['quote']}"


def _named(text: str, names: Iterable[str], instead: str) -> str:
    known = [name for name in names if len(name) >= _SHORTEST_NAME]
    for name in sorted(known, key=len, reverse=True):
        text = re.sub(rf"(?<![\w]){re.escape(name)}(?![\w])", instead, text)
    return text
