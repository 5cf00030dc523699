"""What is found out beside the loop."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from supervisor.cli.sources.box_reader import BoxReader
from supervisor.cli.sources.box_source import BoxSource, UnseenError
from supervisor.cli.views.top.log_lines import LogTail
from supervisor.cli.views.top.top_frame import TopNews
from supervisor.cli.views.top.top_screen import TopWish
from tests.support.listed_jobs import box_of, listed

PATIENCE = 60.0


@dataclass(frozen=True, kw_only=True)
class ToldSource(BoxSource):
    """Tells these, or raises."""

    client: None = None
    where: Path = Path()
    found: dict[str, Any] = field(default_factory=lambda: box_of(listed("new")))
    error: Exception | None = None

    @override
    def box(self) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return self.found

    @override
    def incidents(self, job: str | None = None) -> list[dict[str, Any]]:
        return [{"id": 1, "job": job}, {"id": 2, "job": job}]

    @override
    def log_tail(self, name: str) -> LogTail:
        return LogTail(job=name, attempt=1, text="said")


def news_of(source: BoxSource, wish: TopWish) -> TopNews:
    """What is known after one look."""
    told = threading.Event()
    reader = BoxReader(
        lambda: source, box_of(listed("old")), every_seconds=60.0, tell=told.set
    )
    assert reader.news.box["jobs"][0]["job"] == "old"
    with reader:
        reader.want(wish)
        assert told.wait(PATIENCE)
        return reader.news


def test_what_is_wished_for_is_found_out_at_once() -> None:
    """Not only when the next look at the box is due; the newest incident first."""
    news = news_of(ToldSource(), TopWish(details_of="a"))
    assert news.box["jobs"][0]["job"] == "new"
    assert (news.incidents_of, [one["id"] for one in news.incidents]) == ("a", [2, 1])
    news = news_of(ToldSource(), TopWish(log_of="a"))
    assert news.log == LogTail(job="a", attempt=1, text="said")


def test_what_cannot_be_seen_is_said() -> None:
    """And what was known stays."""
    source = ToldSource(error=UnseenError("no daemon answers"))
    news = news_of(source, TopWish(log_of="a"))
    assert news.problem == "no daemon answers"
    assert news.box["jobs"][0]["job"] == "old"
    assert news.log is not None


def test_what_nobody_expected_ends_the_loop() -> None:
    """It is raised where it is seen, not lost in a thread."""
    with pytest.raises(ZeroDivisionError):
        news_of(ToldSource(error=ZeroDivisionError()), TopWish(log_of="a"))
