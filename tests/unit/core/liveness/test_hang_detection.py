"""Silent and stalled are told apart, and nobody is killed for being suspended."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.liveness.hang_detection import (
    LONGEST_LOOK,
    MOST_REFUSALS,
    PHASES,
    TWICE_FACTOR,
    Deadlines,
    Hang,
    Liveness,
    Look,
    look,
)
from supervisor.core.liveness.progress_intervals import (
    KEPT,
    ProgressIntervals,
    together,
)
from supervisor.wire.page import Phase
from supervisor.wire.reasons import KillReason

TICK = 0.5
SHORT = Deadlines(
    silent=20.0, startup=60.0, compile=60.0, step=30.0, validation=60.0, snapshot=60.0
)
TRAINING = Look(heartbeat_ns=1, phase="training", progress=(1,), state="S")


def watch(
    looks: Iterable[Look], liveness: Liveness | None = None, *, tick: float = TICK
) -> tuple[Liveness, Hang | None, float]:
    """What comes of ``looks``, one a tick: at the first hang, and when that was."""
    known, now = liveness or Liveness(deadlines=SHORT), 0.0
    for one in looks:
        known, hang = look(known, one, now=now)
        if hang is not None:
            return known, hang, now
        now += tick
    return known, None, now


def beating(seconds: float, **fields: object) -> list[Look]:
    """Heartbeats for so long, and no progress."""
    return [
        replace(TRAINING, heartbeat_ns=n, **fields)  # type: ignore[arg-type]  # by name
        for n in range(int(seconds / TICK))
    ]


def still(seconds: float, **fields: object) -> list[Look]:
    """Neither for so long."""
    one = replace(TRAINING, **fields)  # type: ignore[arg-type]  # by name
    return [one] * int(seconds / TICK)


def moving(seconds: float, every: float) -> list[Look]:
    """Heartbeats, and progress every so often."""
    return [
        replace(TRAINING, heartbeat_ns=n, progress=(int(n * TICK / every),))
        for n in range(int(seconds / TICK))
    ]


def test_every_phase_has_a_deadline() -> None:
    """No phase of the telemetry page is forgotten."""
    assert set(PHASES) == {phase.name.lower() for phase in Phase}
    assert all(Deadlines().floor(what) for what in PHASES.values())


def test_heartbeats_without_progress_are_stalled() -> None:
    """The interpreter runs, and training waits for something."""
    _, hang, at = watch(beating(100))
    assert hang is not None
    assert hang.kind is KillReason.STALLED
    assert 30.0 <= at <= 32.0
    assert "nothing to compare with yet" in hang.sentence
    assert "training" in hang.sentence


def test_no_heartbeat_is_silent() -> None:
    """The interpreter does not run: native code holds it."""
    _, hang, at = watch(still(100))
    assert hang is not None
    assert hang.kind is KillReason.SILENT
    assert 20.0 <= at <= 22.0
    assert "no heartbeat" in hang.sentence


def test_a_silent_process_that_stalls_first_is_silent() -> None:
    """Where the deadline of progress is the shorter one, it is still the native kind."""
    _, hang, _ = watch(still(100), Liveness(deadlines=replace(SHORT, silent=90.0)))
    assert hang is not None
    assert hang.kind is KillReason.SILENT


def test_a_busy_silence_is_given_three_times_as_long() -> None:
    """A long native call that holds the interpreter's lock is work."""
    patient = Liveness(deadlines=replace(SHORT, step=None))
    busy = [replace(TRAINING, cpu_seconds=n * TICK) for n in range(400)]
    _, hang, at = watch(busy, patient)
    assert hang is not None
    assert 60.0 <= at <= 62.0
    idle = [replace(TRAINING, cpu_seconds=7.0) for _ in range(400)]
    _, hang, at = watch(idle, patient)
    assert at <= 22.0


def test_a_stopped_process_does_not_hang() -> None:
    """SIGSTOP for an hour is no incident, and neither is what follows SIGCONT."""
    known, hang, _ = watch(moving(60, every=1.0))
    assert hang is None
    known, hang, _ = watch(still(3600, state="T"), known)
    assert hang is None
    _, hang, _ = watch(moving(25, every=1.0), known)
    assert hang is None


def test_a_machine_that_slept_does_not_hang() -> None:
    """Neither the time asleep nor one jump of the clock counts as waiting."""
    known, _, _ = watch(moving(60, every=1.0))
    asleep = replace(known.last, slept_seconds=9000.0)
    awake, hang = look(known, asleep, now=9060.0)
    assert hang is None
    assert awake.silent_for == known.silent_for


@given(st.lists(st.floats(0.0, 1e9), max_size=3))
def test_no_single_look_makes_a_hang(jumps: list[float]) -> None:
    """However far a clock jumps: a supervisor that was suspended sees it run first."""
    known, now = Liveness(deadlines=SHORT), 0.0
    for jump in [0.0, *jumps]:
        now += jump
        known, hang = look(known, TRAINING, now=now)
        assert hang is None
    assert known.silent_for <= LONGEST_LOOK * len(jumps)


def test_a_deadline_follows_what_is_usual() -> None:
    """Steps of 20 seconds are waited for five times as long, not the floor."""
    known, hang, _ = watch(moving(400, every=20.0))
    assert hang is None
    assert known.deadline("training") == pytest.approx(100.0, rel=0.1)
    _, hang, at = watch(beating(300, progress=(99,)), known)
    assert hang is not None
    assert 95.0 <= at <= 115.0
    assert "(training; as a rule progress was seen every 20 s or" in hang.sentence


def test_what_is_usual_is_no_time_of_a_step() -> None:
    """A hundred steps between two looks are one progress: the sentence tells what was
    measured, which is when looks saw some."""
    quick = [replace(one, progress=(100 * n,)) for n, one in enumerate(beating(50))]
    _, hang, _ = watch([*quick, *beating(100, progress=(99,))])
    assert hang is not None
    assert hang.sentence == (
        "heartbeats, but no progress for 30 s (training; as a rule progress was seen every"
        " 0.5 s or sooner)"
    )


def test_one_slow_step_in_many_does_not_widen_the_deadline() -> None:
    """A quantile, not the longest: one accident is no rhythm. Two are none either, but
    what took so long twice may do so again."""
    interval = ProgressIntervals(phase="training")
    assert (interval.usual, interval.twice) == (None, None)
    for _ in range(300):
        interval = interval.with_time(1.0)
    assert len(interval.longest) == KEPT
    once = interval.with_time(500.0)
    assert (once.usual, once.twice) == (1.0, 1.0)
    again = Liveness(deadlines=SHORT, seen={"training": once.with_time(500.0)})
    assert again.usual("training") == 1.0
    assert again.deadline("training") == 1000.0


def test_a_busy_step_is_given_three_times_as_long() -> None:
    """A callback that evaluates for minutes is work; a loop that never ends is found."""
    busy = [replace(TRAINING, heartbeat_ns=n, cpu_seconds=n * TICK) for n in range(400)]
    _, hang, at = watch(busy)
    assert hang is not None
    assert hang.kind is KillReason.STALLED
    assert 90.0 <= at <= 92.0


def test_a_run_that_was_killed_in_vain_is_waited_for_longer() -> None:
    """If the next attempt gets no further, the deadline may have been too short: one that
    nobody chose. What a person wrote into the spec is kept, and ``off`` is off."""
    patient = Liveness().fresh({}, hangs=2)
    assert patient.deadline("training") == patient.longer_wait("training") == 1200.0
    assert patient.deadline("no phase") == patient.longer_wait("no phase") == 14400.0
    assert Liveness().fresh({}).deadline("training") == 300.0
    assert Liveness().fresh({}).longer_wait("training") is None
    chosen = Liveness(deadlines=replace(SHORT, validation=None)).fresh({}, hangs=2)
    assert (chosen.deadline("training"), chosen.longer_wait("training")) == (30.0, None)
    assert chosen.deadline("validating") is chosen.longer_wait("validating") is None
    assert not Deadlines().doubles("silent")


def test_before_the_first_plain_step_the_compiled_one_is_the_measure() -> None:
    """With steps_per_execution a step may take as long as the first did."""
    seen = {"compiling": ProgressIntervals(phase="compiling").with_time(50.0)}
    assert Liveness(deadlines=SHORT, seen=seen).deadline("training") == 250.0
    assert Liveness(deadlines=SHORT).deadline("training") == 30.0


def test_a_new_attempt_begins_with_fresh_clocks_and_what_was_learned() -> None:
    """A detector that outlives its attempt kills healthy ones."""
    known, _, _ = watch(moving(200, every=10.0))
    known, _, _ = watch(beating(20, progress=(999,)), known)
    fresh = known.fresh(together(known.seen.values()))
    assert (fresh.silent_for, fresh.stalled_for, fresh.looked_at) == (0.0, 0.0, None)
    assert fresh.deadline("training") == pytest.approx(50.0, rel=0.1)


def test_what_came_of_a_hang_is_not_learned() -> None:
    """Only times that ended in progress are usual."""
    known, hang, _ = watch([*moving(60, every=1.0), *beating(100, progress=(999,))])
    assert hang is not None
    assert known.usual("training") is not None
    assert (known.usual("training") or 0.0) < 2.0


def test_off_is_for_ever() -> None:
    """A spec may say that nothing is a hang."""
    never = Deadlines(
        silent=None, startup=None, compile=None, step=None, validation=None,
        snapshot=None,
    )  # fmt: skip
    assert watch(still(7200), Liveness(deadlines=never))[1] is None


def test_before_the_first_page_it_is_starting() -> None:
    """A process that never says anything has the deadline of the start."""
    _, hang, at = watch([Look()] * 300, Liveness(deadlines=replace(SHORT, silent=None)))
    assert hang is not None
    assert hang.phase == "starting"
    assert 60.0 <= at <= 62.0
    known, _, _ = watch([Look(), replace(TRAINING, heartbeat_ns=2)])
    assert known.seen == {}


@pytest.mark.parametrize("phase", ["starting", "between", "compiling", "restoring"])
def test_work_outside_of_steps_is_progress(phase: str) -> None:
    """A script of its own loop, a compiler, a long way through the data: it works, or
    it writes; only who does neither for the whole time hangs."""
    idle = replace(TRAINING, phase=phase, work_seconds=5.0, output_bytes=7)
    looks = [replace(idle, heartbeat_ns=n) for n in range(400)]
    working = [replace(one, work_seconds=5.0 + n * 0.02) for n, one in enumerate(looks)]
    assert watch(working)[1] is None
    writing = [replace(one, output_bytes=n // 60) for n, one in enumerate(looks)]
    assert watch(writing)[1] is None
    polling = [replace(one, work_seconds=5 + n * 1e-4) for n, one in enumerate(looks)]
    _, hang, at = watch(polling)
    assert hang is not None
    assert hang.kind is KillReason.STALLED
    assert 60.0 <= at <= 64.0


def test_work_in_steps_is_none() -> None:
    """A busy loop that prints and never completes a step hangs."""
    busy = [
        replace(TRAINING, heartbeat_ns=n, work_seconds=n * TICK, output_bytes=n)
        for n in range(400)
    ]
    assert watch(busy)[1] is not None


def test_how_long_compiling_took_is_learned_whatever_it_worked() -> None:
    """It is what the first plain step is measured by."""
    looks = [
        replace(TRAINING, phase="compiling", heartbeat_ns=n, work_seconds=n * TICK)
        for n in range(100)
    ]
    known, _, _ = watch([*looks, replace(TRAINING, heartbeat_ns=999, progress=(2,))])
    assert known.usual("compiling") == pytest.approx(50.0, rel=0.05)


def test_rhythms_of_attempts_add_up() -> None:
    """Counts are summed, and of the longest the longest are kept."""
    one = ProgressIntervals(phase="training", count=2, longest=(3.0, 1.0))
    other = ProgressIntervals(phase="training", count=1, longest=(2.0,))
    assert together([one, other])["training"] == ProgressIntervals(
        phase="training", count=3, longest=(3.0, 2.0, 1.0)
    )


def test_what_earlier_attempts_took_and_this_one_took_counts_together() -> None:
    """Each once: it is reached twice what the one reached and the other nearly did."""
    earlier = {
        "training": ProgressIntervals(phase="training", count=2, longest=(9.0, 1.0))
    }
    now = {"training": ProgressIntervals(phase="training", count=1, longest=(4.0,))}
    deadlines = Deadlines(step=0.1, factor=0.0)
    for learned, seen in ((earlier, now), (now, earlier)):
        liveness = Liveness(deadlines=deadlines, learned=learned, seen=seen)
        assert liveness.usual("training") == 9.0
        assert liveness.deadline("training") == TWICE_FACTOR * 4.0


def test_memory_refused_again_and_again_is_no_wait_for_a_compiler() -> None:
    """The first step of XLA on a GPU that is too small: it works, writes, and is not done."""
    looks = [
        replace(
            TRAINING,
            phase="compiling",
            heartbeat_ns=n,
            work_seconds=n * TICK,
            refusals=n // 20,
        )
        for n in range(400)
    ]
    _, hang, at = watch(looks)
    assert hang is not None
    assert hang.kind is KillReason.REFUSED
    assert at == pytest.approx(20 * MOST_REFUSALS * TICK, abs=1.0)
    assert f"memory ran out {MOST_REFUSALS} times" in hang.sentence


@pytest.mark.parametrize(
    ("phase", "every"), [("starting", 20), ("training", 20), ("compiling", 200)]
)
def test_refusals_elsewhere_or_now_and_then_are_outlived(
    phase: str, every: int
) -> None:
    """A script that tries which batch fits, and a first step that finds another way."""
    looks = [
        replace(
            TRAINING,
            phase=phase,
            heartbeat_ns=n,
            work_seconds=n * TICK,
            output_bytes=n,
            refusals=n // every,
            progress=(n // 50 if phase == "training" else 0,),
        )
        for n in range(4000)
    ]
    assert watch(looks)[1] is None


def test_refusals_between_which_there_is_progress_are_outlived() -> None:
    """A script that catches them, or a step that found another way."""
    looks = [
        replace(
            TRAINING,
            phase="compiling",
            heartbeat_ns=n,
            refusals=n // 20,
            progress=(n // 50,),
        )
        for n in range(4000)
    ]
    assert watch(looks)[1] is None


def test_what_is_waited_for_is_told_in_advance() -> None:
    """A limit of steps, or of heartbeats where they stopped too; none where work counts."""
    limits = Liveness(deadlines=Deadlines(step=300.0, silent=200.0), patience=2.0)
    assert limits.earliest("training", silent=False) == 600.0
    assert limits.earliest("training", silent=True) == 200.0
    assert limits.earliest("between", silent=False) is None
    assert limits.earliest("between", silent=True) == 200.0
    never = Liveness(deadlines=Deadlines(step=None, silent=None))
    assert never.earliest("training", silent=True) is None
