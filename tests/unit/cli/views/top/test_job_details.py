"""The page of one job."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from supervisor.cli.views.top.gauges import RecentSamples
from supervisor.cli.views.top.job_details import MOST_INCIDENTS, job_details, wrapped
from supervisor.cli.views.top.spans import text_of
from supervisor.core.causes import Cause
from supervisor.core.jobs.job_status import (
    AllocatorStatus,
    ErrorStatus,
    RemoteStatus,
    SnapshotPlan,
    SnapshotStatus,
    TierStatus,
)
from tests.support.listed_jobs import LISTS, MIB, listed

FULL = listed(
    "digits", pid=7, phase="training", epoch=0, epochs=4, step=7, step_in_epoch=7,
    steps_per_epoch=12, loss=0.25, step_seconds=0.012, effective_batch=128, slices=3,
    memory_in_use_bytes=212 * MIB, memory_limit_bytes=280 * MIB,
    memory_peak_bytes=270 * MIB, run_peak_bytes=290 * MIB, host_rss_bytes=900 * MIB, heartbeat_age_seconds=0.2,
    allocator=AllocatorStatus(
        pool_bytes=250 * MIB, largest_free_bytes=3 * MIB, fragmentation=0.4,
        source="estimate",
    ),
    forecast_seconds={"device": 600.0},
    snapshot=SnapshotStatus(step=6, age_seconds=7.4),
    tiers={"memory": TierStatus(age_seconds=2.0, size_bytes=MIB, failures=1)},
    snapshot_plan=SnapshotPlan(memory_seconds=1.0, durable_seconds=30.0, because="x"),
    remote=RemoteStatus(address="s3://b", step=4), promise="it is unseeded",
    promise_fit=1, proof="proved", overrides={"slices": 3}, asked={"slices": 4},
    restarts={Cause.DEVICE_OOM: 1}, message="goes on",
) | {"owner": "ada", "priority": 0, "gpus": ["GPU-1"]}  # fmt: skip


def incident(number: int) -> dict[str, Any]:
    """One in the shape of ``incidents --json``."""
    return {
        "id": number, "job": "digits", "attempt": 1, "at": "2026-01-31T12:00:00+00:00",
        "happened": "ended", "cause": "device_oom", "because": [], "failed_step": 3,
        "restored_step": 2, "lost_steps": 1, "downtime_seconds": 1.0,
        "remedy": {"kind": "restart", "changes": {}, "because": ""},
    }  # fmt: skip


def drawn(job: Any, *incidents: dict[str, Any], width: int = 100) -> str:
    """The page as text."""
    history = RecentSamples()
    if job is not None:
        history.add(job)
    lines = job_details(job, incidents, history, width=width)
    return "\n".join(text_of(line).rstrip() for line in lines)


def test_all_that_is_known() -> None:
    """Each under its label."""
    page = drawn(FULL, incident(1))
    for said in (
        "state       running (training)",
        "            goes on",
        "owner       ada, priority 0",
        "GPUs        GPU-1",
        "attempt     1, process 7",
        "epoch       1 of 4, step 7 of 12",
        "step time   12 ms ▁",
        "batch       128 in 3 slices",
        "memory      ███████████████░░░░░ 212 of about 280 MiB between steps ▁",
        "step peak   270 MiB",
        "run peak    290 MiB",
        "allocator   pool 250 MiB, largest free block 3 MiB, fragmentation 40%, estimated",
        "forecast    device memory runs out in about 10 min 00 s",
        "snapshot    step 6, 7.4 s ago",
        "            memory: 2.0 s ago, 1 MiB, 1 failed",
        "remote      step 4 is in s3://b",
        "promise     bit-identical resume is not promised (call 2 of fit): it is unseeded",
        "remedies    set after crashes: slices 3",
        "            set after crashes, not confirmed yet: slices 4",
        "restarts    device_oom 1",
        "incidents   #1 ",
    ):
        assert said in page, page


def test_what_is_not_known_is_left_out() -> None:
    """No None, no zero in its place."""
    page = drawn(listed("a", exact=True))
    assert "None" not in page
    assert [line.split()[0] for line in page.splitlines() if line] == [
        "state", "attempt", "snapshot", "promise", "incidents",
    ]  # fmt: skip
    lines = job_details(listed("a"), None, RecentSamples(), width=80)
    assert text_of(lines[-1]).split() == ["incidents", "…"]


def test_what_cannot_be_told() -> None:
    """It is gone, or of a version to come."""
    assert "not on the list any more" in drawn(None)
    assert "newer version" in drawn({"job": "a", "state": "hovering", "attempt": 1})


def test_the_newest_incidents() -> None:
    """And how many older ones there are."""
    many = [incident(number) for number in range(MOST_INCIDENTS + 5, 0, -1)]
    page = drawn(FULL, *many)
    assert "5 older ones: trainwarden incidents" in page
    assert "incidents   #25 " in page


@given(LISTS, st.integers(6, 90))
def test_it_fits(jobs: list[dict[str, Any]], width: int) -> None:
    """Every line of every job, and nothing is lost of what it says."""
    for job in jobs:
        page = drawn(job, incident(1), width=width)
        assert all(cell_len(line) <= width for line in page.split("\n"))


@given(st.text(st.characters(codec="utf-8", categories=["L"])), st.integers(2, 30))
def test_wrapping_keeps_every_letter(text: str, width: int) -> None:
    """In cells, of which a letter may take two, or none."""
    lines = wrapped(text, width)
    assert "".join(lines) == text
    assert all(cell_len(line) <= width for line in lines)


def test_what_failed_says_why_itself() -> None:
    """In the words of its error, and where all of it is."""
    error = ErrorStatus(attempt=1, cause="user_error", text="ValueError: no column")
    because = [{"text": "builtins.ValueError: no column\x1b[2J", "signature": "crash"}]
    page = drawn(
        listed("digits", last_error=error), {**incident(1), "because": because}
    )
    for said in (
        "error       attempt 1 ended by user_error: ValueError: no column",
        "            more: trainwarden logs digits",
        "            ValueError: no column (trainwarden explain 1)",
    ):
        assert f"{said}\n" in page + "\n"


def test_a_run_of_the_foreground_has_no_priority() -> None:
    """Its owner is who began it; a place in a queue it has not."""
    page = drawn(listed("a") | {"owner": "ada"})
    assert "owner       ada\n" in page
