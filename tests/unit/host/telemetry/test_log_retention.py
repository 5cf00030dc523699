"""A log that grows without end: bounded on disk, with nothing lost that matters."""

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from supervisor.host.telemetry.log_follower import LogFollower
from supervisor.host.telemetry.log_retention import (
    MIB,
    PAGE,
    LogRetention,
    next_data,
    punch,
)

SMALL = LogRetention(head=64 * 1024, tail=256 * 1024, slack=128 * 1024, behind=64 * MIB)

FLOOD = """
import os, sys
out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
line = b"words " * 20 + b"\\n"
os.write(out, b"the flood begins\\n" + line * 1000)
for number in range(400):
    os.write(out, line * 500)
    if number == 200:
        os.write(out, b"E gpu: CUDA_ERROR_ILLEGAL_ADDRESS: in the middle\\n")
os.write(out, b"the flood ends\\n")
"""


def taken(path: Path) -> int:
    """Bytes on disk."""
    return path.stat().st_blocks * 512


def test_head_and_tail_stay_and_the_line_that_counts_is_known(tmp_path: Path) -> None:
    """24 MB are appended while a reader follows: under 1 MiB stays on disk, the first
    and the last line among it, the size is what was written, and the failure in the
    middle, which is gone from disk, is quoted."""
    log = tmp_path / "output.log"
    log.touch()
    follower = LogFollower(log, cap=SMALL)
    with subprocess.Popen([sys.executable, "-c", FLOOD, str(log)]) as program:
        while program.poll() is None:
            follower.poll(at_most_bytes=MIB)
        assert program.returncode == 0
    findings = follower.findings()
    content = log.read_bytes()
    assert len(content) > 24_000_000
    assert taken(log) < MIB
    assert content.startswith(b"the flood begins\n")
    assert content.endswith(b"the flood ends\n")
    assert b"in the middle" not in content
    assert [hit.signature for hit in findings.hits] == ["cuda.fault"]
    assert findings.last_line == "the flood ends"
    lines = 1 + 1000 + 400 * 500 + 1 + 1
    assert findings.lines == lines
    second = LogFollower(log, cap=SMALL)  # another supervisor takes it up
    assert second.findings().last_line == "the flood ends"


def test_sizes_that_a_person_chose() -> None:
    """They are rounded up to whole pages; a tail that shows nothing is made longer; no
    more is put off than is kept."""
    cap = LogRetention.of(head=5000, tail=1)
    assert (cap.head, cap.tail, cap.slack) == (2 * PAGE, 16 * PAGE, 16 * PAGE)
    assert LogRetention.of(head=32 * MIB, tail=96 * MIB) == LogRetention()


def test_a_program_faster_than_its_reader_does_not_fill_the_disk(
    tmp_path: Path,
) -> None:
    """A reader that lags by more than it may goes on near the end."""
    log = tmp_path / "output.log"
    log.write_bytes(b"x" * 63 + b"\n")
    cap = LogRetention(head=PAGE, tail=8 * PAGE, slack=PAGE, behind=16 * PAGE)
    follower = LogFollower(log, cap=cap)
    follower.poll()
    with log.open("ab") as file:
        file.write((b"y" * 63 + b"\n") * 64 * 40)  # 40 pages
    assert follower.poll() <= 9 * PAGE
    assert taken(log) <= 12 * PAGE


def test_what_cannot_be_punched_is_left_alone(tmp_path: Path) -> None:
    """A descriptor that may not write, and a range of nothing, change nothing."""
    log = tmp_path / "output.log"
    log.write_bytes(bytes(10 * PAGE))
    with log.open("rb") as file:
        assert not punch(file.fileno(), 0, PAGE)
        assert next_data(file.fileno(), 100 * PAGE) == 100 * PAGE
    assert taken(log) == 10 * PAGE


@given(
    size=st.integers(0, 2**40),
    read=st.integers(0, 2**40),
    punched=st.integers(0, 2**40),
)
def test_no_hole_reaches_what_is_kept_or_unread(
    size: int, read: int, punched: int
) -> None:
    """Holes lie behind the head, before the tail and before what was not read yet."""
    cap = LogRetention()
    hole = cap.hole(size=size, read_to=read, punched_to=punched)
    assert size <= cap.behind + read or cap.resume_at(size=size, read_to=read) >= read
    if hole is not None:
        start, end = hole
        assert cap.head <= start < end <= min(read, size - cap.tail)
        assert end % PAGE == 0
