"""The one line that says how a run stands."""

from dataclasses import replace

import pytest

from supervisor.cli.views.progress import (
    AFTER_ERROR,
    PHASES,
    error_line,
    progress_line,
    reached_line,
    remedy_lines,
    short_of_memory,
    stillness,
    unsaved_lines,
)
from supervisor.cli.views.status_line import RunView, status_line
from supervisor.core.jobs.job_status import (
    ErrorStatus,
    JobState,
    JobStatus,
    LoopKind,
    SliceTrial,
    SnapshotStatus,
    TierStatus,
    status_from_json,
    status_json,
)
from supervisor.wire.page import ERROR_STAGES


def line(phase: str, *, step: int | None = 3) -> str:
    """That of a run whose attempt is in ``phase``."""
    status = JobStatus(
        job="job", state=JobState.RUNNING, attempt=1, phase=phase, pid=7, step=step
    )
    return progress_line(status)


def test_a_process_that_outlives_its_script_is_ending() -> None:
    """TensorFlow may take a while to take down what a script left: that is no training,
    and not yet the end of the run."""
    assert line("finished").endswith(PHASES["finished"])
    assert PHASES["finished"] in line("finished", step=None)
    assert line("validating").endswith("validating")
    assert "training" not in line("training")
    assert "(training)" in line("training", step=None)


def test_a_loop_of_the_scripts_own_shows_its_steps() -> None:
    """There is no epoch to count in, only the optimizer's counter."""
    assert "step 3" in line("between")
    assert line("between").endswith("in a callback, or outside of fit")


@pytest.mark.parametrize(
    ("phase", "loop", "step", "age", "words"),
    [
        ("between", LoopKind.OWN, 3, 0.5, "training in the script's own loop"),
        ("between", LoopKind.OWN, 3, 90.0, PHASES["between"]),
        ("between", None, 3, 0.5, PHASES["between"]),
        ("starting", LoopKind.UNSEEN, None, 90.0, "no step of it is seen"),
        ("starting", None, None, 90.0, "starting"),
    ],
)
def test_a_script_outside_of_fit_is_told_as_what_it_does(
    phase: str, loop: LoopKind | None, step: int | None, age: float, words: str
) -> None:
    """A loop of its own trains as long as its steps come; one that is not seen is no start."""
    status = JobStatus(
        job="job",
        state=JobState.RUNNING,
        attempt=1,
        phase=phase,
        loop=loop,
        pid=7,
        step=step,
        progress_age_seconds=age,
    )
    row = status_line(RunView(status=status, elapsed_seconds=1.0), 200)
    for shown in (progress_line(status), row):
        assert words in shown
    assert status_from_json(status_json(status)) == status


@pytest.mark.parametrize("stage", [*ERROR_STAGES.values(), "of a newer version"])
@pytest.mark.parametrize("step", [None, 3])
def test_after_an_error_it_is_in_no_callback(stage: str, step: int | None) -> None:
    """The phase is the one in which the error came; what is done now is something else,
    and nobody waits for a step."""
    status = JobStatus(
        job="job",
        state=JobState.RUNNING,
        attempt=1,
        phase="between",
        pid=7,
        step=step,
        after_error=stage,
        progress_age_seconds=60.0,
    )
    said = AFTER_ERROR.get(stage, AFTER_ERROR["ending"])
    row = status_line(RunView(status=status, elapsed_seconds=1.0), 200)
    for shown in (progress_line(status), row):
        assert said in shown
        assert PHASES["between"] not in shown
        assert "no progress" not in shown


def test_while_sizes_are_tried_it_says_so() -> None:
    """The first steps after a batch did not fit are slow, and their slices not yet those
    to stay with; the first of them compiles, and no step is done."""
    status = JobStatus(
        job="job",
        state=JobState.RUNNING,
        attempt=2,
        phase="training",
        pid=7,
        step=3,
        effective_batch=512,
        slices=31,
        slice_trial=SliceTrial(size=17, batch=512),
    )
    said = "trying how many samples fit at once (17 of 512)"
    for one in (status, replace(status, step=None, phase="compiling")):
        assert said in progress_line(one)
        assert said in status_line(RunView(status=one, elapsed_seconds=1.0), 200)
    assert "31 slices" not in progress_line(status)
    found = replace(status, slice_trial=None)
    assert "batch 512 in 31 slices" in progress_line(found)
    assert "31 slices" in status_line(RunView(status=found, elapsed_seconds=1.0), 200)


def test_a_state_is_not_said_twice() -> None:
    """The message of a run may be its state alone."""
    over = JobStatus(job="job", state=JobState.FINISHED, attempt=1, message="finished")
    assert progress_line(over) == "job · finished"
    gone = JobStatus(job="job", state=JobState.GAVE_UP, attempt=1, message="why")
    assert progress_line(gone) == "job · gave up · why"
    message = "drained at step 5"
    left = JobStatus(job="job", state=JobState.DRAINED, attempt=1, message=message)
    assert progress_line(left) == "job · drained · at step 5"
    row = status_line(RunView(status=left, elapsed_seconds=1.0), 200)
    assert row.count("drained") == 1


def test_a_snapshot_from_before_a_reboot_has_no_age() -> None:
    """It is there all the same; how long ago it was no clock of this boot tells."""
    status = JobStatus(
        job="job",
        state=JobState.RUNNING,
        attempt=1,
        phase="training",
        pid=7,
        step=3,
        snapshot=SnapshotStatus(step=2, age_seconds=None),
    )
    assert "snapshot before a reboot (step 2)" in progress_line(status)
    view = RunView(status=status, elapsed_seconds=1.0)
    assert "saved before a reboot" in status_line(view, width=200)


def test_snapshots_that_fail_are_told_with_the_reason() -> None:
    """Of each tier whose last one was not saved, and of no other."""
    tiers = {
        "memory": TierStatus(snapshots=3, failures=1),
        "durable": TierStatus(failures=14, failing="Operation not permitted"),
    }
    trains = JobStatus(job="job", state=JobState.RUNNING, attempt=1, pid=7, tiers=tiers)
    assert unsaved_lines(trains) == [
        "snapshots cannot be saved on disk: Operation not permitted"
    ]
    assert unsaved_lines(replace(trains, pid=None)) == []


def still(
    phase: str,
    seconds: float,
    *,
    step_seconds: float | None = 0.3,
    hang_seconds: float | None = None,
) -> str:
    """What is said of an attempt that has not moved for so long."""
    status = JobStatus(
        job="job",
        state=JobState.RUNNING,
        attempt=1,
        phase=phase,
        pid=7,
        step=3,
        step_seconds=step_seconds,
        progress_age_seconds=seconds,
        hang_seconds=hang_seconds,
    )
    assert stillness(replace(status, pid=None)) == ""
    assert stillness(status) in progress_line(status)
    assert stillness(status) in progress_line(replace(status, step=None))
    assert ("steps/s" in progress_line(status)) == (stillness(status) == "")
    return stillness(status)


def test_a_hang_is_seen_before_it_is_judged() -> None:
    """Since when no step was done, once that is longer than usual."""
    assert (
        still("training", 75.0) == "no step done for 1 min 15 s (a step takes 300 ms)"
    )
    assert still("compiling", 75.0, step_seconds=None) == "no step done for 1 min 15 s"
    assert still("between", 75.0) == "no progress for 1 min 15 s"
    assert still("training", 5.0) == ""
    assert still("training", 75.0, step_seconds=20.0) == "", "slow steps are usual"
    assert still("starting", 75.0) == "", "imports and data are the script's own"


def test_what_comes_of_a_silence_is_told_with_it() -> None:
    """When it is judged a hang, by the limits in force."""
    judged = "judged a hang at 5 min 00 s at the earliest"
    takes = "no step done for 1 min 15 s (a step takes 300 ms)"
    assert still("training", 75.0, hang_seconds=300.0) == f"{takes}, {judged}"
    assert still("validating", 75.0, hang_seconds=300.0).endswith(f"15 s, {judged}")
    over = still("training", 400.0, hang_seconds=300.0)
    assert "judged" not in over, "it slept, or was stopped: that does not count"


@pytest.mark.parametrize("step", [None, 3])
def test_a_first_step_that_found_no_memory_does_not_compile(step: int | None) -> None:
    """TensorFlow waits for memory then, or goes on without: that is told in all rows, and
    the word of the phase would say something else."""
    status = JobStatus(
        job="job",
        state=JobState.RUNNING,
        attempt=2,
        phase="compiling",
        pid=7,
        step=step,
        progress_age_seconds=5.0,
        memory_refused_age_seconds=4.7,
    )
    said = "an allocation found no memory 4.7 s ago, and its allocator may wait 10 s for it"
    row = status_line(RunView(status=status, elapsed_seconds=1.0), 200)
    for shown in (progress_line(status), row):
        assert said in shown
        assert "compiling" not in shown
    without = replace(status, memory_refused_age_seconds=None)
    assert "compiling" in progress_line(without)
    assert "compiling" in status_line(RunView(status=without, elapsed_seconds=1.0), 200)


def test_memory_is_named() -> None:
    """What is in use between steps is not what a step needs: both have their name."""
    status = JobStatus(
        job="job",
        state=JobState.RUNNING,
        attempt=1,
        phase="training",
        pid=7,
        step=3,
        memory_in_use_bytes=24 * 2**20,
        memory_limit_bytes=90 * 2**20,
    )
    between = "24 MiB of 90 MiB between steps"
    assert between in progress_line(status)
    assert between in status_line(RunView(status=status, elapsed_seconds=1.0), 200)
    known = replace(status, memory_peak_bytes=60 * 2**20)
    peak = "step peak 60 MiB of 90 MiB"
    assert f" · {peak}, 24 MiB between steps · " in progress_line(known)
    assert peak in status_line(RunView(status=known, elapsed_seconds=1.0), 200)
    alone = replace(known, memory_in_use_bytes=None)
    assert f" · {peak} · " in progress_line(alone)
    assert "MiB" not in progress_line(replace(alone, memory_peak_bytes=None))


@pytest.mark.parametrize(
    ("phase", "age", "said"),
    [
        (
            "training",
            8.0,
            "an allocation found no memory 8.0 s ago, and its allocator may wait 10 s for it",
        ),
        ("compiling", 45.0, "an allocation found no memory 45 s ago"),
        ("between", 8.0, ""),
        ("training", None, ""),
    ],
)
def test_a_step_that_found_no_memory_is_told_before_it_is_silent_for_long(
    phase: str, age: float | None, said: str
) -> None:
    """That is known, and no more: whether it waits for some, or goes on without, is not.
    Outside of steps the script may try what fits."""
    status = JobStatus(
        job="job",
        state=JobState.RUNNING,
        attempt=1,
        phase=phase,
        pid=7,
        step=3,
        step_seconds=0.3,
        progress_age_seconds=9.0,
        memory_refused_age_seconds=age,
    )
    takes = "no step done for 9.0 s (a step takes 300 ms)"
    assert short_of_memory(status) == said
    assert stillness(status) == (f"{takes}: {said}" if said else "")
    assert said in progress_line(status)
    line = status_line(RunView(status=status, elapsed_seconds=1.0), 200)
    assert said in line
    assert short_of_memory(replace(status, pid=None)) == ""


def test_a_loss_is_shown_with_the_step_that_it_is_of() -> None:
    """It is looked at now and then: beside a later step it would be taken for that one's."""
    status = JobStatus(
        job="job",
        state=JobState.RUNNING,
        attempt=1,
        pid=7,
        step=30,
        step_in_epoch=10,
        loss=100.7766,
        loss_step=22,
    )
    assert "loss 100.7766 (8 steps ago) " in progress_line(status)
    assert "loss 100.7766 ·" in progress_line(replace(status, loss_step=30))
    assert "loss NaN or infinite ·" in progress_line(
        replace(status, loss=None, loss_step=30)
    )
    line = status_line(RunView(status=status, elapsed_seconds=1.0), 200)
    assert "loss 100.8 (8 steps ago) " in line


def test_the_step_of_a_loss_is_one_of_the_run() -> None:
    """As page and report tell it: the step in the epoch is another count."""
    status = JobStatus(
        job="job", state=JobState.GAVE_UP, attempt=1, step=39, step_in_epoch=7,
        steps_per_epoch=32, loss=0.696, loss_step=34,
    )  # fmt: skip
    told = "step 7/32, 39 steps in all, loss 0.6960 at step 34"
    assert reached_line(status) == told


def test_a_number_of_slices_that_is_being_tried_is_told_as_such() -> None:
    """The incident tells the one that was found, and this may be another yet."""
    status = JobStatus(
        job="job",
        state=JobState.RUNNING,
        attempt=2,
        overrides={"slices": 31, "memory growth": "on"},
        asked={"slices": 4},
        slice_trial=SliceTrial(size=17, batch=512),
    )
    assert list(remedy_lines(status)) == [
        "set after crashes: slices 31 (being tried), memory growth on",
        "set after crashes, not confirmed yet: slices 4",
    ]
    found = replace(status, slice_trial=None, asked={})
    assert list(remedy_lines(found)) == [
        "set after crashes: slices 31, memory growth on"
    ]


def test_what_failed_says_why_itself() -> None:
    """Until the run has come to its end all the same."""
    error = ErrorStatus(attempt=1, cause="user_error", text="ValueError: no column")
    status = JobStatus(job="job", state=JobState.GAVE_UP, attempt=1, last_error=error)
    said = "attempt 1 ended by user_error: ValueError: no column"
    assert error_line(status) == said
    assert error_line(replace(status, state=JobState.FINISHED)) == ""
    assert error_line(replace(status, last_error=None)) == ""


def test_how_far_a_run_came() -> None:
    """With what is known of it; nothing where no step was made."""
    status = JobStatus(
        job="job",
        state=JobState.GAVE_UP,
        attempt=1,
        epoch=1,
        epochs=8,
        step=19,
        step_in_epoch=7,
        steps_per_epoch=12,
        loss=0.25,
        loss_step=19,
    )
    said = "epoch 2/8, step 7/12, 19 steps in all, loss 0.2500"
    assert reached_line(status) == said
    assert reached_line(replace(status, step=0)) == ""
    assert "1 step in all" in reached_line(replace(status, step=1))
