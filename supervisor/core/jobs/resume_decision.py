"""What starting a job means when it ran before: go on, begin anew, or ask."""

import enum
from dataclasses import dataclass

from supervisor.core.jobs.job_status import JobState
from supervisor.wire.reasons import Changed


class ResumeDecision(enum.Enum):
    """How a run begins."""

    FRESH = "fresh"
    """A new run: no snapshot is used."""
    RESUME = "resume"
    """The newest run goes on from its newest snapshot."""


class StartRefusedError(Exception):
    """A person has to decide; the message says between what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The newest run of the same name."""

    state: JobState
    script: str
    script_hash: str
    has_snapshot: bool


def decide_start(
    earlier: Earlier | None,
    *,
    job: str,
    script: str,
    script_hash: str,
    fresh: bool,
    accept_changes: bool,
) -> ResumeDecision:
    """How to begin.

    Raises:
        StartRefusedError: the name belongs to another script, or the script changed
            since the snapshots were made.
    """
    if earlier is None or earlier.state is JobState.FINISHED or fresh:
        return ResumeDecision.FRESH
    if earlier.script != script:
        message = (
            f"the name {job!r} belongs to {earlier.script}, which has not finished: "
            "choose another with --name, or give it up with --fresh"
        )
        raise StartRefusedError(message)
    if earlier.script_hash == script_hash:
        return ResumeDecision.RESUME
    if not earlier.has_snapshot:
        return (
            ResumeDecision.FRESH
        )  # nothing was saved that could contradict the new script
    if not accept_changes:
        message = (
            f"{script} or its arguments changed since its snapshots were made, so the "
            "run would not end as it began: --accept-changes goes on with the new "
            "ones, --fresh begins anew"
        )
        raise StartRefusedError(message)
    return ResumeDecision.RESUME


def started_by_hand(
    earlier: Earlier | None, start: ResumeDecision, *, person: bool
) -> bool:
    """Whether a person let an earlier run go on: what was given up nobody else starts
    again. ``person``: somebody waits for an answer."""
    if earlier is None or start is ResumeDecision.FRESH:
        return False
    return person or earlier.state is JobState.GAVE_UP


def goes_on_with_other_data(
    *, accepted: bool, stop: bool, by_hand: bool, trained: bool
) -> bool:
    """Whether the next attempt trains on where its data are not those of the snapshot.

    ``stop``: the spec wants that to end the run. ``by_hand``: a person let it go on, and
    so may have changed them; not any more once it has ``trained`` since.
    """
    return accepted or not (stop or (by_hand and not trained))


def decide_modules(
    earlier: Earlier | None,
    start: ResumeDecision,
    *,
    person: bool,
    accept_changes: bool,
) -> Changed:
    """What the first attempt does about modules that changed since the run began; later
    ones import what it did. ``person``: somebody waits for an answer.
    """
    if earlier is None or start is ResumeDecision.FRESH:
        return Changed.AS_KEPT  # nothing was kept yet
    asked = started_by_hand(earlier, start, person=person)
    if not earlier.has_snapshot and (accept_changes or asked):
        return Changed.NOTHING_SAVED
    if accept_changes:
        return Changed.AS_IT_IS
    return Changed.REFUSED if person else Changed.AS_KEPT
