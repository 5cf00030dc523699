"""What is told of a run to people who do not watch it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import Diagnosis, Reason, Remedy, RemedyKind
from supervisor.core.jobs.notification import Notification, NotificationKind
from supervisor.core.lifecycle.effects import RecordIncident
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    Event,
    GateClear,
    MemoryHigh,
    Spawned,
)
from supervisor.core.lifecycle.notifications import MOST, notifications_of
from supervisor.core.lifecycle.table import step
from supervisor.core.memory.forecast import MemoryLevel, Resource
from tests.support.lives import finished, fresh, happen, killed, out_of_memory

AGAIN: tuple[Event, ...] = (DeadlineExpired(), GateClear(), Spawned(8))


ALL = frozenset(NotificationKind)
OOM = RecordIncident(
    attempt=1,
    diagnosis=Diagnosis(
        cause=Cause.DEVICE_OOM,
        because=(Reason("64 samples at once do not fit.", "exception"),),
        advice="",
    ),
    remedy=Remedy(kind=RemedyKind.RESTART, because="2 slices"),
    failed_step=3,
)


def told(
    *events: Event, on: Collection[NotificationKind] = ALL, look: str | None = None
) -> list[Notification]:
    """All notifications of a run that begins, and to which ``events`` happen."""
    now, found = fresh(), list[Notification]()
    for event in (*AGAIN, *events):
        before = now
        now, effects = step(before, event, now=100.0)
        found += notifications_of(before, now, effects, job="digits", on=on, look=look)
    return found


def kinds(found: Sequence[Notification]) -> list[str]:
    """Of what they are."""
    return [one.kind for one in found]


def test_the_end_is_told() -> None:
    """Once, with how many attempts it took."""
    (one,) = told(finished())
    assert (one.kind, one.job, one.title) == ("finished", "digits", "digits finished")
    assert "1 attempt" in one.text
    (one,) = told(killed(), *AGAIN, finished())
    assert (one.kind, "2 attempts" in one.text) == ("finished", True)


def test_memory_that_ran_out_is_told_once() -> None:
    """With why, and what is done; the second time is no news."""
    (one,) = notifications_of(fresh(), fresh(), [OOM], job="digits", on=ALL)
    assert (one.kind, one.title) == ("first_oom", "digits ran out of memory")
    assert one.text == (
        "the device ran out of memory [device_oom]: 64 samples at once do not fit.\n"
        "restart: 2 slices"
    )
    before, _ = happen(fresh(), *AGAIN, out_of_memory())
    assert notifications_of(before, before, [OOM], job="digits", on=ALL) == []


def test_memory_that_ran_out_for_good() -> None:
    """The end is told, which says why; no other notification beside it."""
    found = told(out_of_memory())
    assert kinds(found) == ["gave_up"]
    assert "out of memory" in found[0].text
    only = told(out_of_memory(), on={NotificationKind.FIRST_OOM})
    assert kinds(only) == ["first_oom"]


def test_what_a_script_printed_is_no_command() -> None:
    """Escape sequences, directions and line ends are shown, not obeyed."""
    said = "cannot \x1b]0;pwn\x07 \u202e \r\nX-Injected: yes \x00"
    hostile = Diagnosis(
        cause=Cause.HOST_OOM, because=(Reason(said, "exception"),), advice=""
    )
    effect = replace(OOM, diagnosis=hostile)
    (one,) = notifications_of(fresh(), fresh(), [effect], job="digits", on=ALL)
    assert len(one.text.splitlines()) == 2
    assert not set(one.text) & set("\x1b\x07\u202e\r\x00")


def test_giving_up_is_told_with_where_to_look() -> None:
    """The reason that the run itself gives, and the commands."""
    crash = (killed(last=1, snapshot=0), *AGAIN)
    found = told(*crash, *crash, *crash, *crash, *crash)
    assert kinds(found)[-1] == "gave_up"
    assert kinds(found).count("gave_up") == 1
    assert "trainwarden logs digits" in found[-1].text


def test_where_to_look_may_be_elsewhere() -> None:
    """A run in a state directory of its own is looked at there."""
    look = "trainwarden logs digits --state-dir here"
    crash = (killed(last=1, snapshot=0), *AGAIN)
    found = told(*crash, *crash, *crash, *crash, *crash, look=look)
    assert found[-1].text.endswith(f"see {look}")


@pytest.mark.parametrize("resource", [Resource.DEVICE, Resource.HOST])
def test_a_warning_is_a_forecast(resource: Resource) -> None:
    """Nothing has failed yet."""
    (one,) = told(MemoryHigh(resource, MemoryLevel(used=95, capacity=100), 7))
    assert one.kind == "forecast"
    assert "memory" in one.title


def test_what_is_no_news() -> None:
    """A kill from outside, and steps between states."""
    assert told(killed(), *AGAIN) == []


def test_a_long_reason_is_shortened() -> None:
    """A notification is read on a telephone, and goes through a pipe whole."""
    before, _ = step(fresh(), DeadlineExpired(), now=1.0)
    for event in (GateClear(), Spawned(7)):
        before, _ = step(before, event, now=1.0)
    after, effects = step(before, finished(), now=2.0)
    long = replace(after, message="word " * 10_000)
    (one,) = notifications_of(before, long, effects, job="digits", on=ALL)
    assert len(one.text) < MOST + 100
