"""The read-only page: a box, its jobs and its incidents, drawn from what who asks may see."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote

from supervisor.cli.sources.box_source import BoxSource, UnseenError
from supervisor.core.jobs.accounting.progress_series import (
    ProgressPoint,
    ProgressSeries,
    series_from_json,
)
from supervisor.core.jobs.job_status import state_words
from supervisor.core.text.units import local_time
from supervisor.web.box_view import gpus_part, history_part, jobs_part
from supervisor.web.document import Section, asset, document
from supervisor.web.incident_view import incident_title
from supervisor.web.markup import Element, Redaction, as_it_is, render, tag
from supervisor.web.page_server import SCRIPT, Answered, as_json
from supervisor.web.report_page import (
    incident_sections,
    run_about,
    run_sections,
    run_title,
)
from supervisor.web.run_view import RunDossier, incidents_part


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What is shown at one address."""

    title: str
    about: str
    stage: str
    """Said aloud when it becomes another."""
    sections: list[Section]

    @property
    def drawn(self) -> list[Section]:
        """Those that are not empty."""
        return [s for s in self.sections if any(part is not None for part in s.content)]


@dataclass(kw_only=True)
class BoxSite:
    """Answers a path. Looks anew each time, and keeps what it saw of attempts that run."""

    source: Callable[[], BoxSource]
    """Asked each time: a daemon may come, or go."""
    place: Redaction = as_it_is
    """Makes suggested commands such as work where they are pasted."""
    seen: defaultdict[tuple[str, str], ProgressSeries] = field(
        default_factory=lambda: defaultdict[tuple[str, str], ProgressSeries](
            ProgressSeries
        )
    )
    """By job and beginning of the attempt."""

    def __call__(self, path: str) -> Answered:
        """What is there."""
        if path == "/assets/live.js":
            return Answered(body=asset("live.js"), kind=SCRIPT)
        data, place = path.startswith("/api/"), path.removeprefix("/api")
        depth = place.count("/") - 1
        try:
            screen = self._screen(place)
        except UnseenError as error:
            return _missing(str(error), depth=depth)
        if data:
            return as_json(
                {
                    "title": screen.title,
                    "about": screen.about,
                    "stage": screen.stage,
                    "parts": [
                        {"id": one.id, "html": render(one.draw(), redact=self.place)}
                        for one in screen.drawn
                    ],
                }
            )
        return Answered(body=_page(screen, place, depth=depth, redact=self.place))

    def _screen(self, place: str) -> Screen:
        source = self.source()
        kind, _, name = place.strip("/").partition("/")
        name = unquote(name)
        if not kind:
            return self._box(source)
        if kind == "jobs" and name:
            return self._job(source, name)
        if kind == "incidents" and name.isascii() and name.isdigit() and len(name) < 19:
            return _incident(source, int(name))
        message = "There is no such page."
        raise UnseenError(message)

    def _box(self, source: BoxSource) -> Screen:
        jobs, incidents = source.jobs(), source.incidents()
        told_by = "its daemon" if source.client is not None else str(source.where)
        running = sum(job["state"] == "running" for job in jobs)
        return Screen(
            title="Jobs and incidents",
            about=f"As {told_by} tells it.",
            stage=f"{running} of {len(jobs)} jobs run; {len(incidents)} incidents.",
            sections=[
                Section(id="jobs", title="Jobs", content=[jobs_part(jobs)]),
                Section(
                    id="incidents",
                    title="Incidents",
                    content=[incidents_part(incidents, link="incidents/{}".format)],
                ),
                Section(id="gpus", title="GPUs", content=[gpus_part(source.gpus())]),
                Section(
                    id="history",
                    title="History",
                    content=[history_part(source.history())],
                ),
            ],
        )

    def _job(self, source: BoxSource, name: str) -> Screen:
        dossier = self._with_now(source.run(name))
        state = state_words(str(dossier.run["state"]))
        return Screen(
            title=run_title(dossier),
            about=run_about(dossier),
            stage=f"{name}: {state}, attempt {dossier.status['attempt']}.",
            sections=run_sections(dossier, link="../incidents/{}".format),
        )

    def _with_now(self, dossier: RunDossier) -> RunDossier:
        """The ledger has the newest attempt up to some time ago: what this page saw since
        goes on from there."""
        if dossier.status["pid"] is None or not dossier.attempts:
            return dossier
        newest = dossier.attempts[-1]
        key = (dossier.job, str(newest["began_at"]))
        now = seconds_since(newest["began_at"])
        self.seen[key] = self.seen[key].with_point(point_now(dossier.status, now))
        stored = series_from_json(newest["series"])
        for point in self.seen[key].points:
            if point.seconds > stored.seconds:
                stored = stored.with_point(point)
        lasted = max(now, newest["seconds"] or 0.0)
        longer = {**newest, "series": stored.to_json(), "seconds": lasted}
        return replace(dossier, attempts=[*dossier.attempts[:-1], longer])


def seconds_since(utc: str) -> float:
    """How long ago that was."""
    return (datetime.now(UTC) - datetime.fromisoformat(utc)).total_seconds()


def point_now(status: Mapping[str, Any], seconds: float) -> ProgressPoint:
    """A job's status as a point of its curves."""
    allocator: Mapping[str, Any] = status["allocator"] or {}
    return ProgressPoint(
        seconds=round(max(seconds, 0.0), 3),
        step=status["step"],
        epoch=status["epoch"],
        loss=status["loss"],
        loss_step=None if status["loss"] is None else status.get("loss_step"),
        step_seconds=status["step_seconds"],
        device_bytes=status["memory_in_use_bytes"],
        pool_bytes=allocator.get("pool_bytes"),
        limit_bytes=status["memory_limit_bytes"],
        largest_free_bytes=allocator.get("largest_free_bytes"),
        host_bytes=status["host_rss_bytes"],
    )


def _incident(source: BoxSource, number: int) -> Screen:
    dossier = source.incident(number)
    incident = dossier.incident
    return Screen(
        title=incident_title(incident),
        about=f"attempt {incident['attempt']} · {local_time(incident['at'])}",
        stage="",
        sections=incident_sections(dossier),
    )


def _page(screen: Screen, place: str, *, depth: int, redact: Redaction) -> str:
    up = "../" * depth
    last = quote(unquote(place.rpartition("/")[2]), safe="")
    data = f"{up}api{place.rpartition('/')[0]}/{last}"
    return document(
        title=screen.title,
        about=[
            tag("p", screen.about, class_="note", id="about"),
            tag("p", id="news", role="status"),
        ],
        sections=screen.sections,
        navigation=_navigation(screen.drawn, up=up),
        footer=tag("p", "Read only. ", tag("span", id="seen")),
        script=f"{up}assets/live.js",
        live=data,
        redact=redact,
    )


def _navigation(sections: Sequence[Section], *, up: str) -> Element:
    links = [(one.title, f"#{one.id}") for one in sections]
    if up:
        links.insert(0, ("All jobs", up))
    items = [tag("li", tag("a", title, href=href)) for title, href in links]
    return tag("nav", tag("ul", items), aria_label="Pages and parts")


def _missing(sentence: str, *, depth: int) -> Answered:
    up = "../" * depth
    body = document(
        title="Nothing to see here",
        about=tag("p", sentence),
        sections=[],
        navigation=_navigation([], up=up or "./"),
        footer=tag("p", "Read only."),
        script=f"{up}assets/live.js",
    )
    return Answered(body=body, status=HTTPStatus.NOT_FOUND)
