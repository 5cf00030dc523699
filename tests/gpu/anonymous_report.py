"""A report that tells no board, no machine and no person."""

import getpass
import os
import re
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from tests.gpu.gpu_check import ROOT

UUID = re.compile(
    r"(GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?:/\d+/\d+)?"
)
NOBODYS = {"", "/", "root", "localhost"}
"""Names that tell nothing."""


def places(directory: Path) -> dict[str, str]:
    """What stands for the paths of this machine."""
    return {
        str(directory): "<directory>",
        str(ROOT): "<repository>",
        **{path: "<packages>" for path in sys.path if "site" in path},
        sys.prefix: "<environment>",
        os.environ.get("HOME", ""): "<home>",
        str(Path.home()): "<home>",
    }


def words() -> dict[str, str]:
    """What stands for names of the machine and of its user."""
    host = socket.gethostname()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = ""
    return {host: "<host>", host.partition(".")[0]: "<host>", user: "<user>"}


def anonymous(report: Any, directory: Path) -> Any:
    """``report``, a tree as JSON has it, without all of them; ``directory``: of the runs.
    The names of its own fields stay."""
    longest = sorted(_told(places(directory)), key=lambda row: -len(row[0]))
    rules = [(re.compile(re.escape(name)), instead) for name, instead in longest]
    rules += [
        (re.compile(rf"(?<![\w<]){re.escape(name)}(?![\w>])"), instead)
        for name, instead in _told(words())
    ]
    return _masked(report, rules)


def _told(names: dict[str, str]) -> Iterable[tuple[str, str]]:
    return ((name, instead) for name, instead in names.items() if name not in NOBODYS)


def _masked(value: Any, rules: list[tuple[re.Pattern[str], str]]) -> Any:
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: _masked(inner, rules) for name, inner in named.items()}
    if isinstance(value, list):
        inners = cast("Sequence[Any]", value)
        return [_masked(inner, rules) for inner in inners]
    if not isinstance(value, str):
        return value
    for pattern, instead in rules:
        value = pattern.sub(instead, value)
    return UUID.sub(r"\1-00000000-0000-0000-0000-000000000000", value)
