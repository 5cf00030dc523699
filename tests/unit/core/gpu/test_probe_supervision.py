"""The rules by which the GPU probe is kept alive."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.gpu.gpu_readings import Absent, Hanging
from supervisor.core.gpu.probe_supervision import (
    AGAIN,
    REBOOT,
    Backfill,
    Effect,
    Ended,
    Event,
    Heard,
    KillProbe,
    Limits,
    Mode,
    ProbeMessage,
    ProbeSupervision,
    StartProbe,
    Tick,
    step,
)

LIMITS = Limits()


@dataclass
class DrivenProbe:
    """A probe, and everything that was done about it."""

    probe: ProbeSupervision = field(default_factory=ProbeSupervision)
    effects: list[Effect] = field(default_factory=list[Effect])

    def at(self, now: float, *events: Event) -> list[Effect]:
        """Let ``events`` happen; what follows from them."""
        new: list[Effect] = []
        for event in events:
            self.probe, effects = step(self.probe, event, now=now)
            new += effects
        self.effects += new
        return new


@pytest.fixture
def told() -> DrivenProbe:
    """A probe that was started at 0 and has answered at 1."""
    story = DrivenProbe()
    assert story.at(0.0, Tick()) == [StartProbe()]
    assert story.at(1.0, Heard()) == []
    return story


def test_a_probe_that_answers_is_left_alone(told: DrivenProbe) -> None:
    """Samples in time cause nothing, for ever."""
    for second in range(2, 500):
        assert told.at(float(second), Tick(), Heard()) == []
    assert told.probe.mode is Mode.ASKED
    assert told.probe.problem == ""


def test_the_first_sample_may_take_longer() -> None:
    """Waking every GPU takes a driver longer than one sample."""
    story = DrivenProbe()
    story.at(0.0, Tick())
    assert story.at(LIMITS.sample_seconds + 1, Tick()) == []
    assert KillProbe() in story.at(LIMITS.first_seconds, Tick())


def test_a_late_sample_costs_the_probe_its_life(told: DrivenProbe) -> None:
    """It is killed, then replaced, and the gap is asked about."""
    late = 1 + LIMITS.sample_seconds
    say, kill = told.at(late, Tick())
    assert isinstance(say, ProbeMessage)
    assert say.text != REBOOT
    assert kill == KillProbe()
    assert told.probe.mode is Mode.ENDING
    assert told.at(late + 0.1, Tick(), Ended("it was killed")) == []
    assert told.probe.problem == "The GPU driver did not answer in time."
    assert told.at(late + 0.1 + LIMITS.wait_seconds, Tick()) == [StartProbe()]
    assert told.at(late + 2, Heard()) == [Backfill(1.0)]
    assert told.probe.problem == ""


def test_what_cannot_be_killed_is_not_replaced(told: DrivenProbe) -> None:
    """In D state nothing is started, however long; a reboot is asked for once."""
    late = 1 + LIMITS.sample_seconds
    told.at(late, Tick())
    assert told.at(late + LIMITS.kill_seconds, Tick()) == [ProbeMessage(REBOOT)]
    for hours in range(1, 100):
        assert told.at(late + 3600 * hours, Tick()) == []
    assert told.probe.mode is Mode.STUCK
    assert told.probe.problem == REBOOT


def test_it_may_end_after_all(told: DrivenProbe) -> None:
    """A driver that comes to itself is watched again."""
    told.at(11.0, Tick())
    told.at(16.0, Tick())
    assert told.at(50.0, Ended("it was killed")) == [ProbeMessage(AGAIN)]
    assert not told.probe.hangs
    assert told.probe.problem == "it was killed"
    assert told.at(51.0, Tick()) == [StartProbe()]


def test_whoever_keeps_it_tells_that_it_hangs(told: DrivenProbe) -> None:
    """Said once, also when it is told again; a broken line to them proves nothing, and
    a sample does."""
    assert told.at(5.0, Hanging()) == [ProbeMessage(REBOOT)]
    assert told.at(3600.0, Hanging(), Tick()) == []
    assert told.at(3601.0, Ended("its service has ended.", seen=False)) == []
    assert told.probe.hangs
    assert told.at(3602.0, Tick()) == [StartProbe()]
    assert told.at(3603.0, Hanging(), Ended("again", seen=False)) == []
    assert told.at(3610.0, Tick()) == [StartProbe()]
    assert told.at(3611.0, Ended("nobody listens", seen=False)) == []
    assert told.at(3620.0, Tick()) == [StartProbe()]
    assert told.at(3621.0, Heard()) == [Backfill(1.0), ProbeMessage(AGAIN)]
    assert (told.probe.hangs, told.probe.problem) == (False, "")


def test_replacements_come_later_and_later(told: DrivenProbe) -> None:
    """One that keeps ending is started after 1, 2, 4 … at most 60 s; a sample resets,
    and until then it is said once."""
    now, waits, said = 10.0, list[float](), list[Effect]()
    for _ in range(9):
        said += told.at(now, Ended("its exit status was 1."))
        waits.append(told.probe.deadline - now)
        now = told.probe.deadline
        assert told.at(now, Tick()) == [StartProbe()]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert said == [ProbeMessage("The GPU probe ended: its exit status was 1.")]
    told.at(now, Heard())
    assert told.at(now, Ended("again")) == [ProbeMessage("The GPU probe ended: again")]
    assert told.probe.deadline == now + 1


def test_no_nvml_is_quiet() -> None:
    """It is not said, and asked again only now and then."""
    story = DrivenProbe()
    story.at(0.0, Tick(), Absent("Driver Not Loaded"), Ended("its exit status was 0."))
    assert story.probe.mode is Mode.ABSENT
    assert story.at(LIMITS.absent_seconds - 1, Tick()) == []
    assert story.effects == [StartProbe()]
    assert story.at(LIMITS.absent_seconds, Tick()) == [StartProbe()]


def test_a_late_line_is_still_a_sample(told: DrivenProbe) -> None:
    """What stood in the pipe of a killed probe counts, and revives nobody."""
    told.at(11.0, Tick())
    told.at(11.5, Heard())
    assert told.probe.mode is Mode.ENDING
    assert told.probe.heard == 11.5
    assert told.probe.problem


EVENTS = st.sampled_from(
    [
        Tick(),
        Heard(),
        Absent("none"),
        Ended("gone"),
        Ended("cut", seen=False),
        Hanging(),
    ]
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 100)), max_size=60))
def test_never_two_at_once(events: list[tuple[Event, float]]) -> None:
    """Whatever happens: after a start there is no other before an end was seen."""
    story, now, running = DrivenProbe(), 0.0, False
    for event, passed in events:
        now += passed
        if isinstance(event, Heard | Ended | Absent | Hanging) and not running:
            continue
        if isinstance(event, Ended | Absent):
            running = False
        for effect in story.at(now, event):
            assert not (isinstance(effect, StartProbe) and running)
            running = running or isinstance(effect, StartProbe)
