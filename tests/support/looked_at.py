"""A state directory with runs to look at, as real ones leave it: ledger, pages, events,
logs. What a job printed in it would be markup if nobody took care."""

import os
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import Diagnosis, Reason, Remedy, RemedyKind
from supervisor.core.jobs.accounting.progress_series import (
    ProgressPoint,
    ProgressSeries,
)
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import RecordIncident, UpdateIncident
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.remediation.history import AttemptHistory
from supervisor.host.launch.attempt_shim import boot_id, started_ticks
from supervisor.host.ledger.ledger import Ledger, RunRow
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.service.lock import acquire
from supervisor.wire.event_file import EventWriter, RecordKind
from supervisor.wire.files import write_json
from supervisor.wire.page import PageWriter, Phase
from supervisor.wire.paths import AttemptPaths, RunPaths, StatePaths
from supervisor.wire.records.end_records import Shimmed

HOSTILE = "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"
TOKEN = "hunter2-of-ada"  # noqa: S105  # nobody's
SCRIPT = "/home/ada/My Project/train.py"
MIB = 2**20
BEGAN = 1_770_000_000.0


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """A ledger and the files of one run in it."""

    ledger: Ledger
    row: RunRow
    paths: RunPaths


@contextmanager
def a_run(state: Path, job: str = "digits") -> Generator[RecordedRun]:
    """A new run in ``state``."""
    state.mkdir(parents=True, exist_ok=True)
    paths = StatePaths(state)
    with closing(Ledger(paths.ledger)) as ledger:
        row = ledger.begin_run(
            run_id=f"{job}-1",
            job=job,
            script=SCRIPT,
            script_hash="1",
            seed=1,
            spec={
                "script": SCRIPT,
                "gpus": [],
                "environment": {"API_TOKEN": TOKEN},
                "memory": {"cpu": 280 * MIB},
            },
            now=BEGAN,
        )
        yield RecordedRun(ledger=ledger, row=row, paths=paths.run(job, row.number))


def an_attempt(
    shown: RecordedRun, number: int, *, steps: range, began: float
) -> PageWriter:
    """One that made these steps, a second each."""
    paths = shown.paths.attempt(number)
    paths.root.mkdir(parents=True)
    series = ProgressSeries()
    for at, step in enumerate(steps):
        point = ProgressPoint(
            seconds=1.0 + at,
            step=step,
            loss=2.0 / (1 + step / 20),
            step_seconds=0.5 + 0.01 * (step % 7),
            device_bytes=(150 + step % 40) * MIB,
            limit_bytes=280 * MIB,
            host_bytes=(900 + step) * MIB,
        )
        series = series.with_point(point)
    history = AttemptHistory(
        number=number, restored_step=steps.start, last_step=steps.stop - 1, batch=128
    )
    shown.ledger.put_attempt(shown.row.id, history, now=BEGAN + began)
    RunArchive(shown.ledger).put_progress(shown.row.id, number, series)
    return page_of(paths, step=steps.stop - 1, loss=0.25)


def page_of(paths: AttemptPaths, *, step: int, loss: float) -> PageWriter:
    """Its page as it left it."""
    writer = PageWriter(paths.page)
    writer.set(
        step=step,
        loss=loss,
        epoch=step // 12,
        epochs=8,
        phase=int(Phase.TRAINING),
        memory_limit_bytes=280 * MIB,
        memory_peak_bytes=200 * MIB,
        step_seconds=0.5,
        phase_seconds=tuple(
            {Phase.STARTING: 5.0, Phase.TRAINING: 20.0}.get(phase, 0.0)
            for phase in Phase
        ),
    )
    return writer


def epochs_of_it(paths: AttemptPaths, epochs: range) -> None:
    """What Keras told."""
    events = EventWriter(paths.events)
    events.append(RecordKind.LAUNCHED, versions={"python": "3.11.7", "keras": "3.15.1"})
    for epoch in epochs:
        logs = {"accuracy": 0.5 + epoch / 20, "val_accuracy": 0.4 + epoch / 20}
        events.append(RecordKind.EPOCH_ENDED, epoch=epoch, step=12 * epoch, logs=logs)


def ran_out_of_memory() -> RecordIncident:
    """The first attempt's end."""
    return RecordIncident(
        attempt=1,
        diagnosis=Diagnosis(
            cause=Cause.DEVICE_OOM,
            because=(Reason(f"OOM in {SCRIPT}: {HOSTILE}", "tf.oom", 7),),
            memory=MemoryFigures(
                limit_bytes=280 * MIB,
                in_use_bytes=240 * MIB,
                requested_bytes=128 * MIB,
                largest_free_bytes=30 * MIB,
            ),
            advice="smaller",
        ),
        remedy=Remedy(
            kind=RemedyKind.MICROBATCH, because="fits", changes={"slices": [1, 4]}
        ),
        failed_step=19,
    )


def finished_in_two(state: Path, job: str = "digits") -> None:
    """A run that ran out of memory once, and finished."""
    with a_run(state, job) as shown:
        an_attempt(shown, 1, steps=range(20), began=0.0)
        ledger, run = shown.ledger, shown.row.id
        first = AttemptHistory(number=1, cause=Cause.DEVICE_OOM, last_step=19)
        ledger.put_attempt(run, first, now=BEGAN)
        ledger.record_incident(run, ran_out_of_memory(), now=BEGAN + 21.0)
        came = UpdateIncident(
            attempt=1, restored_step=15, lost_steps=4, downtime_seconds=6.0
        )
        ledger.update_incident(run, came)
        an_attempt(shown, 2, steps=range(15, 97), began=25.0)
        second = AttemptHistory(
            number=2, cause=Cause.NONE, restored_step=15, last_step=96, batch=128
        )
        ledger.put_attempt(run, second, now=BEGAN + 25.0)
        first_paths, second_paths = (shown.paths.attempt(n) for n in (1, 2))
        epochs_of_it(second_paths, range(8))
        first_paths.output.write_text(f"loading {SCRIPT}\n{HOSTILE}\n")
        second_paths.output.write_text(f"{HOSTILE}\n")
        ledger.set_state(
            run,
            state=JobState.FINISHED,
            message="finished",
            overrides=None,
            ended_at=BEGAN + 110.0,
        )


def crowded(state: Path, job: str = "a-job-with-a-rather-long-name") -> None:
    """A run of many steps and as many incidents, some of them close together."""
    with a_run(state, job) as shown:
        for number in range(1, 8):
            first = 12_340 * number
            began = 100.0 * (number // 2)
            an_attempt(shown, number, steps=range(first, first + 60), began=began)
            effect = replace(
                ran_out_of_memory(), attempt=number, failed_step=first + 59
            )
            now = BEGAN + began + 59.0 + number
            shown.ledger.record_incident(shown.row.id, effect, now=now)


@contextmanager
def running(state: Path, job: str = "live") -> Generator[PageWriter]:
    """A run that trains, as far as anybody can see: this process holds its lock and is
    its training process. What is yielded is its page."""
    with a_run(state, job) as shown:
        page = an_attempt(shown, 1, steps=range(10), began=time.time() - BEGAN - 10.0)
        shown.ledger.set_state(
            shown.row.id,
            state=JobState.RUNNING,
            message="attempt 1",
            overrides=None,
            ended_at=None,
        )
        me = os.getpid()
        record = Shimmed(
            shim_pid=me,
            shim_started_ticks=started_ticks(me),
            pid=me,
            boot_id=boot_id(),
            started_ticks=started_ticks(me),
        )
        write_json(shown.paths.attempt(1).root / "shimmed.json", record.to_json())
        lock = acquire(StatePaths(state).lock(job))
        assert lock is not None
        try:
            yield page
        finally:
            lock.release()
