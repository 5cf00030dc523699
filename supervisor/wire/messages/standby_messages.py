"""What supervisor and standby say to each other: a JSON object a line, on a socket.

A standby is the process of the next attempt, started early. It imports what the attempt
before it imported (``ImportRecord``), runs nothing of it, and waits for ``HandOver``, or
for the end of the socket: then it ends.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from supervisor.wire.json_record import JsonRecord

WORD = "--standby"
"""``launch.py --standby SOCKET,DIRECTORY``: the numbers of two open descriptors."""

FRAMEWORKS = ("numpy", "tensorflow", "keras")
"""The packages that are imported ahead, each as and when the script does it."""

MOST_BYTES = 64 * 1024
"""A message is no longer: so much a socket takes without anybody who reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRecord(JsonRecord):
    """How an attempt stood when its script imported a framework: what the import may
    depend on."""

    name: str
    environment: dict[str, Any]
    """Variables that were another thing than at the start; None: was taken out."""
    path: tuple[str, ...]
    """``sys.path``."""
    directory: str
    processors: tuple[int, ...]
    """Those that the process may run on: thread pools are as large as that."""
    draws: str
    """A digest of Python's global generator: imports draw from it."""
    within: tuple[str, ...] = ()
    """The packages that were being imported, and asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPlan(JsonRecord):
    """What a standby is told first."""

    imports: str
    """The file with the ``ImportRecord`` s of the attempt before."""
    seed: int
    """Of the run."""
    arguments: tuple[str, ...]
    """``sys.argv`` of the script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyAnswer(JsonRecord):
    """What it answers, once it has imported all of it."""

    because: str = ""
    """Why it is of no use, for a person; empty: it waits."""
    memory_bytes: int = 0
    """What it takes of main memory (PSS)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver(JsonRecord):
    """It is the next attempt from here on."""

    directive: str
    """The path of the attempt's."""
    environment: dict[str, Any] = field(default_factory=dict[str, Any])
    """Variables that differ from those it was started with; None: take it out."""
    working_directory: str | None = None
    """Another one may lie there by now; None: it stays where it is."""
    content: dict[str, Any] | None = None
    """The directive itself, where the process has to write it and to give its directory
    the attempt's name: whoever hands over may not write there. None: it is there."""


def line(message: JsonRecord) -> bytes:
    """``message`` to be sent."""
    return json.dumps(message.to_json()).encode() + b"\n"


def difference(before: dict[str, str], after: dict[str, str]) -> dict[str, str | None]:
    """What has to be done to the environment ``before`` to make it ``after``."""
    names = sorted(before.keys() | after.keys())
    return {
        name: after.get(name) for name in names if before.get(name) != after.get(name)
    }
