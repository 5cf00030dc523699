"""Records of an attempt whose disk is full: told all the same, or told later."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from supervisor.wire.event_file import MOST_LATE, EventReader, EventWriter, RecordKind
from tests.support.small_disk import fill, mounted


def numbers(reader: EventReader) -> list[int]:
    """The records that are new, by their numbers; none of them is broken."""
    found = [record.fields["number"] for record in reader.poll(at_most_bytes=2**24)]
    assert reader.rejected == 0
    return found


def say(writer: EventWriter, number: int) -> None:
    """A record of some length."""
    writer.append(RecordKind.NOTICE, number=number, sentence="x" * 200)


def test_a_disk_that_is_full_is_told(tmp_path: Path) -> None:
    """The room for that was taken before."""
    with mounted(tmp_path / "disk", "1m") as disk:
        writer, reader = EventWriter(disk / "events"), EventReader(disk / "events")
        say(writer, 0)
        fill(disk / "hog")
        for number in range(1, 101):
            say(writer, number)
        assert numbers(reader) == list(range(101))
        reader.close()


def test_what_finds_no_room_comes_later(tmp_path: Path) -> None:
    """In its order, once there is some again; no line is lost in the half of another."""
    with mounted(tmp_path / "disk", "1m") as disk:
        writer, reader = EventWriter(disk / "events"), EventReader(disk / "events")
        fill(disk / "hog")
        for number in range(1000):
            say(writer, number)
        told = numbers(reader)
        assert 100 < len(told) < 1000
        (disk / "hog").unlink()
        say(writer, 1000)
        assert [*told, *numbers(reader)] == list(range(1001))
        reader.close()


def test_what_waits_is_limited(tmp_path: Path) -> None:
    """A disk that stays full for days takes no memory for ever: the oldest go."""
    with mounted(tmp_path / "disk", "2m") as disk:
        writer, reader = EventWriter(disk / "events"), EventReader(disk / "events")
        fill(disk / "hog")
        count = 2 * MOST_LATE
        for number in range(count):
            say(writer, number)
        (disk / "hog").unlink()
        say(writer, count)
        told = numbers(reader)
        assert told == sorted(told)
        assert told[-MOST_LATE:] == list(range(count - MOST_LATE + 1, count + 1))
        reader.close()


def test_several_threads(tmp_path: Path) -> None:
    """Each line is whole, and each is there when whoever said it goes on."""
    writer = EventWriter(tmp_path / "events")

    def talk(begin: int) -> None:
        for number in range(begin, begin + 200):
            say(writer, number)

    threads = [threading.Thread(target=talk, args=(1000 * one,)) for one in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = numbers(EventReader(tmp_path / "events"))
    assert sorted(told) == [1000 * one + n for one in range(8) for n in range(200)]


def test_a_fork_leaves_to_its_parent_what_is_late(tmp_path: Path) -> None:
    """It writes its own records alone."""
    with mounted(tmp_path / "disk", "1m") as disk:
        writer, reader = EventWriter(disk / "events"), EventReader(disk / "events")
        fill(disk / "hog")
        for number in range(600):
            say(writer, number)
        told = numbers(reader)
        (disk / "hog").unlink()
        pid = os.fork()
        if pid == 0:
            _end_after(writer, 1000)
        assert os.waitpid(pid, 0)[1] == 0
        say(writer, 600)
        # The first line that was late was half there: the child's stands in it.
        later = [record.fields["number"] for record in reader.poll(at_most_bytes=2**24)]
        assert later.count(600) == 1
        assert len(told) + len(later) >= 600
        reader.close()


def _end_after(writer: EventWriter, number: int) -> None:
    say(writer, number)
    os._exit(0)


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_handler_that_ends_the_process_has_its_word(
    tmp_path: Path, place: str
) -> None:
    """Also where it comes amid a write of its own thread: before the bytes, or between
    them and the note that they are written."""
    child = os.fork()
    if not child:
        _interrupted(EventWriter(tmp_path / "events"), place)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 75
    assert numbers(EventReader(tmp_path / "events")) == [0, 1, 2]


def _interrupted(writer: EventWriter, place: str) -> NoReturn:
    def ends(_number: int, _frame: object) -> None:
        sys.setprofile(None)
        say(writer, 2)
        os._exit(75)

    def comes(_frame: object, event: str, called: object) -> None:
        if (
            called is os.write
            and event == {"before": "c_call", "after": "c_return"}[place]
        ):
            signal.raise_signal(signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, ends)
    say(writer, 0)
    sys.setprofile(comes)
    say(writer, 1)
    os._exit(1)
