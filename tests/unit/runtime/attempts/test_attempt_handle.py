"""One attempt, watched: which processes are whose."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.jobs.spec import build_spec
from supervisor.core.lifecycle.events import (
    Event,
    Exited,
    HealthSampled,
    StepFailed,
    WentOn,
)
from supervisor.host.gpu.gpu_access import NOBODY_ASKS
from supervisor.host.launch import direct
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.launch.direct import DirectAttempt, DirectLauncher
from supervisor.host.launch.leftovers import Leftovers
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.process.child_process import Process
from supervisor.host.process.process_tree import ProcessTree
from supervisor.host.service.clock import Clock
from supervisor.host.telemetry import attempt_telemetry
from supervisor.host.telemetry.log_retention import LogRetention
from supervisor.runtime.attempts.attempt_handle import AttemptHandle
from supervisor.runtime.attempts.attempt_monitor import (
    CALM_SECONDS,
    ENDING_SECONDS,
    SHOWN_SECONDS,
    STARTING_SECONDS,
    TICK_SECONDS,
    AttemptMonitor,
    shared,
)
from supervisor.wire.event_file import POLL_BYTES, EventWriter
from supervisor.wire.page import Page, PageWriter
from supervisor.wire.paths import AttemptPaths, RunPaths
from supervisor.wire.records.end_records import Shimmed
from tests.support.holding import holding
from tests.support.lives import fresh
from tests.support.long_stories import long_story


def attempt_in(paths: AttemptPaths) -> DirectAttempt:
    """One whose shim is this process."""
    return DirectAttempt(paths=paths, shim=Process.of(os.getpid()))


def watch_in(directory: Path) -> AttemptHandle:
    """Of an attempt there."""
    return AttemptHandle.over(attempt_in(AttemptPaths(directory)), cap=LogRetention())


def following_of(paths: RunPaths, ledger: Ledger) -> AttemptMonitor:
    """Who follows the attempts of a run there."""
    row = ledger.begin_run(
        run_id="a-1",
        job="a",
        script="/a/train.py",
        script_hash="1",
        seed=1,
        spec={"script": "train.py"},
        now=1.0,
    )
    return AttemptMonitor(
        population=ProcessTree(),
        row=row,
        spec=build_spec(row.spec),
        paths=paths,
        archive=RunArchive(ledger),
        launcher=DirectLauncher(),
        clock=Clock(),
        post=lambda _event: None,
        seen=lambda _page: None,
        usual_seconds=TICK_SECONDS,
        calm_seconds=CALM_SECONDS,
    )


@given(
    st.floats(0.0, 1e7),
    st.sampled_from([ENDING_SECONDS, SHOWN_SECONDS, TICK_SECONDS, CALM_SECONDS]),
)
def test_times_are_shared(last: float, every: float) -> None:
    """It comes after about as long as was asked for, at times that are everybody's."""
    due = shared(last, every=every)
    assert every / 2 - 1e-6 <= due - last <= 1.5 * every + 1e-6
    assert shared(due, every=every) == pytest.approx(due + every, rel=0.0, abs=1e-6)


def test_a_calm_attempt_is_looked_at_less_often(tmp_path: Path) -> None:
    """As long as its end is told by a descriptor; and more often while it starts."""
    paths, ledger = RunPaths(tmp_path), Ledger(tmp_path / "ledger.sqlite")
    following = following_of(paths, ledger)
    assert following.due_after(100.0) == 100.0 + TICK_SECONDS
    paths.attempt(1).root.mkdir(parents=True)
    following.start(attempt_in(paths.attempt(1)))
    assert following.handle is not None
    assert following.due_after(100.0) == 100.0 + STARTING_SECONDS
    following.handle.started = True
    assert following.due_after(100.0) == 100.0 + TICK_SECONDS
    following.memory.calm = True
    assert following.due_after(100.0) == 100.0 + CALM_SECONDS
    following.handle.kill((), now=100.0, patience_seconds=60.0)
    assert following.due_after(100.0) == 100.0 + TICK_SECONDS
    following.handle.attempt.close()
    ledger.close()


def test_what_the_kernel_had_counted_when_it_was_killed_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first SIGKILL: what moves the counter later may be its own end."""
    handle = watch_in(tmp_path)
    counts = iter([5, 6])
    monkeypatch.setattr(direct, "oom_kills", lambda: next(counts))
    handle.attempt = replace(attempt_in(handle.attempt.paths), oom_kills_before=3)
    handle.kill((), now=1.0, patience_seconds=60.0)
    handle.kill((), now=2.0, patience_seconds=60.0)
    exited = Exited(evidence=Evidence(exit=None), last_step=None, snapshot_step=0)
    closed = handle.close(exited, remains=Leftovers(run_id="a-1"))
    assert closed.evidence.oom_kills_before_kill == 2


def test_its_page_is_read_again_for_who_is_shown_it(tmp_path: Path) -> None:
    """Between two looks, and not twice in a moment."""
    paths, ledger = RunPaths(tmp_path), Ledger(tmp_path / "ledger.sqlite")
    following = following_of(paths, ledger)
    following.see(fresh(), NOBODY_ASKS)
    paths.attempt(1).root.mkdir(parents=True)
    following.start(attempt_in(paths.attempt(1)))
    page = PageWriter(paths.attempt(1).page)
    assert following.handle is not None
    for step in (1, 2):
        page.set(step=step)
        following.see(fresh(), NOBODY_ASKS)
        assert following.handle.page == Page(step=1)
    following.handle.page_at -= SHOWN_SECONDS
    following.memory.calm = True
    page.set(memory_limit_bytes=100, memory_in_use_bytes=99)
    following.see(fresh(), NOBODY_ASKS)
    assert following.handle.page is not None
    assert following.handle.page.step == 2
    assert not following.memory.calm
    following.handle.attempt.close()
    ledger.close()


def test_what_it_writes_to_its_log_is_seen(tmp_path: Path) -> None:
    """A look tells how much there is, of the log as it was read in the same turn."""
    handle, told = watch_in(tmp_path), list[int | None]()
    for text in (None, "a line\n", "a longer line\n"):
        if text is not None:
            handle.attempt.paths.output.write_text(text)
        handle.read_log(now=1.0)
        looked, *_ = handle.look(now=1.0, remains=Leftovers(run_id="test-watching"))
        assert isinstance(looked, HealthSampled)
        told.append(looked.look.output_bytes)
    handle.attempt.close()
    assert told == [None, 7, 14]


def test_the_shim_is_no_process_of_training(tmp_path: Path) -> None:
    """Of the tree below the shim all but the shim itself are training's."""
    shim = os.getpid()
    with holding(1) as training:
        remains, handle = Leftovers(run_id="test-watching"), watch_in(tmp_path)
        handle.attempt.training = Shimmed(
            shim_pid=shim, shim_started_ticks=1, pid=training.pid, started_ticks=1,
            boot_id=boot_id(),
        )  # fmt: skip
        handle.look(now=1.0, remains=remains)
        handle.attempt.close()
    assert remains.pids >= {shim, training.pid}
    assert handle.of_training(remains) == remains.pids - {shim}


@pytest.mark.parametrize("lives", [True, False])
def test_an_attempt_that_is_taken_over_is_no_earlier_one(
    tmp_path: Path, *, lives: bool
) -> None:
    """What the attempt that goes on has counted is told once; one that has ended is
    among the earlier ones."""
    paths = RunPaths(tmp_path)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for number in (1, 2):
        paths.attempt(number).root.mkdir(parents=True)
        PageWriter(paths.attempt(number).page).set(step_counts=(number,) + (0,) * 11)
    following = following_of(paths, ledger)
    if lives:
        following.start(attempt_in(paths.attempt(2)))
    following.begin(replace(fresh(), attempt=2))
    if following.handle is not None:
        following.handle.attempt.close()
    ledger.close()
    assert following.earlier.page is not None
    assert following.earlier.page.step_counts[0] == (1 if lives else 3)


def test_counters_of_a_long_attempt_never_climb_anew(tmp_path: Path) -> None:
    """A supervisor that takes it over tells none of them until it has read all that the
    attempt told the earlier one, without a wait between two looks."""
    paths, ledger = RunPaths(tmp_path), Ledger(tmp_path / "ledger.sqlite")
    following = following_of(paths, ledger)
    files = paths.attempt(1)
    files.root.mkdir(parents=True)
    count = long_story(files.events)
    following.start(attempt_in(files), taken_over=True)
    run = replace(fresh(), attempt=1)
    following.begin(run)
    assert following.handle is not None
    told: list[int | None] = []
    for _ in range(4):
        status = following.status(run, NOBODY_ASKS, incidents={})
        told.append(status.tiers["memory"].snapshots)
        following.handle.started = True
        following.look(run, NOBODY_ASKS)
        assert following.behind is (len(told) < 3)
        assert (following.due_after(5.0) == 5.0) is following.behind
    assert told == [None, None, None, count]
    following.handle.attempt.close()
    ledger.close()


def test_an_attempt_that_ends_before_all_is_read(tmp_path: Path) -> None:
    """Its end is taken in after all that it told: the last of that says how it ended."""
    paths, ledger = RunPaths(tmp_path), Ledger(tmp_path / "ledger.sqlite")
    following = following_of(paths, ledger)
    posted: list[Event] = []
    following.post = posted.append
    files = paths.attempt(1)
    files.root.mkdir(parents=True)
    count = long_story(files.events)
    with holding(1) as shim:
        attempt = DirectAttempt(paths=files, shim=Process.of(shim.pid))
    following.start(attempt, taken_over=True)
    assert following.handle is not None
    following.handle.started = True
    for _ in range(100):
        following.look(replace(fresh(), attempt=1), NOBODY_ASKS)
        if any(isinstance(one, Exited) for one in posted):
            break
    (exited,) = (one for one in posted if isinstance(one, Exited))
    assert exited.evidence.script_exit_code == 0
    assert following.earlier.tiers.snapshots == {"memory": count}
    assert RunArchive(ledger).snapshots(1)[1] == following.earlier.tiers
    ledger.close()


def test_an_end_waits_for_nobody_who_goes_on_telling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner may append to the file of an attempt that has ended, faster than it is
    read: the end is taken in all the same."""
    monkeypatch.setattr(attempt_telemetry, "END_POLLS", 3)
    paths, ledger = RunPaths(tmp_path), Ledger(tmp_path / "ledger.sqlite")
    following = following_of(paths, ledger)
    posted: list[Event] = []
    following.post = posted.append
    files = paths.attempt(1)
    files.root.mkdir(parents=True)
    with holding(1) as shim:
        attempt = DirectAttempt(paths=files, shim=Process.of(shim.pid))
    following.start(attempt, taken_over=True)
    assert following.handle is not None
    following.handle.started = True
    size = POLL_BYTES
    for _ in range(100):
        size += 2 * POLL_BYTES
        files.events.touch()
        os.truncate(files.events, size)
        following.look(replace(fresh(), attempt=1), NOBODY_ASKS)
        if any(isinstance(one, Exited) for one in posted):
            break
    assert any(isinstance(one, Exited) for one in posted)
    ledger.close()


@pytest.mark.parametrize("in_place", [False, True])
def test_what_an_attempt_asks_uninvited_is_not_heard(
    tmp_path: Path, *, in_place: bool
) -> None:
    """Who was not told that it may go on after a failed step gets no answer, and what it
    says of that changes nothing."""
    paths, ledger = RunPaths(tmp_path), Ledger(tmp_path / "ledger.sqlite")
    posted: list[Event] = []
    following = following_of(paths, ledger)
    following.spec = build_spec(
        {"script": "train.py", "remedies": {"in_place": in_place}}
    )
    following.post = posted.append
    paths.attempt(1).root.mkdir(parents=True)
    following.start(attempt_in(paths.attempt(1)))
    assert following.handle is not None
    following.handle.started = True
    events = EventWriter(paths.attempt(1).events)
    events.append("step_failed", number=1, step=3)
    following.look(fresh(), NOBODY_ASKS)
    events.append("goes_on", number=1, step=3, log_bytes=0)
    following.look(fresh(), NOBODY_ASKS)
    heard = [type(one) for one in posted if isinstance(one, (StepFailed, WentOn))]
    assert heard == ([StepFailed, WentOn] if in_place else [])
    following.handle.attempt.close()
    ledger.close()


def test_the_stacks_of_a_crash_outlive_the_watch(tmp_path: Path) -> None:
    """None were taken of a process that had crashed; those of a hang are newer."""
    exited = Exited(
        evidence=Evidence(exit=None, stacks="of the crash"),
        last_step=3,
        snapshot_step=2,
    )
    remains = Leftovers(run_id="a-1")
    assert watch_in(tmp_path).close(exited, remains=remains).evidence.stacks == (
        "of the crash"
    )
    watch = watch_in(tmp_path)
    watch.stacks_text = "of the hang"
    assert watch.close(exited, remains=remains).evidence.stacks == "of the hang"
