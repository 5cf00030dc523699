"""Which jobs ``top`` lists, and in which order.

Pure: jobs in the shape of ``status --json`` to jobs.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from supervisor.core.jobs.job_status import JobState, state_words

ListedJob = Mapping[str, Any]
"""In the shape of ``status --json``."""


class SortKey(enum.StrEnum):
    """What jobs are sorted by."""

    GIVEN = "as they come"
    """As the daemon or the files tell them."""
    JOB = "job"
    STATE = "state"
    ATTEMPT = "attempt"
    STEP_TIME = "step time"
    MEMORY = "memory"
    SAVED = "snapshot age"

    @property
    def next(self) -> "SortKey":
        """The one after it, the first after the last."""
        known = list(SortKey)
        return known[(known.index(self) + 1) % len(known)]


SORT_LETTERS: Mapping[str, SortKey] = {
    "J": SortKey.JOB,
    "S": SortKey.STATE,
    "A": SortKey.ATTEMPT,
    "T": SortKey.STEP_TIME,
    "M": SortKey.MEMORY,
    "V": SortKey.SAVED,
}
LARGEST_FIRST = {SortKey.ATTEMPT, SortKey.STEP_TIME, SortKey.MEMORY, SortKey.SAVED}
STATES = (
    JobState.RUNNING,
    JobState.LAUNCHING,
    JobState.KILLING,
    JobState.DRAINING,
    JobState.WAITING,
    JobState.QUEUED,
    JobState.INTERRUPTED,
    JobState.GAVE_UP,
    JobState.DRAINED,
    JobState.FINISHED,
)
"""What goes on comes first, then what wants somebody, then what is over."""
_RANKS = {str(state): rank for rank, state in enumerate(STATES)}
_FIELDS = {
    SortKey.ATTEMPT: "attempt",
    SortKey.STEP_TIME: "step_seconds",
    SortKey.MEMORY: "memory_in_use_bytes",
}


def snapshot_age(job: ListedJob) -> float | None:
    """In seconds, of the newest whole one; None: there is none."""
    snapshot: Mapping[str, Any] = job.get("snapshot") or {}
    return snapshot.get("age_seconds")


def _sorted_by(job: ListedJob, key: SortKey) -> Any:
    """None: not known."""
    if key is SortKey.JOB:
        return str(job["job"]).casefold()
    if key is SortKey.STATE:
        return _RANKS.get(str(job["state"]), len(_RANKS))
    if key is SortKey.SAVED:
        return snapshot_age(job)
    return job.get(_FIELDS[key])


def sorted_jobs(
    jobs: Sequence[ListedJob], key: SortKey, *, backwards: bool = False
) -> list[ListedJob]:
    """``jobs`` by ``key``; equal ones stay in their order, and those of which it is not
    known come last either way."""
    if key is SortKey.GIVEN:
        return list(reversed(jobs)) if backwards else list(jobs)
    known = [job for job in jobs if _sorted_by(job, key) is not None]
    rest = [job for job in jobs if _sorted_by(job, key) is None]
    largest_first = (key in LARGEST_FIRST) != backwards
    known.sort(key=lambda job: _sorted_by(job, key), reverse=largest_first)
    return known + rest


def filtered_jobs(jobs: Sequence[ListedJob], text: str) -> list[ListedJob]:
    """Those that have ``text`` in their name, owner or state, in any case of letters."""
    wanted = text.casefold()
    return [job for job in jobs if wanted in _sought_in(job)]


def _sought_in(job: ListedJob) -> str:
    words = (job["job"], job.get("owner") or "", shown_state(job))
    return "\n".join(str(word) for word in words).casefold()


def shown_state(job: ListedJob) -> str:
    """In words."""
    return state_words(str(job["state"]))
