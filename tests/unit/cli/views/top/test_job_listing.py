"""Which jobs are listed, and in which order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.views.top.job_listing import (
    SortKey,
    filtered_jobs,
    sorted_jobs,
)
from supervisor.core.jobs.job_status import JobState
from tests.support.listed_jobs import LISTS, listed

Jobs = list[dict[str, Any]]


def names(jobs: Any) -> list[str]:
    """Of ``jobs``, in their order."""
    return [job["job"] for job in jobs]


@given(LISTS, st.sampled_from(SortKey), st.booleans())
def test_sorting_loses_nothing(jobs: Jobs, key: SortKey, back: bool) -> None:  # noqa: FBT001
    """And sorting what is sorted changes nothing, unless it is turned round."""
    found = sorted_jobs(jobs, key, backwards=back)
    assert sorted(names(found)) == sorted(names(jobs))
    if key is not SortKey.GIVEN:
        assert sorted_jobs(found, key, backwards=back) == found


@given(LISTS, st.booleans())
def test_what_is_not_known_comes_last(jobs: Jobs, back: bool) -> None:  # noqa: FBT001
    """Either way round: it is not zero."""
    found = sorted_jobs(jobs, SortKey.MEMORY, backwards=back)
    known = [job["memory_in_use_bytes"] is not None for job in found]
    assert known == sorted(known, reverse=True)


@given(LISTS, st.text(max_size=2))
def test_a_filter_keeps_the_order(jobs: Jobs, text: str) -> None:
    """Of some of the jobs; none at all keeps all."""
    found = filtered_jobs(jobs, text)
    assert found == [job for job in jobs if job in found]
    assert filtered_jobs(jobs, "") == jobs


@pytest.mark.parametrize(
    ("key", "order"),
    [
        (SortKey.GIVEN, ["b", "C", "a"]),
        (SortKey.JOB, ["a", "b", "C"]),
        (SortKey.STATE, ["C", "a", "b"]),
        (SortKey.ATTEMPT, ["a", "b", "C"]),
        (SortKey.MEMORY, ["C", "b", "a"]),
    ],
)
def test_each_order(key: SortKey, order: list[str]) -> None:
    """Of numbers the largest come first; equal ones stay as they were."""
    jobs = [
        listed("b", state=JobState.FINISHED, memory_in_use_bytes=1),
        listed("C", memory_in_use_bytes=2),
        listed("a", state=JobState.GAVE_UP, attempt=3),
    ]
    assert names(sorted_jobs(jobs, key)) == order


def test_what_a_filter_looks_at() -> None:
    """Name, owner and state in words, in any case of letters."""
    jobs = [listed("Digits"), listed("b", state=JobState.GAVE_UP) | {"owner": "ada"}]
    for text in ("dig", "RUNN"):
        assert names(filtered_jobs(jobs, text)) == ["Digits"]
    for text in ("Ada", "gave up"):
        assert names(filtered_jobs(jobs, text)) == ["b"]


def test_every_order_is_reached_by_one_key() -> None:
    """And the first one again."""
    key, seen = SortKey.GIVEN, list[SortKey]()
    for _ in SortKey:
        seen.append(key)
        key = key.next
    assert (key, set(seen)) == (SortKey.GIVEN, set(SortKey))
