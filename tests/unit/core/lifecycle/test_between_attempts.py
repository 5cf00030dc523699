"""What a run waits for between two attempts, and what it takes along."""

from dataclasses import replace

import pytest

from supervisor.core.lifecycle.effects import CheckGate, Launch, RecordIncident
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    GateClear,
    GateHeld,
    GateUnknown,
)
from supervisor.core.lifecycle.run_state import RunPhase
from supervisor.core.lifecycle.table import GATE_SECONDS_MOST, GATE_SOON_SECONDS
from supervisor.core.remediation.overrides import Awaited, LossRecovery, Overrides
from tests.support.hanging import ended, fresh, happen, running


def test_what_is_quarantined_is_asked_before_each_attempt() -> None:
    """A person may have put a GPU back, and another run may have lost one."""
    run = fresh(quarantined=frozenset({"GPU-a"}))
    same, _ = happen(run, DeadlineExpired(), GateClear())
    assert same.quarantined == {"GPU-a"}
    other, _ = happen(run, DeadlineExpired(), GateClear(frozenset({"GPU-b"})))
    assert other.quarantined == {"GPU-b"}


def test_the_gate_is_looked_at_less_and_less_often() -> None:
    """Up to a limit, and from the beginning after it was clear."""
    run = fresh()
    waits: list[float] = []
    for _ in range(8):
        run, _ = happen(run, DeadlineExpired(), GateHeld("x"), now=100.0)
        waits.append((run.deadline or 0.0) - 101.0)
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0]
    assert waits[-1] == GATE_SECONDS_MOST
    run, _ = happen(run, DeadlineExpired(), GateClear())
    assert run.gate_holds == 0


def test_as_long_as_nothing_is_known_the_gate_is_asked_again_soon() -> None:
    """That holds nobody up, and nothing is said of it."""
    run, _ = happen(fresh(), DeadlineExpired(), GateHeld("x"), now=100.0)
    holds, message = run.gate_holds, run.message
    for _ in range(8):
        run, effects = happen(run, DeadlineExpired(), GateUnknown(), now=100.0)
        assert 0.0 < (run.deadline or 0.0) - 101.0 <= GATE_SOON_SECONDS
        assert CheckGate(None) in effects
        assert len(effects) == 1
    assert (run.gate_holds, run.message) == (holds, message)


def test_patience_with_a_tenant_comes_to_an_end() -> None:
    """Then the attempt starts all the same; what is awaited is not asked again."""
    awaited = Awaited(tenants_gone=True, patience_seconds=100.0)
    run = fresh(overrides=Overrides(awaited=awaited))
    run, effects = happen(run, DeadlineExpired(), now=10.0)
    assert effects == [CheckGate(awaited)]
    run, _ = happen(run, GateHeld("tenant"), now=10.0)
    run, effects = happen(run, DeadlineExpired(), now=111.0)
    assert effects == [CheckGate(None)]
    run, effects = happen(run, GateClear(), now=111.0)
    launch = effects[-1]
    assert isinstance(launch, Launch)
    assert launch.overrides.awaited is None
    assert run.overrides.awaited is None
    assert launch.overrides.plan is None


def test_room_is_waited_for_without_end() -> None:
    """Nothing else would help."""
    awaited = Awaited(room_bytes=5)
    run = fresh(overrides=Overrides(awaited=awaited))
    run, _ = happen(run, DeadlineExpired(), GateHeld("no room"))
    _, effects = happen(run, DeadlineExpired(), now=1e6)
    assert effects == [CheckGate(awaited)]


def test_patience_with_a_disk_leaves_the_room_that_an_attempt_needs() -> None:
    """That disk may have nothing to do with it; where snapshots go has."""
    awaited = Awaited(room_bytes=5, disk="/data", disk_bytes=6, patience_seconds=100.0)
    run = fresh(overrides=Overrides(awaited=awaited))
    run, effects = happen(run, DeadlineExpired(), now=10.0)
    assert effects == [CheckGate(awaited)]
    run, _ = happen(run, GateHeld("no room"), now=10.0)
    _, effects = happen(run, DeadlineExpired(), now=111.0)
    assert effects == [CheckGate(Awaited(room_bytes=5))]


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
    around = fresh(overrides=Overrides(detour=LossRecovery(restore_before_step=7)))
    exited = replace(ended(signal=9), snapshot_step=snapshot)
    run, _ = happen(running(around, restored=restored), exited)
    assert (run.overrides.detour is None) is passed


def test_what_was_in_force_is_kept_with_the_attempt() -> None:
    """The ledger knows of each attempt how it was run."""
    run = running(fresh(overrides=Overrides(growth=True)))
    assert run.history.last is not None
    assert run.history.last.overrides == Overrides(growth=True)
    plain = running()
    assert plain.history.last is not None
    assert plain.history.last.overrides is None


def test_an_end_without_an_attempt_is_survived() -> None:
    """A run that adopts an attempt may not know of any."""
    lost = fresh(phase=RunPhase.RUNNING, overrides=Overrides(detour=LossRecovery(restore_before_step=7)))  # fmt: skip
    run, effects = happen(lost, ended(signal=9))
    (record,) = [e for e in effects if isinstance(e, RecordIncident)]
    assert record.failed_step is None
    assert run.overrides.detour is not None
