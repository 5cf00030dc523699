"""Hangs, planned restarts, and processes that nothing ends: the life of a run."""

from dataclasses import replace
from typing import Any

import pytest

from supervisor.core.backoff import BackOff
from supervisor.core.causes import Cause
from supervisor.core.effects import (
    AskDrain,
    CheckGate,
    Effect,
    End,
    Kill,
    Launch,
    Quarantine,
    RecordIncident,
    Say,
    TakeStacks,
)
from supervisor.core.events import (
    DrainRequested,
    Event,
    Exited,
    GateClear,
    GateHeld,
    Learned,
    Looked,
    RestartDue,
    Spawned,
    StacksTaken,
    TimeIsUp,
    Unkillable,
)
from supervisor.core.evidence import Evidence
from supervisor.core.lifecycle import GATE_SECONDS_MOST, Run, step
from supervisor.core.liveness import Deadlines, Liveness, Look
from supervisor.core.logscan import scan
from supervisor.core.placement import GpuReading
from supervisor.core.policy import Policy
from supervisor.core.status import JobState
from supervisor.core.treatment import Awaited, Detour, Treatment
from supervisor.core.verdicts import RemedyKind
from tests.support.lives import exit_record

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.\n"
STILL = Look(heartbeat_ns=1, phase="training", progress=(1,), state="S")


def fresh(**fields: object) -> Run:
    """A run whose steps may take ten seconds."""
    policy = Policy(
        run_id="r",
        without_progress=3,
        back_off=BackOff(first_seconds=1.0, most_seconds=60.0),
        allow_inexact=True,
    )
    made = Run(
        policy=policy,
        grace_seconds=60.0,
        liveness=Liveness(deadlines=Deadlines(silent=None, step=10.0)),
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # by name


def happen(run: Run, *events: Event, now: float = 0.0) -> tuple[Run, list[Effect]]:
    """``run`` after ``events``, a second apart."""
    effects: list[Effect] = []
    for number, event in enumerate(events):
        run, done = step(run, event, now=now + number)
        effects += done
    return run, effects


def running(run: Run | None = None, *, restored: int | None = 5) -> Run:
    """An attempt that trains."""
    news = Learned(restored_step=restored)
    started, _ = happen(
        run or fresh(), TimeIsUp(), GateClear(), Spawned(7), Looked(STILL), news
    )
    assert started.state is JobState.RUNNING
    return started


def ended(
    *, signal: int | None = None, code: int | None = None, **evidence: object
) -> Exited:
    """An attempt that is over, at step 9 with a snapshot of step 8."""
    record = replace(
        exit_record(code=code, signal=signal),
        asked_to_stop=bool(evidence.get("stop_requested")),
    )
    known = Evidence(exit=record, **evidence)  # type: ignore[arg-type]  # by name
    return Exited(evidence=known, last_step=9, snapshot_step=8, rss_bytes=100)


def hung() -> tuple[Run, list[Effect]]:
    """Looks without progress until it hangs."""
    looks = [Looked(replace(STILL, heartbeat_ns=beat)) for beat in range(14)]
    return happen(running(), *looks, now=5.0)


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
    assert "no progress" in record.diagnosis.because[0].text
    assert record.stacks.startswith("Thread")
    assert (run.state, run.killed_because) == (JobState.WAITING, None)


def test_a_hang_whose_stacks_do_not_come_is_killed_all_the_same() -> None:
    """A process that hangs in the kernel shows nothing."""
    run, _ = hung()
    run, effects = happen(run, TimeIsUp())
    assert [type(effect) for effect in effects] == [Kill]
    run, effects = happen(run, TimeIsUp(), TimeIsUp())
    assert [type(effect) for effect in effects] == [Say, Kill, Kill]


def test_detectors_start_fresh_with_each_attempt() -> None:
    """What hung is no measure for the next, and its clocks are at zero."""
    run, _ = hung()
    run, effects = happen(run, StacksTaken(), ended(signal=9), TimeIsUp(), GateClear())
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
        run = replace(run, state=JobState.KILLING, killed_because="hangs")
        over = replace(ended(signal=9), snapshot_step=snapshot, last_step=snapshot + 1)
        run, _ = happen(run, over)
    assert waits == [1.0, 1.0, 2.0, 4.0]
    assert running(run).liveness.patience == 1.0


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
    run, effects = happen(run, TimeIsUp(), GateClear(), now=56.0)
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
    gpus = tuple(GpuReading(uuid=f"GPU-{n}", index=n) for n in range(2))
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
    leaky = fresh(treatment=Treatment(recycle_bytes=50))
    run, _ = happen(running(leaky), Looked(STILL, 50))
    over = replace(ended(code=75, drained=True), last_step=5 + steps)
    run, _ = happen(run, over)
    assert run.state is JobState.WAITING
    assert run.treatment.recycle_bytes == kept


def test_a_leaking_attempt_is_recycled_once_it_trains() -> None:
    """Not before: a restart that brings nothing is none."""
    leaky = fresh(treatment=Treatment(recycle_bytes=50))
    run, effects = happen(running(leaky, restored=None), Looked(STILL, 60))
    assert run.state is JobState.RUNNING
    run, effects = happen(running(leaky), Looked(STILL, 49), Looked(STILL, 50))
    assert run.state is JobState.DRAINING
    assert AskDrain() in effects


def test_a_process_that_sigkill_does_not_end_is_an_incident() -> None:
    """Told once; its GPU is kept out of use; the run waits for the reboot."""
    run, _ = hung()
    stuck = Unkillable((7,), ("GPU-a",))
    run, effects = happen(run, stuck)
    (record,) = [e for e in effects if isinstance(e, RecordIncident)]
    assert record.diagnosis.cause is Cause.UNKILLABLE
    assert "reboot" in record.diagnosis.because[0].text
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
    run, effects = happen(fresh(), TimeIsUp(), Unkillable((7,), ("GPU-a",)))
    assert run.state is JobState.WAITING
    assert run.deadline == 1.0
    assert run.quarantined == {"GPU-a"}
    (record,) = [e for e in effects if isinstance(e, RecordIncident)]
    assert record.failed_step is None
    assert record.remedy.kind is RemedyKind.GO_ON
    run, _ = happen(run, TimeIsUp(), GateClear(), Spawned(8), ended(signal=11))
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
    run, effects = happen(run, TimeIsUp(), Unkillable((7,)))
    assert not [e for e in effects if isinstance(e, RecordIncident)]
    assert run.deadline == 1.0


def test_what_is_quarantined_is_asked_before_each_attempt() -> None:
    """A person may have put a GPU back, and another run may have lost one."""
    run = fresh(quarantined=frozenset({"GPU-a"}))
    same, _ = happen(run, TimeIsUp(), GateClear())
    assert same.quarantined == {"GPU-a"}
    other, _ = happen(run, TimeIsUp(), GateClear(frozenset({"GPU-b"})))
    assert other.quarantined == {"GPU-b"}


def test_the_gate_is_looked_at_less_and_less_often() -> None:
    """Up to a limit, and from the beginning after it was clear."""
    run = fresh()
    waits: list[float] = []
    for _ in range(8):
        run, _ = happen(run, TimeIsUp(), GateHeld("x"), now=100.0)
        waits.append((run.deadline or 0.0) - 101.0)
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == GATE_SECONDS_MOST
    run, _ = happen(run, TimeIsUp(), GateClear())
    assert run.gate_holds == 0


def test_patience_with_a_tenant_comes_to_an_end() -> None:
    """Then the attempt starts all the same; what is awaited is not asked again."""
    awaited = Awaited(tenants_gone=True, patience_seconds=100.0)
    run = fresh(treatment=Treatment(awaited=awaited))
    run, effects = happen(run, TimeIsUp(), now=10.0)
    assert effects == [CheckGate(awaited)]
    run, _ = happen(run, GateHeld("tenant"), now=10.0)
    run, effects = happen(run, TimeIsUp(), now=111.0)
    assert effects == [CheckGate(None)]
    run, effects = happen(run, GateClear(), now=111.0)
    launch = effects[-1]
    assert isinstance(launch, Launch)
    assert launch.treatment.awaited is None
    assert run.treatment.awaited is None
    assert launch.plan is None


def test_room_is_waited_for_without_end() -> None:
    """Nothing else would help."""
    awaited = Awaited(room_bytes=5)
    run = fresh(treatment=Treatment(awaited=awaited))
    run, _ = happen(run, TimeIsUp(), GateHeld("no room"))
    _, effects = happen(run, TimeIsUp(), now=1e6)
    assert effects == [CheckGate(awaited)]


@pytest.mark.parametrize(
    ("restored", "snapshot", "passed"),
    [(5, 8, True), (5, 5, False), (None, 8, False), (5, None, False)],
)
def test_a_detour_is_over_once_a_snapshot_was_made_on_it(
    restored: int | None,
    snapshot: int | None,
    *,
    passed: bool,
) -> None:
    """Until then the next attempt takes it again: nothing of it was kept."""
    around = fresh(treatment=Treatment(detour=Detour(restore_before_step=7)))
    exited = replace(ended(signal=9), snapshot_step=snapshot)
    run, _ = happen(running(around, restored=restored), exited)
    assert (run.treatment.detour is None) is passed


def test_what_was_in_force_is_kept_with_the_attempt() -> None:
    """The ledger knows of each attempt how it was run."""
    run = running(fresh(treatment=Treatment(growth=True)))
    assert run.history.last is not None
    assert run.history.last.treatment == Treatment(growth=True)
    plain = running()
    assert plain.history.last is not None
    assert plain.history.last.treatment is None


def test_an_end_without_an_attempt_is_survived() -> None:
    """A run that adopts an attempt may not know of any."""
    lost = fresh(state=JobState.RUNNING, treatment=Treatment(detour=Detour(restore_before_step=7)))  # fmt: skip
    run, effects = happen(lost, ended(signal=9))
    (record,) = [e for e in effects if isinstance(e, RecordIncident)]
    assert record.failed_step is None
    assert run.treatment.detour is not None
