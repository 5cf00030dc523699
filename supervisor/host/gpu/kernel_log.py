"""The kernel log: what it says from now on, without blocking, and what it said before.

``/dev/kmsg`` (Linux ``ABI/testing/dev-kmsg``) where it may be read: one record a read,
``priority,sequence,microseconds,flags;text``. Where it may not (``dmesg_restrict``),
the journal is asked about a gap, in a process of its own.
"""

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any

from supervisor.core.gpu.gpu_readings import KernelLine
from supervisor.host.process.child_process import Piped
from supervisor.host.service.clock import Clock

KMSG = Path("/dev/kmsg")
RECORD_BYTES = 8192
RECORDS_A_POLL = 5000
"""The ring holds some thousands: one poll never reads for long."""
MOST_BYTES = 4 * 1024 * 1024
"""Of the journal's answer; beyond it is cut off."""
SLACK_SECONDS = 60.0
"""Asked for of the journal before what is wanted: a wall clock may have been set."""
_RECORD = re.compile(r"\d+,\d+,(?P<at>\d+),[^;]*;(?P<text>[^\n]*)")


def parse_record(record: bytes) -> KernelLine | None:
    """One record of ``/dev/kmsg``; None: not one."""
    found = _RECORD.match(record.decode(errors="replace"))
    if found is None:
        return None
    return KernelLine(int(found["at"]) / 1e6, found["text"])


class KernelLog:
    """Reads what is logged from its making on."""

    def __init__(self, path: Path = KMSG) -> None:
        """Open the log at its end; ``readable`` says whether that was possible."""
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._descriptor, 0, os.SEEK_END)

    @property
    def readable(self) -> bool:
        """Whether this process may read the kernel log."""
        return self._descriptor is not None

    def poll(self) -> list[KernelLine]:
        """The lines that are new."""
        lines: list[KernelLine] = []
        if self._descriptor is None:
            return lines
        for _ in range(RECORDS_A_POLL):
            try:
                record = os.read(self._descriptor, RECORD_BYTES)
            except BrokenPipeError:
                continue  # EPIPE: records were overwritten; the next read goes on
            except OSError:
                break  # nothing new
            if not record:
                break
            line = parse_record(record)
            if line is not None:
                lines.append(line)
        return lines

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class JournalQuestion:
    """``journalctl`` asked about the kernel, answered bit by bit."""

    def __init__(self, *, since: float) -> None:
        """Ask for lines since ``since`` (monotonic seconds). Raises OSError."""
        command = ["journalctl", "--dmesg", "--boot", "--output=json", "--no-pager"]
        # The journal may hold more than is read; its own clock is the wall's.
        clock = Clock()
        at = clock.wall() - max(clock.now() - since, 0.0) - SLACK_SECONDS
        command.append(f"--since=@{max(at, 0.0):.0f}")
        self._since = since
        self._answer = bytearray()
        self._asked = Piped([*command, "--quiet"])

    def poll(self) -> list[KernelLine] | None:
        """The answer; None: it is not complete yet."""
        part, complete = self._asked.read()
        self._answer += part[: MOST_BYTES - len(self._answer)]
        if not complete:
            return None
        self.close()
        lines = parse_journal(bytes(self._answer))
        return [line for line in lines if line.at >= self._since]

    def close(self) -> None:
        """Stop asking."""
        self._asked.close(wait_seconds=1.0)


def parse_journal(text: bytes) -> list[KernelLine]:
    """The lines of ``journalctl --output=json``; what is none is left out."""
    lines: list[KernelLine] = []
    for line in text.splitlines():
        try:
            record: Any = json.loads(line)
            at = int(record["__MONOTONIC_TIMESTAMP"]) / 1e6
            said = record["MESSAGE"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(said, str):
            lines.append(KernelLine(at, said))
    return lines
