"""A screen of ``top``: a line about the box, a page, a line about the keys.

Pure: what is looked at and what is known become lines, no more and no wider than the
screen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.cells import cell_len

from supervisor.cli.views.top.gauges import RecentSamples
from supervisor.cli.views.top.job_columns import job_table
from supervisor.cli.views.top.job_details import job_details, wrapped
from supervisor.cli.views.top.job_listing import (
    ListedJob,
    SortKey,
    filtered_jobs,
    sorted_jobs,
)
from supervisor.cli.views.top.log_lines import LogTail, log_lines
from supervisor.cli.views.top.spans import (
    Span,
    SpanLine,
    Tone,
    cropped_line,
    one_line,
    toned,
)
from supervisor.cli.views.top.top_view import TopPage, TopReach, TopView
from supervisor.core.text.units import format_duration

HELP = (
    "↑ ↓ j k  select a job, or scroll; also PgUp PgDn Space Home End g G",
    "Enter    open the selected job",
    "l        the end of its log, live; scrolled up it stands still",
    "q Esc    back; in the list: end (Esc clears a filter first)",
    "/        filter by name, owner or state; Enter keeps it, Esc clears it",
    "s        sort by the next column; r: the other way round",
    "J S A    sort by job, state, attempt",
    "T M V    sort by step time, memory, age of the newest snapshot",
    "? h      these lines",
)
KEYS = {
    TopPage.JOBS: (
        "↑↓ select",
        "Enter open",
        "l log",
        "/ filter",
        "s sort",
        "? keys",
        "q end",
    ),
    TopPage.JOB: ("↑↓ scroll", "l log", "? keys", "q back"),
    TopPage.LOG: ("↑↓ scroll", "End live", "? keys", "q back"),
}
"""Where not all fit, the first go first."""
FRAME_LINES = 2
"""The first and the last; less than three lines are the page's alone."""
SILENT_SECONDS = 5.0
"""So long at least the box may not answer before it is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopNews:
    """What is known of the box, of one job in more detail, and of its log."""

    box: Mapping[str, Any]
    """In the shape of ``top --json``."""
    incidents_of: str | None = None
    incidents: Sequence[Mapping[str, Any]] = ()
    """Of that job, the newest first."""
    log: LogTail | None = None
    problem: str = ""
    """Why nothing newer is known."""
    at: float = 0.0
    """When the box was seen (monotonic seconds)."""
    every_seconds: float = 1.0
    """... and how often it is to be."""

    def old(self, silent_seconds: float) -> bool:
        """Whether a look so long ago is worth a word."""
        return silent_seconds >= max(SILENT_SECONDS, 3 * self.every_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopScene:
    """All that decides a frame."""

    view: TopView
    news: TopNews
    width: int
    height: int
    history: RecentSamples = field(default_factory=RecentSamples)
    silent_seconds: float = 0.0
    """Since the box was seen."""

    @property
    def jobs(self) -> list[ListedJob]:
        """Those that are listed."""
        view = self.view
        found = filtered_jobs(self.news.box["jobs"], view.filter)
        return sorted_jobs(found, view.sort, backwards=view.backwards)

    @property
    def framed(self) -> bool:
        """Whether there is room for more than the page."""
        return self.height > FRAME_LINES

    @property
    def room(self) -> int:
        """Lines for the page, without the heading of a table."""
        heading = 1 if self.view.page is TopPage.JOBS else 0
        taken = FRAME_LINES if self.framed else 0
        return max(self.height - taken - heading, 0)


def box_title(box: Mapping[str, Any]) -> str:
    """How many jobs there are, and who starts them."""
    jobs = f"{len(box['jobs'])} jobs"
    if box["launcher"] is None:
        return f"{jobs}, no daemon runs"
    held = sum(gpu["job"] is not None for gpu in box["gpus"])
    paused = f", paused by {box['paused_by']}" if box["paused_by"] else ""
    return f"{jobs}, {held} of {len(box['gpus'])} GPUs held{paused}"


def reach_of(scene: TopScene) -> TopReach:
    """What keys can get at."""
    if scene.view.page is TopPage.JOBS:
        names = [str(job["job"]) for job in scene.jobs]
        return TopReach(jobs=names, height=scene.room, lines=len(names))
    return TopReach(jobs=(), height=scene.room, lines=len(page_lines(scene)))


def frame(scene: TopScene) -> list[SpanLine]:
    """The lines of the screen."""
    content = _help_lines(scene) if scene.view.helping else _seen(scene)
    if scene.framed:
        room = scene.height - FRAME_LINES
        content = [*content[:room], *[()] * (room - len(content))]
        content = [_title(scene), *content, _keys(scene)]
    return [cropped_line(line, scene.width) for line in content[: scene.height]]


def page_lines(scene: TopScene) -> list[SpanLine]:
    """The whole page of the job, or of its log."""
    if scene.view.page is TopPage.LOG:
        return [(Span(line),) for line in _log(scene)]
    name, news = scene.view.job, scene.news
    found = next((job for job in news.box["jobs"] if job["job"] == name), None)
    incidents = news.incidents if news.incidents_of == name else None
    return job_details(found, incidents, scene.history, width=scene.width)


def _log(scene: TopScene) -> Sequence[str]:
    tail = _tail(scene)
    if tail is None:
        return ["…"]
    if tail.problem:
        return wrapped(one_line(tail.problem), scene.width)
    return log_lines(tail.text, scene.width)


def _tail(scene: TopScene) -> LogTail | None:
    """None: it has not been read yet."""
    log = scene.news.log
    return log if log is not None and log.job == scene.view.job else None


def _seen(scene: TopScene) -> list[SpanLine]:
    """The part of the page that is on the screen."""
    view = scene.view
    if view.page is TopPage.JOBS:
        return _jobs(scene)
    lines = page_lines(scene)
    most = max(len(lines) - scene.room, 0)
    first = min(view.scroll, most)
    if view.page is TopPage.LOG:
        first = most - first
    return lines[first : first + scene.room]


def _jobs(scene: TopScene) -> list[SpanLine]:
    jobs = scene.jobs
    lines = job_table(
        jobs, scene.view, scene.history, width=scene.width, rows=scene.room
    )
    if not jobs:
        nothing = "no job is like the filter" if scene.view.filter else "no jobs yet"
        lines.append((Span(nothing, Tone.FAINT),))
    return lines


def _help_lines(scene: TopScene) -> list[SpanLine]:
    lines = [line for text in HELP for line in _hanging(text, scene.width)]
    return [(Span(line),) for line in lines]


def _hanging(text: str, width: int) -> list[str]:
    """``text`` wrapped; what goes on is set in."""
    first, *rest = wrapped(text, width) if width < len(text) else [text]
    return [first, *(f"  {line}" for line in rest)]


def _title(scene: TopScene) -> SpanLine:
    view, news = scene.view, scene.news
    problem = _problem(scene)
    parts = [box_title(news.box)]
    if view.page is TopPage.JOB:
        parts = [str(view.job)]
    elif view.page is TopPage.LOG:
        parts = [str(view.job), *_log_state(scene)]
    else:
        if view.sort is not SortKey.GIVEN or view.backwards:
            way = " backwards" if view.backwards else ""
            parts.append(f"by {view.sort}{way}")
        if view.filter and not view.typing:
            parts.append(f"filter {view.filter!r}")
    warning = (Span(f"{one_line(problem)} · ", Tone.BAD),) if problem else ()
    return (*warning, Span(one_line(" · ".join(parts)), Tone.BOLD))


def _problem(scene: TopScene) -> str:
    if scene.news.problem:
        return scene.news.problem
    if scene.news.old(scene.silent_seconds):
        return f"as it was {format_duration(scene.silent_seconds)} ago"
    told = scene.news.box["problems"]
    return f"job file {told[0]}" if told else ""


def _log_state(scene: TopScene) -> list[str]:
    tail = _tail(scene)
    if tail is None or tail.problem:
        return ["log"]
    way = "stands still" if scene.view.scroll else "live"
    return [f"log of attempt {tail.attempt}", way]


def _keys(scene: TopScene) -> SpanLine:
    view = scene.view
    if view.typing:
        return (Span("filter: ", Tone.BOLD), Span(f"{one_line(view.filter)}_"))
    parts = ["any key: back"] if view.helping else list(KEYS[view.page])
    while len(parts) > 1 and cell_len(" · ".join(parts)) > scene.width:
        parts.pop(0)
    return toned((Span(" · ".join(parts)),), Tone.HEADING, scene.width)
