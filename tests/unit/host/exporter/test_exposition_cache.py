"""What scrapes are answered with: when it is rendered, and where."""

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.host.exporter import exposition_cache as module
from supervisor.host.exporter.exposition import ExpositionEncoder, MetricsSnapshot
from supervisor.host.exporter.exposition_cache import ExpositionCache, Form
from tests.support.metrics import render

STATUS = JobStatus(job="a", state=JobState.RUNNING, attempt=1)
LATER = JobStatus(job="b", state=JobState.RUNNING, attempt=1)


def until(so: Callable[[], bool]) -> None:
    """Wait until it is so."""
    ends = time.monotonic() + 30
    while not so():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_board_renders_beforehand() -> None:
    """What was asked for once is ready for the next scrape, without rendering in it."""
    board, forms = (
        ExpositionCache(),
        [Form(o, g) for o in (False, True) for g in (False, True)],
    )
    assert [board.read(form) for form in forms] == [None] * 4
    with board:
        board.publish([STATUS])
        first = [board.read(form) for form in forms]
        assert first[0] == render([STATUS])
        assert gzip.decompress(first[3] or b"") == first[2]
        board.publish([LATER])
        until(lambda: board.read(forms[0]) == render([LATER]))
    assert "metrics" not in {thread.name for thread in threading.enumerate()}


def test_what_cannot_be_rendered_is_not_shown() -> None:
    """A scrape that fails is noticed; one that tells of yesterday is not. What comes
    next is shown again."""
    board, form = ExpositionCache(), Form()
    broken = replace(STATUS, job=7)  # type: ignore[arg-type]  # what no label can be
    with board:
        board.publish([STATUS])
        assert board.read(form) == render([STATUS])
        board.publish([broken])
        until(lambda: _fails(lambda: board.read(form)))
        board.publish([STATUS])
        until(lambda: board.read(form) == render([STATUS]))


def _fails(read: Callable[[], object]) -> bool:
    """Whether what was published cannot be read."""
    try:
        read()
    except AttributeError:
        return True
    return False


def test_whoever_publishes_does_not_render(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first scrape does, and then a thread: the loop never waits for either."""
    encode, who, form = ExpositionEncoder.encode, list[str](), Form()

    def noted(
        self: ExpositionEncoder, scene: MetricsSnapshot, *, pause_seconds: float = 0.0
    ) -> bytes:
        who.append(threading.current_thread().name)
        return encode(self, scene, pause_seconds=pause_seconds)

    texts = {status.job: render([status]) for status in (STATUS, LATER)}
    monkeypatch.setattr(ExpositionEncoder, "encode", noted)
    here = threading.current_thread().name
    with ExpositionCache() as board:
        board.publish([STATUS])
        board.read(form)
        for status in (LATER, STATUS, LATER):
            board.publish([status])
            until(partial(_tells, board, texts[status.job]))
    assert who == [here, "metrics", "metrics", "metrics"]


def _tells(board: ExpositionCache, text: bytes) -> bool:
    """Whether that is what a scrape is answered with."""
    return board.read(Form()) == text


def test_what_nobody_asks_for_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks again, or for the first time, is told what is so now: also where the
    text was made for the sake of another form."""
    monkeypatch.setattr(module, "APART_SECONDS", 0.0)
    plain, gzipped = Form(openmetrics=True), Form(openmetrics=True, gzipped=True)
    with ExpositionCache() as board:
        board.publish([STATUS])
        board.read(gzipped)
        monkeypatch.setattr(module, "WANTED_SECONDS", -1.0)
        board.publish([LATER])
        until(lambda: not board._wanted)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(module, "WANTED_SECONDS", 600.0)
        told = board.read(plain)
        assert told is not None
        assert b'run="b"' in told
        assert b'run="a"' not in told
        assert gzip.decompress(board.read(gzipped) or b"") == told
