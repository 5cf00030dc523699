"""The answer to a scrape: of the scene that is published now, in the form asked for."""

import gzip
from dataclasses import replace

import pytest

from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.host.exporter.exposition_cache import ExpositionCache, Form
from tests.support.metrics import render

STATUS = JobStatus(job="a", state=JobState.RUNNING, attempt=1)
LATER = JobStatus(job="b", state=JobState.RUNNING, attempt=1)
FORMS = [Form(o, g) for o in (False, True) for g in (False, True)]


def test_every_form_tells_of_what_was_published_last() -> None:
    """Nothing before the first; the same bytes again while nothing new is published."""
    board = ExpositionCache()
    assert [board.read(form) for form in FORMS] == [None] * 4
    for status in (STATUS, LATER, STATUS):
        board.publish([status])
        told = [board.read(form) for form in FORMS]
        assert told[0] == render([status])
        assert told[2] == render([status], openmetrics=True)
        assert [gzip.decompress(told[at] or b"") for at in (1, 3)] == [told[0], told[2]]
        assert all(board.read(f) is one for f, one in zip(FORMS, told, strict=True))


def test_what_cannot_be_rendered_is_not_shown() -> None:
    """A scrape that fails is noticed; one that tells of yesterday is not. What comes
    next is shown again."""
    board, form = ExpositionCache(), Form()
    broken = replace(STATUS, job=7)  # type: ignore[arg-type]  # what no label can be
    board.publish([STATUS])
    assert board.read(form) == render([STATUS])
    board.publish([broken])
    with pytest.raises(AttributeError):
        board.read(form)
    board.publish([STATUS])
    assert board.read(form) == render([STATUS])
