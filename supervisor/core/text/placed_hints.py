"""Suggested commands in a text, with the state directory that they are about.

What the core and the daemon say names commands between backquotes and knows no directory;
whoever shows it does.
"""

import re

WITHOUT = frozenset({"daemon", "diagnose", "enable-user", "ledger", "notify", "policy"})
"""Commands that take none there, or are about none."""
_HINT = re.compile(r"`trainwarden\s+(?P<command>[a-z-]+)(?P<rest>[^`]*)`")


def with_place(text: str, place: str) -> str:
    """``text``, each command in it with the option ``place``, such as ``--state-dir /d``,
    unless it has one; right behind its name, as what follows a script is the script's."""
    if not place:
        return text

    def placed(found: re.Match[str]) -> str:
        command, rest = found["command"], found["rest"]
        if command in WITHOUT or "--state-dir" in rest:
            return found[0]
        return f"`trainwarden {command} {place}{rest}`"

    return _HINT.sub(placed, text)
