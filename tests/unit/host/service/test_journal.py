"""How grave it is what the daemon and its services say, as the journal is told it."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.core.text.log_level import LogLevel
from supervisor.host.service.journal import Journal, marked

SAYS = """
import os, sys
from supervisor.core.text.log_level import LogLevel as Level
from supervisor.host.service.journal import Journal
found = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}" if sys.argv[1:] else "1:1"
journal = Journal(address="/no/such/socket")
journal.say("all is well")
journal.say_of("digits", "it\\nhangs", level=Level.WARNING)
"""


def said(*arguments: str) -> list[str]:
    """What such a program writes; the time is cut out."""
    command = [sys.executable, "-c", SAYS, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return re.sub(r"\d{4}-\S+Z ", "", done.stderr).splitlines()


def test_lines_for_the_journal_have_their_level() -> None:
    """As sd-daemon(3) says; plain lines go anywhere else."""
    assert said("journal") == ["<6>all is well", "<4>digits: it hangs"]
    assert said() == ["all is well", "digits: it hangs"]


def test_each_line_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal reads line by line. What goes into a file has none."""
    reader, writer = os.pipe()
    stream = os.fstat(writer)
    monkeypatch.setenv("JOURNAL_STREAM", f"{stream.st_dev}:{stream.st_ino}")
    assert marked("one\ntwo", LogLevel.ERROR, descriptor=writer) == "<3>one\n<3>two"
    assert marked("one", LogLevel.ERROR, descriptor=reader + 1000) == "one"
    monkeypatch.delenv("JOURNAL_STREAM")
    assert marked("one", LogLevel.ERROR, descriptor=writer) == "one"
    os.close(reader)
    os.close(writer)


def test_the_journals_own_protocol(tmp_path: Path) -> None:
    """A datagram with the message, its priority, and the job as a field."""
    address = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journald:
        journald.bind(address)
        journal = Journal(native=True, address=address)
        journal.say("gave up", job="digits", level=LogLevel.ERROR)
        fields = journald.recv(4096).decode().splitlines()
        journal.say("what somebody's script told: \ud800")
        odd = journald.recv(4096).decode()
    assert "MESSAGE=digits: gave up" in fields
    assert "PRIORITY=3" in fields
    assert "TRAINWARDEN_JOB=digits" in fields
    assert "MESSAGE=what somebody's script told: \\ud800\n" in odd
