"""Following a log that grows, and reading allocator dumps from a directory."""

import os
from pathlib import Path

from supervisor.core.memory.bfc_map import figures_of
from supervisor.host.telemetry.allocator_dump import (
    MAX_DUMP_BYTES,
    dump_files,
    read_first_map,
)
from supervisor.host.telemetry.log_follower import CHUNK, LogFollower, scan_file

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
DUMP = b"\x0a\x01a\x1a\x04\x10\x08\x40\x01\x1a\x02\x10\x05"
"""Allocator ``a`` with 8 bytes in use and 5 free."""


def test_what_was_appended_is_read_once(tmp_path: Path) -> None:
    """Each poll takes the new bytes; the findings are those of the whole file."""
    path = tmp_path / "output.log"
    follower = LogFollower(path)
    assert follower.poll() == 0
    path.write_bytes(b"step 1\n")
    assert follower.poll() == 7
    with path.open("ab") as log:
        log.write(OOM[:20])
    assert follower.poll() == 20
    with path.open("ab") as log:
        log.write(OOM[20:] + b"end")
    assert follower.findings() == scan_file(path)
    assert [hit.line for hit in follower.findings().hits] == [2]


def test_a_poll_reads_no_more_than_it_may(tmp_path: Path) -> None:
    """A child that writes faster than we read cannot hold the loop."""
    path = tmp_path / "output.log"
    path.write_bytes(b"x" * 100)
    follower = LogFollower(path)
    assert follower.poll(at_most_bytes=60) == 60
    assert follower.poll(at_most_bytes=60) == 40
    assert follower.findings().lines == 1


def test_of_a_long_rest_only_the_end_is_read(tmp_path: Path) -> None:
    """Whoever still appends to the log of a dead attempt cannot hold the loop, and the
    last words are not lost."""
    path = tmp_path / "output.log"
    path.write_bytes(b"KeyError: 'a'\n" + b"x\n" * 1000 + OOM)
    found = LogFollower(path).findings(at_most_bytes=len(OOM) + 20)
    assert [hit.signature for hit in found.hits] == ["torch.out_of_memory"]
    assert found.lines == 11
    assert scan_file(path, at_most_bytes=len(OOM) + 20) == found
    whole = LogFollower(path).findings()
    assert [hit.line for hit in whole.hits] == [1, 1002]


def test_a_log_that_was_truncated_or_replaced_is_read_from_its_beginning(
    tmp_path: Path,
) -> None:
    """Nothing that was found before is forgotten."""
    path = tmp_path / "output.log"
    path.write_bytes(b"a\nKeyError: 'a'\n")
    follower = LogFollower(path)
    follower.poll()
    path.write_bytes(b"new\n")
    assert follower.poll() == 4
    other = tmp_path / "other"
    other.write_bytes(b"a longer one\n" + OOM)
    other.rename(path)
    names = [hit.signature for hit in follower.findings().hits]
    assert names == ["python.own_error", "torch.out_of_memory"]


def test_a_hole_in_a_capped_log_is_passed_over(tmp_path: Path) -> None:
    """Zero bytes in the middle: the offsets stay valid."""
    path = tmp_path / "output.log"
    with path.open("wb") as log:
        log.write(b"begin\n")
        log.truncate(3 * CHUNK)
        log.seek(0, os.SEEK_END)
        log.write(b"\n" + OOM)
    hits = LogFollower(path).findings().hits
    assert [hit.signature for hit in hits] == ["torch.out_of_memory"]


def test_neither_a_pipe_nor_a_link_is_followed(tmp_path: Path) -> None:
    """The job's directory must not lead the supervisor elsewhere, or block it."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    assert LogFollower(pipe).poll() == 0
    assert LogFollower(link).poll() == 0


def test_the_first_dump_in_time_counts(tmp_path: Path) -> None:
    """By the microseconds in the name; broken files, links and others are skipped."""
    (tmp_path / "d_a.9").write_bytes(DUMP)
    (tmp_path / "d_a.10").write_bytes(b"")
    (tmp_path / "d_a.8").write_bytes(b"torn")
    (tmp_path / "d_a.7").symlink_to(tmp_path / "d_a.9")
    os.mkfifo(tmp_path / "d_a.6")
    with (tmp_path / "d_a.5").open("wb") as huge:
        huge.truncate(MAX_DUMP_BYTES + 1)
    (tmp_path / "d_a.4").mkdir()
    (tmp_path / "notes.txt").write_bytes(DUMP)
    stamps = [path.name.partition(".")[2] for path in dump_files(tmp_path)]
    assert stamps == ["4", "5", "6", "7", "8", "9", "10"]
    found = read_first_map(tmp_path)
    assert found is not None
    figures = figures_of(found)
    assert (figures.in_use_bytes, figures.free_bytes) == (8, 5)


def test_earlier_failures_that_were_caught_do_not_count(tmp_path: Path) -> None:
    """The allocator tries for ten seconds: what is older than that is of another
    failure, and of use only where of the last one nothing can be read."""
    second = 1_000_000
    for at in (100, 110, 113, 123):
        (tmp_path / f"d_a.{at * second}").write_bytes(b"torn")
    (tmp_path / f"d_a.{113 * second}").write_bytes(DUMP)
    other = DUMP.replace(b"\x08", b"\x10")
    assert other != DUMP
    (tmp_path / f"d_a.{110 * second}").write_bytes(other)
    found = read_first_map(tmp_path)
    assert found is not None
    assert figures_of(found).in_use_bytes == 8
    (tmp_path / f"d_a.{113 * second}").unlink()
    assert read_first_map(tmp_path) is not None


def test_no_dump_is_no_figures(tmp_path: Path) -> None:
    """An empty directory, and one that is not there."""
    assert read_first_map(tmp_path) is None
    assert read_first_map(tmp_path / "none") is None
