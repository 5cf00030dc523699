"""Notifications of a run: what a transition means to somebody who does not watch."""

from collections.abc import Collection, Iterable

from supervisor.core.diagnosis.explain import verdict_sentence
from supervisor.core.diagnosis.result import IncidentKind
from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.notification import Notification, NotificationKind
from supervisor.core.lifecycle.effects import Effect, RecordIncident
from supervisor.core.lifecycle.run_state import RunState
from supervisor.core.memory.oom_analysis import OUT_OF_MEMORY
from supervisor.core.text.units import shortened
from supervisor.core.text.visible import visible

MOST = 1000
"""Characters of a line."""
FORECASTS = {
    IncidentKind.PLANNED: "was restarted before its memory ran out",
    IncidentKind.DEVICE_MEMORY_HIGH: "is short of device memory",
    IncidentKind.HOST_MEMORY_HIGH: "is short of main memory",
}
"""Incidents that say what is to come."""


def notifications_of(
    before: RunState,
    after: RunState,
    effects: Iterable[Effect],
    *,
    job: str,
    on: Collection[NotificationKind],
    look: str | None = None,
) -> list[Notification]:
    """What there is to tell of the step from ``before`` to ``after``, in order; ``on``:
    the kinds that are wanted; ``look``: with what commands to look at a run that gave up."""
    look = look or where_to_look(job)
    found: list[Notification] = []
    for effect in effects:
        if isinstance(effect, RecordIncident):
            found += _of_incident(before, effect, job)
    if NotificationKind.GAVE_UP in on and after.state is JobState.GAVE_UP:
        # Its end says what it was.
        found = [one for one in found if one.kind != NotificationKind.FIRST_OOM]
    if after.state is not before.state and after.state is JobState.FINISHED:
        found.append(
            Notification(
                kind=NotificationKind.FINISHED,
                job=job,
                title=f"{job} finished",
                text=plain_lines(after.message, f"after {_attempts(after)}"),
            )
        )
    if after.state is not before.state and after.state is JobState.GAVE_UP:
        found.append(
            Notification(
                kind=NotificationKind.GAVE_UP,
                job=job,
                title=f"{job} gave up",
                text=plain_lines(
                    after.message,
                    f"after {_attempts(after)}",
                    f"see {look}",
                ),
            )
        )
    return [one for one in found if one.kind in on]


def where_to_look(job: str) -> str:
    """The commands that show what befell ``job``."""
    return f"`trainwarden incidents {job}` and `trainwarden logs {job}`"


def _of_incident(
    before: RunState, effect: RecordIncident, job: str
) -> list[Notification]:
    reasons = effect.diagnosis.because
    because = reasons[0].text if reasons else ""
    if effect.happened in FORECASTS:
        return [
            Notification(
                kind=NotificationKind.FORECAST,
                job=job,
                title=f"{job} {FORECASTS[effect.happened]}",
                text=plain_lines(because, effect.diagnosis.advice),
            )
        ]
    first = effect.diagnosis.cause in OUT_OF_MEMORY and not any(
        attempt.cause in OUT_OF_MEMORY for attempt in before.history.attempts
    )
    if effect.happened is not IncidentKind.ENDED or not first:
        return []
    return [
        Notification(
            kind=NotificationKind.FIRST_OOM,
            job=job,
            title=f"{job} ran out of memory",
            text=plain_lines(
                verdict_sentence(effect.diagnosis),
                f"{effect.remedy.kind.words}: {effect.remedy.because}",
            ),
        )
    ]


def _attempts(run: RunState) -> str:
    return "1 attempt" if run.attempt == 1 else f"{run.attempt} attempts"


def plain_lines(*lines: str) -> str:
    """Each made safe to look at, and in one line: what a script printed is in them."""
    plain = (visible(" ".join(line.split())) for line in lines)
    return "\n".join(shortened(line, MOST) for line in plain if line)
