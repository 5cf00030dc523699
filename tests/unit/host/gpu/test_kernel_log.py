"""The kernel log and the journal, read."""

import json
import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from supervisor.core.gpu.gpu_readings import KernelLine
from supervisor.host.gpu.kernel_log import (
    KMSG,
    JournalQuestion,
    KernelLog,
    parse_journal,
    parse_record,
)


def test_a_record() -> None:
    """The text of a record, and its time; what follows the first line is left out."""
    record = b"6,1234,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79\n SUBSYSTEM=pci\n"
    expected = KernelLine(98.765432, "NVRM: Xid (PCI:0000:3b:00): 79")
    assert parse_record(record) == expected
    assert parse_record(b"what\n") is None


def test_only_what_is_new(tmp_path: Path) -> None:
    """What was logged before is not told, what comes is told once."""
    path = tmp_path / "kmsg"
    path.write_text("6,1,1000000,-;before\n")
    with closing(KernelLog(path)) as log:
        assert log.readable
        assert log.poll() == []
        with path.open("a") as file:
            file.write("6,2,2000000,-;after\n")
        assert log.poll() == [KernelLine(2.0, "after")]
        assert log.poll() == []


def test_what_may_not_be_read(tmp_path: Path) -> None:
    """Without permission (or a log) there is nothing, and no error."""
    with closing(KernelLog(tmp_path / "none")) as log:
        assert not log.readable
        assert log.poll() == []


def test_the_real_one() -> None:
    """What is written into this machine's kernel log comes out of it."""
    if not os.environ.get("CI") or not os.access(KMSG, os.W_OK):
        pytest.skip("only CI's own machine may be written to")
    with closing(KernelLog()) as log:
        if not log.readable:
            pytest.skip("the kernel log may not be read here")
        KMSG.write_text(f"trainwarden test {os.getpid()}\n")
        ends = time.monotonic() + 30
        lines = list[KernelLine]()
        while not any(f"test {os.getpid()}" in line.text for line in lines):
            assert time.monotonic() < ends
            lines += log.poll()


def test_the_journal() -> None:
    """Kernel messages of the journal have a time and a text; other lines have none."""
    good = {"__MONOTONIC_TIMESTAMP": "5000000", "MESSAGE": "NVRM: Xid"}
    binary = {"__MONOTONIC_TIMESTAMP": "5000000", "MESSAGE": [1, 2]}
    lines = [json.dumps(good), json.dumps(binary), "{}", "[", "7"]
    assert parse_journal("\n".join(lines).encode()) == [KernelLine(5.0, "NVRM: Xid")]


def test_asking_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked in a process of its own; what lies before the gap is left out."""
    records = "".join(
        json.dumps({"__MONOTONIC_TIMESTAMP": str(at), "MESSAGE": text}) + "\n"
        for at, text in ((1_000_000, "old"), (9_000_000, "new"))
    )
    program = tmp_path / "journalctl"
    program.write_text(f"#!/bin/sh\ncat <<'EOF'\n{records}EOF\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    question = JournalQuestion(since=5.0)
    ends = time.monotonic() + 30
    while (answer := question.poll()) is None:
        assert time.monotonic() < ends
        time.sleep(0.02)
    assert answer == [KernelLine(9.0, "new")]
