"""When the demo kills: by what training says of itself; and what it does not let pass."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from supervisor.wire.event_file import EventWriter, RecordKind
from supervisor.wire.page import Page, PageWriter
from supervisor.wire.paths import StatePaths
from tests.e2e.demo import (
    AGAIN,
    JOB,
    DemoOutcome,
    Hunt,
    KillMoment,
    problems,
    ripe_for_the_kill,
    signalled,
)

RIPE = Page(
    pid=1, epoch=1, epochs=8, step=17, step_in_epoch=5, steps_per_epoch=12,
    slices=3, slice_size=43, snapshot_step=16,
)  # fmt: skip


def test_the_middle_of_an_epoch_in_slices_that_are_settled() -> None:
    """With work done since a snapshot; not the first epoch, nor unsliced, nor at an end."""
    assert ripe_for_the_kill(RIPE, settled=True)
    for other in (
        replace(RIPE, epoch=0),
        replace(RIPE, slices=1),
        replace(RIPE, snapshot_step=17),
        replace(RIPE, snapshot_step=None),
        replace(RIPE, step_in_epoch=2),
        replace(RIPE, step_in_epoch=10),
        Page(),
    ):
        assert not ripe_for_the_kill(other, settled=True)


OOM = {
    "id": 1, "cause": "device_oom", "remedy": {"kind": "microbatch"},
    "failed_step": 0, "restored_step": 0, "lost_steps": 0,
}  # fmt: skip
KILL = {
    "id": 2, "cause": "preempted", "remedy": {"kind": "restart"},
    "failed_step": 18, "restored_step": 16, "lost_steps": 2,
}  # fmt: skip


def ended(*incidents: dict[str, Any]) -> DemoOutcome:
    """A demo with these incidents."""
    killed = KillMoment(attempt=2, pid=1, step=17, epoch=1, snapshot_step=16)
    return DemoOutcome(
        seconds=60.0, killed=killed, incidents=[*incidents], accuracy=0.97
    )


def test_one_restart_for_want_of_memory_and_no_second() -> None:
    """A climb to slices that do not fit is what the demo is there to show."""
    assert problems(ended(OOM, KILL)) == []
    assert AGAIN in problems(ended(OOM, OOM, KILL))
    assert problems(ended(OOM, {**KILL, "cause": "unknown"})) != []


def test_a_run_that_is_nearly_over_is_not_let_go() -> None:
    """While slices are measured the kill waits, but not for ever."""
    assert not ripe_for_the_kill(RIPE, settled=False)
    assert ripe_for_the_kill(replace(RIPE, epoch=6), settled=False)


def test_training_that_went_on_meanwhile_is_let_go_on(tmp_path: Path) -> None:
    """A process that is ripe is killed; one that has ended, or is not, is left alone."""
    run = StatePaths(tmp_path).run(JOB, 1)
    for number in (1, 2):
        run.attempt(number).root.mkdir(parents=True)
    hunt = Hunt(tmp_path)
    assert hunt.look() is None  # there is no page yet
    page = PageWriter(run.attempt(2).page)
    known = {name: getattr(RIPE, name) for name in (
        "epoch", "epochs", "step", "step_in_epoch", "steps_per_epoch", "slices",
        "slice_size", "snapshot_step",
    )}  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
    ) as it:
        page.set(**known, pid=it.pid)
        assert hunt.look() is None  # its slices are being measured
        events = EventWriter(run.attempt(2).events)
        events.append(RecordKind.MICROBATCH, size=43, planned="measured at 5 sizes")
        killed = hunt.look()
        assert killed is not None
        assert (killed.attempt, killed.step, killed.snapshot_step) == (2, 17, 16)
        assert it.wait() == -signal.SIGKILL
    assert hunt.look() is None  # the page of a process that is gone
    assert not signalled(it.pid, signal.SIGCONT)
    assert signalled(os.getpid(), signal.SIGCONT)
