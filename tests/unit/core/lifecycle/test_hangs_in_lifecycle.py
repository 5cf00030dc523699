"""Hangs, planned restarts, and processes that nothing ends: the life of a run."""

from dataclasses import replace
from typing import Any

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Killed
from supervisor.core.diagnosis.log_scanner import scan
from supervisor.core.diagnosis.result import AskedEnd, RemedyKind
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import (
    AskDrain,
    End,
    Kill,
    Launch,
    Quarantine,
    RecordIncident,
    Say,
    TakeStacks,
    UpdateIncident,
)
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    DrainRequested,
    Event,
    GateClear,
    HealthSampled,
    RestartDue,
    Spawned,
    StacksTaken,
    Unkillable,
)
from supervisor.core.lifecycle.run_state import RunPhase, taken_over
from supervisor.core.liveness.hang_detection import Deadlines, Liveness
from supervisor.core.liveness.progress_intervals import ProgressIntervals
from supervisor.core.remediation.overrides import Overrides
from supervisor.wire.reasons import KillReason
from tests.support.hanging import STILL, ended, fresh, happen, hung, running
from tests.support.lives import drained, kinds

HANGS = Killed(reason=KillReason.STALLED, sentence="hangs")
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.\n"


def test_a_hang_shows_its_stacks_before_it_is_killed() -> None:
    """No drain is asked for: nobody would hear it."""
    run, effects = hung()
    assert run.state is JobState.KILLING
    assert TakeStacks() in effects
    assert not [e for e in effects if isinstance(e, Kill | AskDrain)]
    killing, effects = happen(run, StacksTaken())
    assert [type(effect) for effect in effects] == [Kill]
    assert happen(killing, StacksTaken()) == (killing, [])
    run, effects = happen(killing, ended(signal=9, stacks="Thread 0x1 (most recent"))
    (record,) = [e for e in effects if isinstance(e, RecordIncident)]
    assert record.diagnosis.cause is Cause.STALLED
    said = record.diagnosis.because[0]
    assert (said.signature, said.code) == ("killed", KillReason.STALLED)
    assert "no progress" in said.text
    assert record.stacks.startswith("Thread")
    assert (run.state, run.killed) == (JobState.WAITING, None)


def test_what_a_hang_took_is_lost_from_its_last_progress() -> None:
    """Not from when it was killed at last: nothing was trained before that either."""
    run, _ = hung()
    assert run.killed is not None
    assert run.killed.idle_since is not None
    killing, _ = happen(run, StacksTaken(), now=40.0)
    over, effects = happen(killing, ended(signal=9), now=41.0)
    assert over.open_incident is not None
    assert over.open_incident.at == run.killed.idle_since < 41.0
    assert not [e for e in effects if isinstance(e, UpdateIncident)]
    last = replace(killing, policy=replace(killing.policy, without_progress=0))
    gave_up, effects = happen(last, ended(signal=9), now=41.0)
    assert gave_up.state is JobState.GAVE_UP
    (lost,) = [e for e in effects if isinstance(e, UpdateIncident)]
    assert lost.downtime_seconds == 41.0 - run.killed.idle_since
    assert kinds(effects).index(RecordIncident) < effects.index(lost)


def test_a_hang_whose_stacks_do_not_come_is_killed_all_the_same() -> None:
    """A process that hangs in the kernel shows nothing."""
    run, _ = hung()
    run, effects = happen(run, DeadlineExpired())
    assert [type(effect) for effect in effects] == [Kill]
    again = Kill(KillReason.STILL_THERE)
    run, effects = happen(run, DeadlineExpired(), DeadlineExpired())
    assert [type(effect) for effect in effects] == [Say, Kill, Kill]
    assert [e for e in effects if isinstance(e, Kill)] == [again, again]


@pytest.mark.parametrize(
    ("events", "reason", "asked"),
    [
        (
            (DrainRequested("SIGTERM", at_once=True),),
            KillReason.AT_ONCE,
            AskedEnd.AT_ONCE,
        ),
        (
            (DrainRequested("Ctrl-C"), DrainRequested("Ctrl-C")),
            KillReason.AT_ONCE,
            AskedEnd.AT_ONCE,
        ),
        (
            (DrainRequested("SIGTERM"), DeadlineExpired()),
            KillReason.GRACE_OVER,
            AskedEnd.UNSAVED,
        ),
    ],
)
def test_a_kill_names_its_reason(
    events: tuple[Event, ...], reason: KillReason, asked: AskedEnd
) -> None:
    """Somebody wants the end now, or the grace was not enough; and its attempt is told as
    one that was asked to end."""
    run, effects = happen(running(), *events)
    assert Kill(reason) in effects
    assert (run.killing, run.killed) == (reason, None)
    run, _ = happen(run, ended(signal=9))
    assert run.killing is None
    assert run.history.last is not None
    assert run.history.last.asked is asked


def test_who_was_not_asked_to_end_is_not_told_so() -> None:
    """A stranger's SIGKILL, beside a drain."""
    outside, _ = happen(running(), ended(signal=9))
    asked, _ = happen(running(), DrainRequested("Ctrl-C"), drained())
    ends = [run.history.last for run in (outside, asked)]
    assert [one.asked for one in ends if one] == [None, AskedEnd.SAVED]
    assert len({one.words for one in AskedEnd}) == len(AskedEnd)


def test_who_waits_for_a_snapshot_of_what_may_hang_is_told() -> None:
    """How long at most, how to end it sooner, and that it may be in vain."""
    steps = ProgressIntervals(phase="training", count=9, longest=(4.0, 3.0))
    moves = replace(fresh().liveness, learned={"training": steps}, last=STILL)
    asked = DrainRequested("Ctrl-C", sooner="Ctrl-C again")
    plain = (
        "Ctrl-C: saving a snapshot at the next step, then ending (at most 1 min 00 s;"
        " Ctrl-C again ends it at once)"
    )

    def said(waited: float, liveness: Liveness) -> str:
        run = replace(running(), liveness=replace(liveness, stalled_for=waited))
        return happen(replace(run, grace_seconds=60.0), asked)[0].message

    assert said(11.9, moves) == plain
    assert said(12.0, moves) == (
        f"{plain}. There was no progress for 12 s (training; as a rule progress"
        " was seen every 4.0 s or sooner): if it hangs, it ends at the newest snapshot"
        " that there is"
    )
    assert said(99.0, replace(moves, learned={})) == plain
    assert said(99.0, replace(moves, last=replace(STILL, phase=None))) == plain


def test_a_silent_hang_is_told_apart() -> None:
    """No heartbeat, or no progress: an enum, beside a sentence that says it in words."""
    quiet = Liveness(deadlines=Deadlines(silent=5.0, step=None))
    run = running(fresh(liveness=quiet))
    for second in range(8):
        run, _ = happen(run, HealthSampled(STILL), now=10.0 + second)
    assert run.killed is not None
    assert run.killed.reason is KillReason.SILENT
    _, effects = happen(run, StacksTaken())
    assert effects == [Kill(KillReason.SILENT)]


def test_detectors_start_fresh_with_each_attempt() -> None:
    """What hung is no measure for the next, and its clocks are at zero."""
    run, _ = hung()
    run, effects = happen(
        run, StacksTaken(), ended(signal=9), DeadlineExpired(), GateClear()
    )
    assert isinstance(effects[-1], Launch)
    assert run.liveness.stalled_for == 0.0
    assert run.liveness.looked_at is None


def test_the_second_hang_in_vain_is_waited_for_twice_as_long() -> None:
    """Perhaps it was no hang. After progress, patience is as before."""
    run = fresh()
    waits: list[float] = []
    for snapshot in (8, 8, 8, 20):
        run = running(run)
        waits.append(run.liveness.patience)
        run = replace(run, phase=RunPhase.KILLING, killed=HANGS)
        over = replace(ended(signal=9), snapshot_step=snapshot, last_step=snapshot + 1)
        run, _ = happen(run, over)
    assert waits == [1.0, 1.0, 2.0, 4.0]
    assert running(run).liveness.patience == 1.0


def remedies_of_hangs(killed: Killed, liveness: Liveness, attempts: int) -> list[str]:
    """Why the next attempt is as it is, after each of so many hangs at one step."""
    told: list[str] = []
    run = fresh(liveness=liveness)
    for _ in range(attempts):
        run = replace(running(run), phase=RunPhase.KILLING, killed=killed)
        run, effects = happen(run, replace(ended(signal=9), snapshot_step=8))
        (record,) = [e for e in effects if isinstance(e, RecordIncident)]
        assert run.message.endswith(record.remedy.because)
        told.append(record.remedy.because)
    return told


def test_a_doubled_limit_is_told_with_the_next_attempt() -> None:
    """Who watches would take it for a hang that nobody judges; why is told as well."""
    once, twice, thrice, last = remedies_of_hangs(HANGS, Liveness(), 4)
    assert "limit" not in once
    for told, many, limit in ((twice, 2, "10 min"), (thrice, 3, "20 min")):
        assert told == (
            f"{once}; after {many} hangs in a row in vain, which may have been slowness,"
            f" the next is judged at twice the limit: {limit} 00 s without progress"
            " (training)"
        )
    assert "limit" not in last


def test_a_limit_that_is_not_doubled_is_not_told() -> None:
    """One that a person wrote; and that of heartbeats, which is none of progress."""
    chosen = Liveness(deadlines=Deadlines(step=15.0))
    assert len(set(remedies_of_hangs(HANGS, chosen, 3))) == 1
    silent = replace(HANGS, reason=KillReason.SILENT)
    assert len(set(remedies_of_hangs(silent, Liveness(), 3))) == 1


def test_patience_outlives_the_supervisor() -> None:
    """Whoever takes the attempt over waits as long, and knows as much, as who began it."""
    run = fresh()
    for _ in range(2):
        run = replace(running(run), phase=RunPhase.KILLING, killed=HANGS)
        slow = {"training": ProgressIntervals(phase="training").with_time(50.0)}
        run = replace(run, liveness=replace(run.liveness, seen=slow))
        run, _ = happen(run, replace(ended(signal=9), snapshot_step=8, last_step=9))
    run = running(run)
    anew = replace(run, phase=RunPhase.WAITING, liveness=Liveness())
    taken = taken_over(anew)
    assert (taken.phase, taken.deadline) == (RunPhase.LAUNCHING, None)
    assert taken.liveness.patience == run.liveness.patience == 2.0
    assert taken.liveness.learned == run.liveness.learned != {}


def test_who_hangs_behind_its_own_end_has_finished() -> None:
    """The script came to its end; a thread that nobody joined is no reason to train
    it all again."""
    run, _ = hung()
    run, _ = happen(run, StacksTaken())
    run, effects = happen(run, ended(signal=9, script_exit_code=0))
    assert (run.state, effects[-1]) == (JobState.FINISHED, End(0))


def test_a_drain_asked_for_during_a_kill_ends_the_run() -> None:
    """It was killed for a hang, and nobody wants another attempt."""
    run, _ = hung()
    run, effects = happen(run, DrainRequested("SIGTERM"), StacksTaken())
    run, effects = happen(run, ended(signal=9))
    assert (run.state, effects[-1]) == (JobState.DRAINED, End(75))


def test_a_planned_restart_is_no_failure() -> None:
    """It drains, and goes on; no incident, and no wait."""
    run, effects = happen(running(), RestartDue("memory grows"), now=50.0)
    assert run.state is JobState.DRAINING
    assert AskDrain() in effects
    run, effects = happen(run, ended(code=75, drained=True), now=55.0)
    assert run.state is JobState.WAITING
    assert run.deadline == 55.0
    assert not [e for e in effects if isinstance(e, RecordIncident | End)]
    assert run.history.last is not None
    assert run.history.last.remedy is RemedyKind.RESTART
    run, effects = happen(run, DeadlineExpired(), GateClear(), now=56.0)
    assert isinstance(effects[-1], Launch)


def test_a_person_who_asks_during_a_planned_restart_gets_the_end() -> None:
    """The first request of a person is a drain; the second kills."""
    run, _ = happen(running(), RestartDue("memory grows"))
    run, effects = happen(run, DrainRequested("Ctrl-C"))
    assert (run.state, effects) == (JobState.DRAINING, [])
    again, _ = happen(run, DrainRequested("Ctrl-C"))
    assert again.state is JobState.KILLING
    run, effects = happen(run, ended(code=75, drained=True))
    assert (run.state, effects[-1]) == (JobState.DRAINED, End(75))


def test_a_planned_restart_that_an_earlier_supervisor_began_is_not_the_end() -> None:
    """The attempt was asked to drain already; where a person asks too, it is the end."""
    run = replace(running(), restart=RestartDue("an earlier one"))
    over = ended(code=75, drained=True)
    assert happen(run, over)[0].phase is RunPhase.WAITING
    assert happen(run, DrainRequested("stop"), over)[0].phase is RunPhase.DRAINED
    at_once = DrainRequested("stop", at_once=True)
    assert happen(run, at_once, over)[0].phase is RunPhase.DRAINED


def test_who_asks_while_a_planned_restart_is_killed_gets_the_end() -> None:
    """It had its state saved in the last moment: no attempt follows all the same."""
    run, _ = happen(running(), RestartDue("memory grows"), DeadlineExpired())
    assert run.phase is RunPhase.KILLING
    over = ended(code=75, drained=True)
    assert happen(run, over)[0].phase is RunPhase.WAITING
    assert happen(run, DrainRequested("stop"), over)[0].phase is RunPhase.DRAINED


def test_what_people_are_shown_of_a_phase() -> None:
    """The ledger, metrics and scripts know the names that they always knew."""
    restarting, _ = happen(running(), RestartDue("memory grows"))
    dumping, _ = hung()
    shown = {RunPhase.RESTARTING: "draining", RunPhase.DUMPING_STACKS: "killing"}
    assert (restarting.phase, dumping.phase) == tuple(shown)
    for phase in RunPhase:
        assert phase.shown == shown.get(phase, phase.value)


@pytest.mark.parametrize(
    ("signal", "told", "cause"),
    [
        (11, {}, Cause.NATIVE_CRASH),
        (9, {"cgroup_oom_kills": 1}, Cause.HOST_OOM),
        (9, {"kernel": scan(XID.encode())}, Cause.GPU_HARDWARE),
        (9, {}, Cause.PREEMPTED),
        (15, {}, Cause.PREEMPTED),
    ],
)
def test_a_crash_while_it_saves_is_a_crash(
    signal: int, told: dict[str, Any], cause: Cause
) -> None:
    """What was asked of it is no cause of what it did not do."""
    run, _ = happen(running(), RestartDue("memory grows"))
    run, effects = happen(run, ended(signal=signal, stop_requested=True, **told))
    (record,) = [e for e in effects if isinstance(e, RecordIncident)]
    assert record.diagnosis.cause is cause


def test_a_gpu_that_fails_while_the_run_ends_is_kept_out() -> None:
    """The run ends as it was asked to; nobody else gets that GPU."""
    run, _ = happen(running(), DrainRequested("Ctrl-C"))
    gpus = tuple(Gpu(uuid=f"GPU-{n}", index=n) for n in range(2))
    run, effects = happen(
        run,
        ended(
            signal=9, stop_requested=True, kernel=scan(XID.encode()), gpus=gpus,
            faulty_gpus=("GPU-1",),
        ),
    )  # fmt: skip
    assert run.state is JobState.DRAINED
    (kept,) = [e for e in effects if isinstance(e, Quarantine)]
    assert kept.gpus == ("GPU-1",)


def test_a_gpu_that_failed_explains_the_hang() -> None:
    """A call of the driver that never returns looks like a stall; the Xid tells."""
    run, _ = hung()
    run, _ = happen(run, StacksTaken())
    run, effects = happen(run, ended(signal=9, kernel=scan(XID.encode())))
    (record,) = [e for e in effects if isinstance(e, RecordIncident)]
    assert record.diagnosis.cause is Cause.GPU_HARDWARE
    said = [reason.text for reason in record.diagnosis.because]
    assert "fallen off the bus" in said[0]
    assert any("no progress" in text for text in said)


def test_a_fault_of_the_programs_own_is_not_behind_a_hang() -> None:
    """Xid 31 is what a program does to itself."""
    run, _ = hung()
    run, _ = happen(run, StacksTaken())
    xid = b"NVRM: Xid (PCI:0000:3b:00): 31, pid=7, Ch 0000000b, MMU Fault\n"
    run, effects = happen(run, ended(signal=9, kernel=scan(xid)))
    (record,) = [e for e in effects if isinstance(e, RecordIncident)]
    assert record.diagnosis.cause is Cause.STALLED


@pytest.mark.parametrize(("steps", "kept"), [(3, None), (40, 50)])
def test_a_planned_restart_that_came_to_nothing_is_the_last(
    steps: int, kept: int | None
) -> None:
    """It spends no budget, so a run that simply needs the memory must not get another:
    it would restart for ever."""
    leaky = fresh(overrides=Overrides(recycle_bytes=50))
    run, _ = happen(running(leaky), HealthSampled(STILL, 50))
    over = replace(ended(code=75, drained=True), last_step=5 + steps)
    run, _ = happen(run, over)
    assert run.state is JobState.WAITING
    assert run.overrides.recycle_bytes == kept


def test_a_leaking_attempt_is_recycled_once_it_trains() -> None:
    """Not before: a restart that brings nothing is none."""
    leaky = fresh(overrides=Overrides(recycle_bytes=50))
    run, effects = happen(running(leaky, restored=None), HealthSampled(STILL, 60))
    assert run.state is JobState.RUNNING
    run, effects = happen(
        running(leaky), HealthSampled(STILL, 49), HealthSampled(STILL, 50)
    )
    assert run.state is JobState.DRAINING
    assert AskDrain() in effects


def test_a_process_that_sigkill_does_not_end_is_an_incident() -> None:
    """Told once; its GPU is kept out of use; the run waits for the reboot."""
    run, _ = hung()
    stuck = Unkillable((7,), ("GPU-a",))
    run, effects = happen(run, stuck)
    (record,) = [e for e in effects if isinstance(e, RecordIncident)]
    assert record.diagnosis.cause is Cause.UNKILLABLE
    said = record.diagnosis.because[0]
    assert (said.signature, said.code) == ("killed", KillReason.UNKILLABLE)
    assert "reboot" in said.text
    (kept,) = [e for e in effects if isinstance(e, Quarantine)]
    assert kept.gpus == ("GPU-a",)
    assert run.quarantined == {"GPU-a"}
    assert run.state is JobState.KILLING
    assert happen(run, stuck) == (run, [])
    other, effects = happen(run, Unkillable((7, 8), ("GPU-a",)))
    assert not [e for e in effects if isinstance(e, Quarantine)]
    run, _ = happen(run, ended(signal=9))
    assert run.history.last is not None
    assert run.history.last.cause is Cause.UNKILLABLE
    assert other.quarantined == {"GPU-a"}


def test_an_unkillable_worker_of_a_dead_attempt_is_told_at_the_gate() -> None:
    """Before any attempt of this supervisor there is no step to tell. The gate is asked
    again at once, and the next attempt ends for reasons of its own."""
    run, effects = happen(fresh(), DeadlineExpired(), Unkillable((7,), ("GPU-a",)))
    assert run.state is JobState.WAITING
    assert run.deadline == 1.0
    assert run.quarantined == {"GPU-a"}
    (record,) = [e for e in effects if isinstance(e, RecordIncident)]
    assert record.failed_step is None
    assert record.remedy.kind is RemedyKind.GO_ON
    run, _ = happen(run, DeadlineExpired(), GateClear(), Spawned(8), ended(signal=11))
    assert run.history.last is not None
    assert run.history.last.cause is Cause.NATIVE_CRASH


def test_an_unkillable_worker_is_one_incident() -> None:
    """The end of its attempt told of it: at the gate that is no news, and holds up
    nobody."""
    run = running(fresh())
    worker = ended(signal=9)
    assert worker.evidence.exit is not None
    exit_record = replace(worker.evidence.exit, unkillable=(7,))
    evidence = replace(worker.evidence, exit=exit_record)
    run, effects = happen(run, replace(worker, evidence=evidence))
    assert [e for e in effects if isinstance(e, RecordIncident)]
    run, effects = happen(run, DeadlineExpired(), Unkillable((7,)))
    assert not [e for e in effects if isinstance(e, RecordIncident)]
    assert run.deadline == 1.0
