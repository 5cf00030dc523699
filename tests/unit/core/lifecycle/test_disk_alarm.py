"""When people are told of a disk that cannot be written, and of what."""

import pytest

from supervisor.core.lifecycle.disk_alarm import (
    CALM_SECONDS,
    MOST_NAMED,
    RISE_SECONDS,
    AlarmNews,
    DiskAlarm,
    DiskTrouble,
    DiskUse,
    disk_failing,
    disk_well,
    next_alarm,
)

FAILING, WELL = AlarmNews.FAILING, AlarmNews.WELL


def told(*spans: tuple[bool, float], at_once: bool = False) -> list[AlarmNews]:
    """The news of a disk that is looked at each second, so long in trouble or not;
    ``at_once``: the last look is the last there is."""
    alarm, now, found = DiskAlarm(), 0.0, list[AlarmNews | None]()
    for troubled, seconds in spans:
        for _ in range(int(seconds)):
            now += 1.0
            alarm, news = next_alarm(alarm, troubled=troubled, now=now)
            found.append(news)
    if at_once:
        found.append(next_alarm(alarm, troubled=spans[-1][0], now=now, at_once=True)[1])
    return [one for one in found if one is not None]


@pytest.mark.parametrize(
    ("spans", "news"),
    [
        ([(False, 100)], []),
        ([(True, RISE_SECONDS), (False, 100)], []),
        ([(True, 1000)], [FAILING]),
        ([(True, 10), (False, CALM_SECONDS)], [FAILING]),
        ([(True, 10), (False, 1000)], [FAILING, WELL]),
        ([(True, 10), (False, 20), (True, 10), (False, 20), (True, 9)], [FAILING]),
        ([(True, 10), (False, 99), (True, 10)], [FAILING, WELL, FAILING]),
    ],
)
def test_each_is_told_once(
    spans: list[tuple[bool, float]], news: list[AlarmNews]
) -> None:
    """Not of trouble that is over soon, nor each time that a full disk has room for a
    moment; a later one is another."""
    assert told(*spans) == news


def test_at_the_end_nobody_waits() -> None:
    """What is known is told; of what was told already, and lasts, nothing."""
    assert told((True, 1), at_once=True) == [FAILING]
    assert told((True, 10), (False, 1), at_once=True) == [FAILING, WELL]
    assert told((True, 10), at_once=True) == [FAILING]
    assert told((False, 10), at_once=True) == []


def test_it_says_what_where_and_what_to_do() -> None:
    """Each thing that failed and why, how much is free, and that nothing is to be started
    again; what a system says stays in one line, without control characters."""
    troubles = [
        DiskTrouble(job="digits", use=DiskUse.SNAPSHOTS, because="no\x1b[2J\nroom"),
        DiskTrouble(job="", use=DiskUse.LEDGER, because="database or disk is full"),
    ]
    one = disk_failing("/state", troubles, room="0 bytes of 5 GiB are free there")
    assert one.kind == "disk"
    assert one.title == "digits, the daemon: the disk of /state cannot be written"
    snapshots, ledger, room, advice = one.text.split("\n")
    assert "digits: snapshots are not saved" in snapshots
    assert "no\\x1b[2J room" in snapshots
    assert "database or disk is full" in ledger
    assert room == "0 bytes of 5 GiB are free there"
    assert advice.startswith("Make room there")
    over = disk_well("/state", troubles, room="4 GiB of 5 GiB are free there")
    assert over.title == "digits, the daemon: the disk of /state can be written again"
    assert over.text.endswith("4 GiB of 5 GiB are free there")


@pytest.mark.parametrize(
    ("because", "advice"),
    [
        (("No space left on device",), ["Make room"]),
        (("[Errno 1] Operation not permitted: 'x'",), ["It is not for lack of room"]),
        (
            ("Read-only file system", "Disk quota exceeded", "Permission denied"),
            ["Make room", "It is not for lack of room"],
        ),
        (("attempt to write a readonly database",), ["It is not for lack of room"]),
    ],
)
def test_room_is_asked_for_where_room_is_lacking(
    because: tuple[str, ...], advice: list[str]
) -> None:
    """What is denied is mended by no room: the advice goes by what the system said."""
    troubles = [
        DiskTrouble(job="digits", use=DiskUse.SNAPSHOTS, because=one) for one in because
    ]
    told = disk_failing("/state", troubles, room="69 GiB are free there").text
    lines = told.split("\n")[len(because) + 1 :]
    assert len(lines) == len(advice)
    for line, start in zip(lines, advice, strict=True):
        assert line.startswith(start)


def test_many_jobs_are_counted() -> None:
    """One notification for all jobs on a disk, of some lines."""
    troubles = [
        DiskTrouble(job=f"job-{number}", use=DiskUse.TRAINING, because="it waits")
        for number in range(40)
    ]
    one = disk_failing("/state", troubles, room="nothing is free there")
    assert one.title.startswith("job-0, job-1, job-2, job-3, job-4 and 35 more: ")
    assert f"and {40 - MOST_NAMED} more" in one.text
    assert len(one.text.split("\n")) == MOST_NAMED + 3
