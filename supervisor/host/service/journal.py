"""Where the daemon's own words go: the journal with fields, or plain lines.

The native protocol of systemd-journald: a datagram of ``NAME=value`` lines
(https://systemd.io/JOURNAL_NATIVE_PROTOCOL/). ``journalctl TRAINWARDEN_JOB=digits``
then finds all that was said about a job. Whoever only prints marks lines for the
journal as sd-daemon(3) says: ``<4>text``.
"""

import contextlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.placed_hints import with_place
from supervisor.host.service.nonblocking_writer import NonblockingWriter

SOCKET = "/run/systemd/journal/socket"


def connected(environment: Mapping[str, str], descriptor: int = 2) -> bool:
    """Whether standard error goes to the journal: ``JOURNAL_STREAM`` of systemd.exec(5)."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return environment.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def marked(text: str, level: LogLevel, *, descriptor: int = 2) -> str:
    """``text`` for a person, each line with its level where the journal reads what is
    written to ``descriptor``."""
    if not connected(os.environ, descriptor):
        return text
    return "\n".join(f"<{int(level)}>{line}" for line in text.split("\n"))


def journal_fields(line: str, job: str | None, level: LogLevel) -> dict[str, str]:
    """What a line is in the journal: the fields that ``deploy/README.md`` documents."""
    about = "" if job is None else f"{job}: "
    return {
        "MESSAGE": f"{about}{line}",
        "PRIORITY": str(int(level)),
        "SYSLOG_IDENTIFIER": "trainwarden",
        **({} if job is None else {"TRAINWARDEN_JOB": job}),
    }


def _stamp(now: datetime) -> str:
    """The clock on the wall in a terminal, as other commands tell it there; UTC in a
    file, which may be read elsewhere."""
    if os.isatty(2):
        return now.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Journal:
    """Says things. Never fails, and never waits: nobody may be listening."""

    native: bool = field(default_factory=lambda: connected(os.environ))
    address: str = SOCKET
    plain: NonblockingWriter = field(default_factory=lambda: NonblockingWriter(2))
    """Where lines go that do not go to the journal as datagrams."""
    place: str = ""
    """The option that commands need which are suggested."""

    def say(
        self, text: str, /, *, job: str | None = None, level: LogLevel = LogLevel.INFO
    ) -> None:
        """One line, about a job or about the daemon."""
        line = with_place(" ".join(text.split()), self.place)[:4000]
        if not (self.native and self._send(line, job, level)):
            stamp = _stamp(datetime.now(UTC))
            about = "" if job is None else f"{job}: "
            with contextlib.suppress(OSError):
                self.plain.write(marked(f"{stamp} {about}{line}", level) + "\n")

    def say_of(
        self, job: str, text: str, /, *, level: LogLevel = LogLevel.INFO
    ) -> None:
        """One line about a job."""
        self.say(text, job=job, level=level)

    def _send(self, line: str, job: str | None, level: LogLevel) -> bool:
        fields = journal_fields(line, job, level).items()
        text = "".join(f"{name}={value}\n" for name, value in fields)
        flags = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        try:
            with socket.socket(socket.AF_UNIX, flags) as channel:
                # Others may have said what no encoding has: halves of surrogate pairs.
                said = text.encode(errors="backslashreplace")
                channel.sendto(said, self.address)
        except OSError:
            return False
        return True
