"""What is written to readers that do not read: nobody waits for them."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.host.service.journal import Journal
from supervisor.host.service.nonblocking_writer import NonblockingWriter, left_out
from tests.support.boxes import PATIENCE

FULL = 1 << 16
"""What a pipe holds: pipe(7)."""
HURRIES = """
import sys
from supervisor.cli.views.console import lasting
with lasting() as console:
    for number in range(4000):
        console.put(f"{number:0100}")
    print("went on", file=sys.stderr, flush=True)
"""


@dataclass
class Pipe:
    """Nobody reads it but the test."""

    reader: int
    writer: int

    def read(self) -> bytes:
        """All that is there."""
        parts: list[bytes] = []
        try:
            while part := os.read(self.reader, FULL):
                parts.append(part)
        except BlockingIOError:
            pass
        return b"".join(parts)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """The writing end blocks, as that of a service does."""
    made = Pipe(*os.pipe())
    os.set_blocking(made.reader, False)
    yield made
    os.close(made.reader)
    os.close(made.writer)


def test_the_daemon_goes_on_when_nobody_reads_what_it_says(pipe: Pipe) -> None:
    """Neither journald, which may hang, nor whoever started it with a pipe."""
    journal = Journal(
        native=True, address="/no/such", plain=NonblockingWriter(pipe.writer)
    )
    for number in range(5000):
        journal.say(f"{number:0500}")
    assert os.get_blocking(pipe.writer)
    assert pipe.read().splitlines()[0].endswith(b" " + b"0" * 500)


def test_what_was_not_read_at_once_is_read_later(pipe: Pipe) -> None:
    """``finish`` waits for it."""
    out = NonblockingWriter(pipe.writer)
    lines = [f"{number:0100}\n" for number in range(5000)]
    for line in lines:
        out.write(line)
    ending = threading.Thread(target=out.finish)
    ending.start()
    read = b""
    while ending.is_alive():
        read += pipe.read()
    assert (read + pipe.read()).decode() == "".join(lines)


def test_of_too_much_the_oldest_is_left_out(pipe: Pipe) -> None:
    """That is said where it is missing; the line that was begun is whole."""
    out = NonblockingWriter(pipe.writer, most=FULL)
    lines = [f"{number:0999}" for number in range(500)]
    for line in lines:
        out.write(f"{line}\n")
    read = pipe.read()
    out.write("the end\n")
    read += pipe.read()
    found = read.decode().splitlines()
    missing = found.index(left_out())
    assert found[:missing] == lines[:missing]
    assert found[missing + 1 : -1] == lines[-(len(found) - missing - 2) :]
    assert found[-1] == "the end"


@given(
    st.lists(st.tuples(st.text("ab", max_size=20), st.booleans()), max_size=40),
)
def test_lines_are_whole_and_in_order(turns: list[tuple[str, bool]]) -> None:
    """However seldom somebody reads, it is what was written, but for gaps; nothing is
    missing where there is none."""
    reader, writer = os.pipe2(os.O_NONBLOCK)
    pipe = Pipe(reader, writer)
    os.write(writer, b"x" * FULL)
    out = NonblockingWriter(writer, most=64, gap=lambda: "-")
    read, written = b"", [f"{number} {text}" for number, (text, _) in enumerate(turns)]
    for line, (_, reading) in zip(written, turns, strict=True):
        out.write(f"{line}\n")
        read += pipe.read() if reading else b""
    read += pipe.read()
    out.finish()
    read += pipe.read()
    os.close(reader)
    os.close(writer)
    found = read.removeprefix(b"x" * FULL).decode().splitlines()
    following = iter(written)
    assert all(line in following for line in found if line != "-")
    assert "-" in found or found == written


def test_nobody_can_read_it_any_more(pipe: Pipe) -> None:
    """It is said at once, and what waited is not tried again."""
    out = NonblockingWriter(pipe.writer)
    out.write("x" * 2 * FULL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), pipe.reader)
    with pytest.raises(BrokenPipeError):
        out.write("y")
    out.finish()


def test_a_run_goes_on_when_its_output_is_not_read() -> None:
    """Such as a terminal stopped with Ctrl-S; nothing of it is lost."""
    process = subprocess.Popen(
        [sys.executable, "-c", HURRIES],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "went on\n"
    said, _ = process.communicate(timeout=PATIENCE)
    assert said.splitlines() == [f"{number:0100}" for number in range(4000)]
