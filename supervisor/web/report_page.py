"""The report of a run or of an incident: one file that asks nobody for anything."""

from collections.abc import Callable

from supervisor.core.jobs.job_status import state_words
from supervisor.core.text.units import local_time
from supervisor.web.document import Section, contents, document
from supervisor.web.incident_view import (
    IncidentDossier,
    decision_part,
    incident_title,
    log_part,
    memory_part,
    stacks_part,
    upstream_part,
    verdict_part,
)
from supervisor.web.markup import Redaction, as_it_is, tag
from supervisor.web.run_charts import curves_part
from supervisor.web.run_view import (
    RunDossier,
    advice_part,
    attempts_part,
    incidents_part,
    summary_part,
)


def run_sections(
    dossier: RunDossier, *, link: Callable[[int], str] | None = None
) -> list[Section]:
    """The parts of a run; ``link``: to the page of an incident."""
    return [
        Section(id="summary", title="In figures", content=summary_part(dossier)),
        Section(id="advice", title="Advice", content=[advice_part(dossier)]),
        Section(id="attempts", title="Attempts", content=[attempts_part(dossier)]),
        Section(id="curves", title="Curves", content=curves_part(dossier), charts=True),
        Section(
            id="incidents",
            title="Incidents",
            content=[incidents_part(dossier.incidents, link=link)],
        ),
    ]


def incident_sections(dossier: IncidentDossier) -> list[Section]:
    """The parts of an incident."""
    return [
        Section(id="verdict", title="What happened", content=verdict_part(dossier)),
        Section(id="memory", title="Memory", content=memory_part(dossier)),
        Section(id="decision", title="What was done", content=decision_part(dossier)),
        Section(id="stacks", title="Stacks", content=stacks_part(dossier)),
        Section(id="log", title="Log", content=log_part(dossier)),
        Section(
            id="upstream", title="To say it upstream", content=upstream_part(dossier)
        ),
    ]


def run_title(dossier: RunDossier) -> str:
    """What it is about."""
    return f"{dossier.job}, run {dossier.run['run']}"


def run_about(dossier: RunDossier) -> str:
    """Whose it is, and when."""
    run = dossier.run
    versions = ", ".join(f"{n} {v}" for n, v in dossier.versions.items())
    until = "" if run["ended_at"] is None else f" to {local_time(run['ended_at'])}"
    parts = [
        state_words(run["state"]),
        f"{local_time(run['began_at'])}{until}",
        str(run["user"] or ""),
        versions,
    ]
    return " · ".join(part for part in parts if part)


def run_report(dossier: RunDossier, *, made: str, redact: Redaction = as_it_is) -> str:
    """The file; ``made``: when, and by whom."""
    sections = _drawn(run_sections(dossier))
    return document(
        title=run_title(dossier),
        about=tag("p", run_about(dossier), class_="note"),
        sections=sections,
        navigation=contents(sections),
        footer=tag("p", made),
        redact=redact,
    )


def incident_report(
    dossier: IncidentDossier, *, made: str, redact: Redaction = as_it_is
) -> str:
    """The file; ``made``: when, and by whom."""
    sections = _drawn(incident_sections(dossier))
    about = (
        f"attempt {dossier.incident['attempt']} · {local_time(dossier.incident['at'])}"
    )
    return document(
        title=incident_title(dossier.incident),
        about=tag("p", about, class_="note"),
        sections=sections,
        navigation=contents(sections),
        footer=tag("p", made),
        redact=redact,
    )


def _drawn(sections: list[Section]) -> list[Section]:
    return [one for one in sections if any(part is not None for part in one.content)]
