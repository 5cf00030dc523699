"""A status as JSON, and back."""

import json
import math
from dataclasses import replace

from supervisor.core.jobs.job_status import (
    AdvisoryStatus,
    AllocatorStatus,
    JobState,
    JobStatus,
    SliceTrial,
    SnapshotPlan,
    SnapshotStatus,
    TierStatus,
    status_from_json,
    status_json,
)
from supervisor.core.memory.step_budget import StepBudget
from supervisor.core.memory.step_estimate import MemoryPart

STATUS = JobStatus(
    job="digits",
    state=JobState.RUNNING,
    attempt=2,
    slices=4,
    slice_size=8,
    slice_trial=SliceTrial(size=8, batch=32),
    snapshot=SnapshotStatus(step=3, age_seconds=1.5),
    snapshot_plan=SnapshotPlan(memory_seconds=1.0, durable_seconds=None, because="c"),
    allocator=AllocatorStatus(pool_bytes=9, source="estimate"),
    step_needs=StepBudget(
        fit=0,
        batch=8,
        slices=1,
        limit_bytes=9,
        peak_bytes=3,
        parts=(MemoryPart(name="parameters", bytes=3, about="3 numbers"),),
        largest_batch=16,
    ),
    tiers={"memory": TierStatus(snapshots=2, age_seconds=1.5)},
    advisories=(
        AdvisoryStatus(
            kind="float64",
            active=True,
            attempt=2,
            sentence="it is wide",
            advice="Cast.",
            figures={"operations": 2},
        ),
    ),
)


def test_there_and_back() -> None:
    """Slices are told together; nothing is lost."""
    value = json.loads(json.dumps(status_json(STATUS)))
    assert value["microbatch"] == {"slices": 4, "size": 8}
    again = status_from_json(value)
    assert (again.state, again.slices, again.slice_size) == (STATUS.state, 4, 8)
    assert (again.snapshot, again.snapshot_plan) == (
        STATUS.snapshot,
        STATUS.snapshot_plan,
    )
    assert again.allocator == STATUS.allocator
    assert again.step_needs == STATUS.step_needs
    assert again.tiers == STATUS.tiers
    assert again.slice_trial == STATUS.slice_trial
    assert again.advisories == STATUS.advisories


def test_numbers_that_are_none() -> None:
    """JSON knows no infinity and no NaN: what a mad page says is null for strict
    readers, and the rest stays as it is."""
    mad = replace(
        STATUS,
        loss=math.inf,
        step_seconds=math.nan,
        phase_seconds={"training": -math.inf, "starting": 1.0},
    )
    value = status_json(mad)
    json.dumps(value, allow_nan=False)
    assert (value["loss"], value["step_seconds"]) == (None, None)
    assert value["phase_seconds"] == {"training": None, "starting": 1.0}


def test_of_a_newer_daemon() -> None:
    """Keys that are not known here are left out; what is not there is not known."""
    tiers = {"memory": {"snapshots": 2, "copies": 3}}
    value = {
        "job": "a", "state": "queued", "attempt": 0, "gpus": ["GPU-1"], "tiers": tiers,
    }  # fmt: skip
    assert status_from_json(value) == JobStatus(
        job="a",
        state=JobState.QUEUED,
        attempt=0,
        tiers={"memory": TierStatus(snapshots=2)},
    )


def test_a_state_in_words() -> None:
    """For people; what is kept and told to programs stays as it is."""
    assert (JobState.GAVE_UP.words, JobState.RUNNING.words) == ("gave up", "running")
    gave_up = replace(STATUS, state=JobState.GAVE_UP)
    assert status_json(gave_up)["state"] == "gave_up"
