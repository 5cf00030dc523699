"""The status of a run as its files tell it."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.causes import Cause
from supervisor.core.jobs.accounting.progress_series import (
    ProgressPoint,
    ProgressSeries,
)
from supervisor.core.jobs.job_status import (
    ErrorStatus,
    JobState,
    JobStatus,
    LoopKind,
    SliceTrial,
    TierStatus,
    status_from_json,
    status_json,
)
from supervisor.core.metrics.run_counters import KeptSeconds
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.microbatch_planner import MicrobatchPlan
from supervisor.core.remediation.overrides import Overrides
from supervisor.host.launch.attempt_shim import boot_id, started_ticks
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.remote.remote_records import UploadProgress
from supervisor.host.service.clock import Clock
from supervisor.host.service.lock import acquire
from supervisor.host.telemetry.attempt_view import AttemptView, fold
from supervisor.runtime.recording.run_history import summaries
from supervisor.runtime.status_builder import (
    NO_STEP,
    EndedAttempts,
    RunFacts,
    SnapshotTotals,
    ended_attempts,
    job_status,
    of_a_beginning,
    remote_status,
    with_run_peak,
)
from supervisor.runtime.stored_status import stored_status
from supervisor.wire.event_file import Record, RecordKind, encode
from supervisor.wire.files import write_json
from supervisor.wire.page import ErrorStage, Page, PageWriter, Phase
from supervisor.wire.paths import AttemptPaths, RunPaths, StatePaths
from tests.support.long_stories import long_story

OTHER_BOOT = "00000000-0000-4000-8000-000000000000/1"
SAME_CLOCK = boot_id().partition("/")[0] + "/987654321"
"""Of a container that began again on the same machine."""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Of a run whose second attempt is its last."""
    with closing(Ledger(StatePaths(tmp_path).ledger)) as ledger:
        ledger.begin_run(
            run_id="digits-1",
            job="digits",
            script="/a/train.py",
            script_hash="1",
            seed=1,
            spec={"script": "train.py"},
            now=1.0,
        )
        for number in (1, 2):
            ledger.put_attempt(1, AttemptHistory(number=number), now=1.0)
        yield ledger


def began(files: AttemptPaths, boot: str, *, pid: int = 2**22 + 1) -> None:
    """The attempt has begun, in that boot of the machine."""
    files.root.mkdir(parents=True)
    ticks = started_ticks(os.getpid())
    shimmed = {
        "shim_pid": pid, "shim_started_ticks": ticks, "pid": pid, "boot_id": boot,
        "started_ticks": ticks,
    }  # fmt: skip
    write_json(files.root / "shimmed.json", shimmed)


def saved(files: AttemptPaths) -> None:
    """It took a snapshot, 5 seconds after its machine began."""
    PageWriter(files.page).set(snapshot_step=40, snapshot_ns=5 * 10**9)
    fields = {"tier": "durable", "step": 40, "bytes": 7}
    files.events.write_bytes(encode(Record(RecordKind.SNAPSHOT, 5 * 10**9, fields)))


def totals(ledger: Ledger, *, keep: bool = False) -> SnapshotTotals:
    """Of the run's attempts."""
    return SnapshotTotals(RunArchive(ledger), 1, keep=keep)


def status(ledger: Ledger, tmp_path: Path, *, keep: bool = False) -> JobStatus:
    """Ten seconds after this machine began."""
    run = ledger.latest_run("digits")
    assert run is not None
    return stored_status(ledger, run, StatePaths(tmp_path), now=10.0, keep=keep)


@pytest.mark.parametrize(
    ("boot", "age"), [(boot_id(), 5.0), (SAME_CLOCK, 5.0), (OTHER_BOOT, None)]
)
def test_no_age_is_told_by_the_clock_of_another_boot(
    ledger: Ledger, tmp_path: Path, boot: str, age: float | None
) -> None:
    """It is not known; that there is a snapshot, and at which step, is."""
    paths = StatePaths(tmp_path).run("digits", 1)
    for number in (1, 2):
        began(paths.attempt(number), boot)
        saved(paths.attempt(number))
    found = status(ledger, tmp_path)
    assert found.state is JobState.INTERRUPTED
    assert found.snapshot is not None
    assert (found.snapshot.step, found.snapshot.age_seconds) == (40, age)
    whole = TierStatus(snapshots=2, age_seconds=age, size_bytes=7)
    assert found.tiers == {"durable": whole}
    earlier = ended_attempts(paths, 2, totals(ledger))
    assert earlier.page is not None
    assert (earlier.page.snapshot_ns is None) is (age is None)
    assert (earlier.tiers.newest["durable"].ns is None) is (age is None)


@pytest.mark.parametrize(
    ("boot", "age"), [(boot_id(), 5.0), (OTHER_BOOT, None), ("", None)]
)
def test_nor_of_what_was_sent_away(
    tmp_path: Path, boot: str, age: float | None
) -> None:
    """What an older version wrote tells no boot."""
    paths = RunPaths(tmp_path)
    told = UploadProgress(
        address="s3://a/b", claim="1", step=40, whole_ns=5 * 10**9, boot_id=boot
    )
    write_json(paths.remote_progress, told.to_json())
    found = remote_status(paths, now=10.0)
    assert found is not None
    assert (found.step, found.age_seconds) == (40, age)


def test_counts_of_a_long_attempt_are_whole_or_unknown(
    ledger: Ledger, tmp_path: Path
) -> None:
    """Of one that trains nobody reads all of it for one answer; of one that has ended
    they are written down where that is asked for."""
    paths = StatePaths(tmp_path).run("digits", 1)
    files = paths.attempt(2)
    began(files, boot_id(), pid=os.getpid())
    count = long_story(files.events)
    assert status(ledger, tmp_path).tiers["memory"].snapshots is None
    (files.root / "shimmed.json").unlink()
    for keep in (False, True):
        found = status(ledger, tmp_path, keep=keep)
        assert found.tiers["memory"].snapshots == count
        assert (2 in RunArchive(ledger).snapshots(1)) is keep


def test_what_the_ledger_has_is_not_read_again(ledger: Ledger, tmp_path: Path) -> None:
    """Not with each supervisor, of each attempt; of one without records, either."""
    paths = StatePaths(tmp_path).run("digits", 1)
    began(paths.attempt(1), boot_id())
    saved(paths.attempt(1))
    for keep in (True, False):
        found = ended_attempts(paths, 3, totals(ledger, keep=keep))
        assert found.tiers.snapshots == {"durable": 1}
        paths.attempt(1).events.unlink(missing_ok=True)
    assert RunArchive(ledger).snapshots(1).keys() == {1, 2}


def test_a_ledger_that_cannot_be_written(ledger: Ledger, tmp_path: Path) -> None:
    """It is told all the same, and written down by a later supervisor."""
    paths = StatePaths(tmp_path).run("digits", 1)
    began(paths.attempt(1), boot_id())
    saved(paths.attempt(1))
    asked = totals(ledger, keep=True)
    ledger.rows(tuple, "PRAGMA query_only=ON")
    assert asked.of(1, paths.attempt(1)).snapshots == {"durable": 1}
    assert RunArchive(ledger).snapshots(1) == {}


def test_the_time_between_attempts_of_a_run_that_is_over_stays(
    ledger: Ledger, tmp_path: Path
) -> None:
    """A daemon that begins tells the same of it as the one before."""
    began(StatePaths(tmp_path).run("digits", 1).attempt(1), boot_id())
    run = ledger.latest_run("digits")
    assert run is not None
    assert "waiting" not in status(ledger, tmp_path).phase_seconds
    kept = KeptSeconds(seconds={"waiting": 96.6}, goes_on=None, at=1.0)
    ledger.put_between(run.id, kept)
    assert status(ledger, tmp_path).phase_seconds["waiting"] == 96.6


@pytest.mark.parametrize(
    ("phase", "told", "step", "loop"),
    [
        (Phase.STARTING, [RecordKind.NO_STEP_SEEN], None, LoopKind.UNSEEN),
        (Phase.STARTING, [], None, None),
        (
            Phase.BETWEEN,
            [RecordKind.NO_STEP_SEEN, RecordKind.OWN_STEP],
            3,
            LoopKind.OWN,
        ),
        (Phase.BETWEEN, [RecordKind.OWN_STEP], None, None),
        (Phase.BETWEEN, [RecordKind.OWN_STEP, RecordKind.FIT_BEGAN], 3, None),
        (Phase.COMPILING, [RecordKind.NO_STEP_SEEN], None, None),
    ],
)
def test_what_a_script_does_that_is_in_no_fit(
    phase: Phase, told: list[str], step: int | None, loop: LoopKind | None
) -> None:
    """Its phase alone would say that it starts, or is in a callback."""
    view = fold(AttemptView(), [Record(kind, 1, {}) for kind in told])
    facts = RunFacts(
        job="job", state=JobState.RUNNING, attempt=1, message="", view=view
    )
    page = Page(phase=phase, step=step)
    assert job_status(facts, page, pid=7, now=1.0).loop is loop
    assert job_status(facts, page, pid=None, now=1.0).loop is None


def test_bits_are_promised_of_steps_that_were_done(
    ledger: Ledger, tmp_path: Path
) -> None:
    """Training says so before its first step; of a run that gave up there, that nothing
    was done is what is true."""
    files = StatePaths(tmp_path).run("digits", 1).attempt(2)
    began(files, boot_id())
    page = PageWriter(files.page)
    given = Record(RecordKind.PROMISE, 1, {"fit": 0, "bits": True, "sentence": ""})
    files.events.write_bytes(encode(given))
    told = status(ledger, tmp_path)
    assert (told.exact, told.promise) == (None, None)
    page.set(step=1)
    assert status(ledger, tmp_path).exact is True
    page.set(step=0)
    ledger.set_state(
        1, state=JobState.GAVE_UP, message="", overrides=None, ended_at=2.0
    )
    told = status(ledger, tmp_path)
    assert (told.exact, told.promise) == (None, NO_STEP)
    ledger.put_attempt(1, AttemptHistory(number=1, last_step=4), now=2.0)
    told = status(ledger, tmp_path)
    assert (told.exact, told.promise) == (True, None)


@pytest.mark.parametrize(
    ("page", "age"),
    [
        ({"step": 3, "progress_ns": 4 * 10**9, "phase_since_ns": 10**9}, 6.0),
        ({"step": 3, "progress_ns": 10**9, "phase_since_ns": 4 * 10**9}, 6.0),
        ({"phase": int(Phase.COMPILING), "phase_since_ns": 2 * 10**9}, 8.0),
        ({"step": 3, "progress_ns": 0, "phase_since_ns": 10**9}, None),
    ],
)
def test_since_when_nothing_moves_is_told_by_the_files(
    ledger: Ledger, tmp_path: Path, page: dict[str, int], age: float | None
) -> None:
    """Long before a hang is judged; an older version does not tell it within a phase."""
    files = StatePaths(tmp_path).run("digits", 1).attempt(2)
    began(files, boot_id(), pid=os.getpid())
    PageWriter(files.page).set(**{"phase": int(Phase.TRAINING), **page})
    assert status(ledger, tmp_path).progress_age_seconds == age


@pytest.mark.parametrize(
    ("spec", "beat_ns", "limit"),
    [
        ({"liveness": {"step": 240.0, "silent": 60.0}}, 9 * 10**9, 240.0),
        ({"liveness": {"step": 240.0, "silent": 60.0}}, 10**9, 60.0),
        ({"liveness": {"step": None, "silent": None}}, 10**9, None),
        ({}, 9 * 10**9, None),
    ],
)
def test_when_a_hang_is_judged_is_told_by_the_files(
    ledger: Ledger,
    tmp_path: Path,
    spec: dict[str, object],
    beat_ns: int,
    limit: float | None,
) -> None:
    """By the limits of the run's spec, while there is a supervisor that judges."""
    paths = StatePaths(tmp_path)
    files = paths.run("digits", 1).attempt(2)
    began(files, boot_id(), pid=os.getpid())
    PageWriter(files.page).set(
        phase=int(Phase.TRAINING), step=3, progress_ns=10**9, heartbeat_ns=beat_ns
    )
    ledger.resume_run(1, script_hash="1", spec=spec, now=5.0)
    assert status(ledger, tmp_path).hang_seconds is None
    paths.lock("digits").parent.mkdir(parents=True, exist_ok=True)
    lock = acquire(paths.lock("digits"))
    assert lock is not None
    assert status(ledger, tmp_path).hang_seconds == limit
    lock.release()


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ({"loss": 0.5, "loss_step": 22}, (0.5, 22)),
        ({"loss": float("nan"), "loss_step": 44}, (None, 44)),
        ({"loss": 0.5, "loss_step": 0}, (0.5, None)),
        ({"loss": 0.5}, (0.5, None)),
    ],
)
def test_the_step_of_a_loss_is_told(
    ledger: Ledger, tmp_path: Path, page: dict[str, float], told: tuple[object, object]
) -> None:
    """Of a loss that is no number, too; an older version, whose page has zeros there, does
    not tell it."""
    files = StatePaths(tmp_path).run("digits", 1).attempt(2)
    began(files, boot_id())
    PageWriter(files.page).set(step=44, **page)
    found = status(ledger, tmp_path)
    assert (found.loss, found.loss_step) == told


@pytest.mark.parametrize(
    ("step", "forgiven", "limit"),
    [(300.0, False, 600.0), (300.0, True, 300.0), (120.0, False, 120.0)],
)
def test_after_hangs_in_vain_a_longer_wait_is_told(
    ledger: Ledger, tmp_path: Path, *, step: float, forgiven: bool, limit: float
) -> None:
    """As long as its supervisor waits; not after a person has started it again, nor where
    a person wrote the limit."""
    spec = {"liveness": {"step": step, "silent": 60.0}}
    ledger.resume_run(1, script_hash="1", spec=spec, now=5.0)
    for number in (3, 4):
        hung = AttemptHistory(number=number, cause=Cause.STALLED, snapshot_step=8)
        ledger.put_attempt(1, hung, now=2.0)
    if forgiven:
        ledger.resume_run(1, script_hash="1", spec=spec, now=5.0)
    ledger.put_attempt(1, AttemptHistory(number=5), now=3.0)
    paths = StatePaths(tmp_path)
    files = paths.run("digits", 1).attempt(5)
    began(files, boot_id(), pid=os.getpid())
    PageWriter(files.page).set(
        phase=int(Phase.TRAINING), step=3, progress_ns=10**9, heartbeat_ns=9 * 10**9
    )
    paths.lock("digits").parent.mkdir(parents=True, exist_ok=True)
    lock = acquire(paths.lock("digits"))
    assert lock is not None
    assert status(ledger, tmp_path).hang_seconds == limit
    lock.release()


@pytest.mark.parametrize(("pid", "told"), [(7, 31), (None, 3)])
def test_slices_that_are_tried_are_those_in_force(pid: int | None, told: int) -> None:
    """Not those of the plan, which could only guess; of a process that has ended what its
    page told last."""
    plan = MicrobatchPlan(
        slice_size=256, slices=2, calibrate=True, ceiling=512, because="none fits"
    )
    overrides = Overrides(plan=plan)
    trial = SliceTrial(size=17, batch=512)
    facts = RunFacts(
        job="digits",
        state=JobState.RUNNING,
        attempt=2,
        message="",
        overrides=overrides,
        history=History(attempts=(AttemptHistory(number=2, overrides=overrides),)),
        view=AttemptView(slice_trial=trial),
    )
    found = job_status(facts, Page(slices=3), pid=pid, now=1.0)
    assert found.slice_trial == (None if pid is None else trial)
    assert found.overrides == {"slices": told}


def test_the_run_peak_is_that_of_history_and_not_of_the_newest_attempt(
    ledger: Ledger, tmp_path: Path
) -> None:
    """An earlier attempt needed more, before its slices were made smaller. What the newest
    has told since counts, too; what nobody knows is not told."""
    paths = StatePaths(tmp_path)
    files = paths.run("digits", 1).attempt(2)
    files.root.mkdir(parents=True)
    PageWriter(files.page).set(memory_peak_bytes=85)
    for attempt, peak in ((1, 100), (2, 85)):
        series = ProgressSeries().with_point(
            ProgressPoint(seconds=1.0, peak_bytes=peak)
        )
        RunArchive(ledger).put_progress(1, attempt, series)
    run = ledger.latest_run("digits")
    assert run is not None
    found = stored_status(ledger, run, paths, now=2.0)
    assert found is not None
    assert (found.memory_peak_bytes, found.run_peak_bytes) == (85, 100)
    (listed,) = summaries(ledger, lambda _: False, now=2.0)
    assert listed.device_peak_bytes == found.run_peak_bytes
    assert with_run_peak(found, 80).run_peak_bytes == 85
    unknown = replace(found, memory_peak_bytes=None)
    assert with_run_peak(unknown, None).run_peak_bytes is None


@pytest.mark.parametrize(
    ("refused", "moved_ns", "told"),
    [
        (6.0, 3 * 10**9, 6.0),
        (8.0, 3 * 10**9, None),
        (None, 3 * 10**9, None),
        (6.0, None, None),
    ],
)
def test_memory_that_was_found_nowhere_since_the_last_step_is_told(
    refused: float | None, moved_ns: int | None, told: float | None
) -> None:
    """What came before it is over; where nobody knows when it was, nothing is said."""
    facts = RunFacts(
        job="digits",
        state=JobState.RUNNING,
        attempt=1,
        message="",
        refused_age_seconds=refused,
    )
    page = Page(phase=int(Phase.TRAINING), step=3, progress_ns=moved_ns)
    assert job_status(facts, page, pid=7, now=10.0).memory_refused_age_seconds == told
    ended = job_status(facts, page, pid=None, now=10.0)
    assert ended.memory_refused_age_seconds is None


def test_the_files_tell_that_memory_was_found_nowhere(
    ledger: Ledger, tmp_path: Path
) -> None:
    """By the dump that the allocator wrote."""
    files = StatePaths(tmp_path).run("digits", 1).attempt(2)
    began(files, boot_id(), pid=os.getpid())
    PageWriter(files.page).set(
        phase=int(Phase.TRAINING), step=3, progress_ns=1, phase_since_ns=1
    )
    assert status(ledger, tmp_path).memory_refused_age_seconds is None
    files.dumps.mkdir()
    (files.dumps / f"bfc_cpu.{int(Clock().wall() * 1e6) + 10**9}").touch()
    assert status(ledger, tmp_path).memory_refused_age_seconds == 0.0


@pytest.mark.parametrize(
    ("on_page", "pid", "told"),
    [
        (None, 7, None),
        (0, 7, None),  # what an older version wrote
        (ErrorStage.MEMORY, 7, "memory"),
        (99, 7, "ending"),  # of a newer one
        (ErrorStage.MEMORY, None, None),
    ],
)
def test_what_is_done_after_an_error_is_told_while_there_is_a_process(
    on_page: int | None, pid: int | None, told: str | None
) -> None:
    """Its phase is what it was before, and is no longer what it does."""
    facts = RunFacts(job="digits", state=JobState.RUNNING, attempt=1, message="")
    page = Page(phase=Phase.BETWEEN, after_error=on_page)
    found = job_status(facts, page, pid=pid, now=1.0)
    assert (found.phase, found.after_error) == ("between", told)


def test_the_newest_failure_says_why_itself() -> None:
    """Of an attempt that an older version saw end nobody knows; what runs has not failed."""
    failed = AttemptHistory(number=1, cause=Cause.USER_ERROR, error="KeyError: 'x'")
    told = replace(failed, number=2, cause=Cause.DEVICE_OOM, error="OOM")
    untold = AttemptHistory(number=3, cause=Cause.UNKNOWN)
    now = AttemptHistory(number=4)
    for attempts, expected in (
        (
            (failed, told, untold, now),
            ErrorStatus(attempt=2, cause="device_oom", text="OOM"),
        ),
        ((untold, now), None),
    ):
        history = History(attempts=attempts)
        facts = RunFacts(
            job="digits",
            state=JobState.RUNNING,
            attempt=4,
            message="",
            history=history,
        )
        found = job_status(facts, None, pid=7, now=1.0)
        assert found.last_error == expected
        assert status_from_json(status_json(found)) == found


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({"view": AttemptView(slices=64, slice_size=1)}, (64, 1)),
        ({"view": AttemptView(slices=64, slice_size=1), "behind": True}, (32, 2)),
        ({}, (32, 2)),
    ],
)
@pytest.mark.parametrize("pid", [7, None])
def test_the_slices_are_those_that_were_told_last(
    known: dict[str, Any], told: tuple[int, int], pid: int | None
) -> None:
    """The incident has that number at once; the page may have one of before until the
    process ends."""
    plan = MicrobatchPlan(
        slice_size=1, slices=64, calibrate=False, ceiling=64, because="measured"
    )
    overrides = Overrides(plan=plan)
    facts = RunFacts(
        job="digits",
        state=JobState.RUNNING,
        attempt=2,
        message="",
        overrides=overrides,
        history=History(attempts=(AttemptHistory(number=2, overrides=overrides),)),
        **known,
    )
    found = job_status(facts, Page(slices=32, slice_size=2), pid=pid, now=1.0)
    assert (found.slices, found.slice_size) == told
    assert found.overrides == {"slices": told[0]}


def test_an_attempt_that_was_not_read_to_its_end_tells_no_slices(
    ledger: Ledger, tmp_path: Path
) -> None:
    """What it told first may be long out of use: its page is newer."""
    files = StatePaths(tmp_path).run("digits", 1).attempt(2)
    began(files, boot_id())
    PageWriter(files.page).set(slices=32, slice_size=2)
    fields = {"batch": 64, "slices": 64, "size": 1, "source": "measured"}
    record = encode(Record(RecordKind.MICROBATCH, 1, fields))
    files.events.write_bytes(record)
    assert status(ledger, tmp_path).slices == 64
    long_story(files.events)
    told = files.events.read_bytes().splitlines(keepends=True)
    files.events.write_bytes(b"".join([*told[:2], record, *told[2:]]))
    assert status(ledger, tmp_path).slices == 32


def test_an_attempt_that_ended_before_its_first_step_loses_nothing() -> None:
    """What was saved before it is there, and so is what it was to go on from; training
    that began from the top has neither."""
    before = EndedAttempts(page=Page(step=24, epoch=2, snapshot_step=22, snapshot_ns=5))
    facts = RunFacts(job="one", state=JobState.DRAINED, attempt=2, message="")
    for page in (Page(), Page(phase=Phase.COMPILING, step=0, epoch=0)):
        found = job_status(facts, page, pid=None, now=1.0, earlier=before)
        assert (found.step, found.epoch) == (24, 2)
        assert found.snapshot is not None
        assert found.snapshot.step == 22
    page = Page(phase=Phase.TRAINING, step=0, epoch=0)
    found = job_status(facts, page, pid=None, now=1.0, earlier=before)
    assert (found.step, found.snapshot) == (0, None)


def test_an_attempt_that_has_told_nothing_is_at_the_step_of_the_one_before() -> None:
    """And not in the midst of that one's end."""
    ended = Page(step=24, after_error=ErrorStage.ENDING, step_seconds=0.002)
    begun = of_a_beginning(ended)
    assert (begun.step, begun.phase) == (24, Phase.STARTING)
    assert (begun.after_error, begun.step_seconds) == (None, None)
