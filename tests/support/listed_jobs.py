"""Jobs in the shape of ``status --json``, for what lists and draws them, and keys."""

from typing import Any

from hypothesis import strategies as st

from supervisor.cli.views.top.job_listing import SORT_LETTERS
from supervisor.cli.views.top.key_input import Key
from supervisor.core.jobs.job_status import JobState, JobStatus, SnapshotStatus
from supervisor.core.jobs.job_status import status_json as as_json

MIB = 1 << 20
KEYS = st.sampled_from([*Key, *"qjkgGlsrhI?/ ", *SORT_LETTERS, "x", "é"])


def listed(name: str, **known: Any) -> dict[str, Any]:
    """A job of which this is known beside its name."""
    given: dict[str, Any] = {"state": JobState.RUNNING, "attempt": 1, **known}
    return as_json(JobStatus(job=name, **given))


def _unknown_or(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


_STATUSES = st.builds(
    JobStatus,
    job=st.text(min_size=1, max_size=40),
    state=st.sampled_from(JobState),
    attempt=st.integers(0, 9),
    pid=_unknown_or(st.just(1)),
    epoch=_unknown_or(st.integers(0, 9)),
    step=_unknown_or(st.integers(0, 10**6)),
    loss=_unknown_or(st.floats(0, 10)),
    step_seconds=_unknown_or(st.floats(0, 100)),
    memory_in_use_bytes=_unknown_or(st.integers(0, 300 * MIB)),
    memory_limit_bytes=_unknown_or(st.just(280 * MIB)),
    snapshot=_unknown_or(
        st.builds(SnapshotStatus, step=st.just(1), age_seconds=st.floats(0, 1e6))
    ),
    message=st.text(max_size=99),
)
LISTS = st.lists(_STATUSES, max_size=12, unique_by=lambda one: one.job).map(
    lambda found: [as_json(one) for one in found]
)
"""Jobs of any kind, each of another name."""


def box_of(*jobs: dict[str, Any]) -> dict[str, Any]:
    """A box with these, in the shape of ``top --json``."""
    gpus = [{"gpu": "GPU-1", "job": "digits"}, {"gpu": "GPU-2", "job": None}]
    return {
        "version": "1", "launcher": "direct", "paused_by": None, "gpus": gpus,
        "problems": [], "jobs": list(jobs),
    }  # fmt: skip
