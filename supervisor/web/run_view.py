"""A run to look at: figures, where its time went, attempts, incidents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from supervisor.core.diagnosis.explain import WITHOUT, incident_headline, own_text
from supervisor.core.diagnosis.result import AskedEnd, remedy_words
from supervisor.core.diagnosis.stack_traces import current_thread
from supervisor.core.jobs.job_status import state_words
from supervisor.core.memory.step_budget import budget_from_json
from supervisor.core.memory.step_budget import sentence as step_sentence
from supervisor.core.metrics.run_counters import BETWEEN
from supervisor.core.text.units import (
    counted,
    format_duration,
    format_loss_at,
    format_size,
    local_time,
)
from supervisor.web.attempt_evidence import EpochLogs
from supervisor.web.line_chart import (
    scrolling,
)
from supervisor.web.markup import Element, Node, tag
from supervisor.web.phase_bar import TimeSpent, phase_figure
from supervisor.web.scales import figure, seconds_text

MOST_STACK = 4096
"""Characters of a stack in a list."""
LISTED = 50
"""Attempts and incidents that are listed, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDossier:
    """What is known of a run, in the shapes that the control interface has."""

    run: dict[str, Any]
    """``RunSummary``."""
    attempts: list[dict[str, Any]]
    """``AttemptRecord``."""
    status: dict[str, Any]
    incidents: list[dict[str, Any]]
    """Of this run."""
    epochs: dict[int, tuple[EpochLogs, ...]] = field(
        default_factory=dict[int, tuple[EpochLogs, ...]]
    )
    """By the attempt."""
    versions: dict[str, str] = field(default_factory=dict[str, str])
    spec: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def job(self) -> str:
        """Its name."""
        return str(self.run["job"])


def seconds_between(earlier: str, later: str) -> float:
    """Of two times in UTC."""
    first, second = datetime.fromisoformat(earlier), datetime.fromisoformat(later)
    return (second - first).total_seconds()


def summary_part(dossier: RunDossier) -> list[Node]:
    """The figures, and where the time went."""
    run, status = dossier.run, dossier.status
    spent = spent_of(dossier)
    return [
        tiles(figures_of(dossier, spent)),
        tag("p", goodput_note(spent), class_="note") if goodput_note(spent) else None,
        phase_figure(spent),
        tag(
            "p",
            tag("strong", "Bits: "),
            f"a bit-identical resume is not promised: {status['promise']}.",
        )
        if status.get("promise")
        else None,
        tag("p", tag("strong", "Proof: "), f"{status['proof']}.")
        if status.get("proof")
        else None,
        *step_part(status),
        None
        if run["state"] != "gave_up"
        else tag("p", str(status.get("message") or "")),
        _error_part(dossier),
    ]


def step_part(status: Mapping[str, Any]) -> list[Node]:
    """What a step needs of memory, and a row of its parts; nothing where that is not told."""
    told: Mapping[str, Any] | None = status.get("step_needs")
    if told is None:
        return []
    budget = budget_from_json(told)
    rows = {one.name: format_size(one.bytes) for one in budget.parts}
    return [
        tag("p", tag("strong", "Memory: "), f"{step_sentence(budget)}."),
        tiles(rows),
    ]


def error_text(status: Mapping[str, Any]) -> str:
    """What the newest attempt of a job that failed said itself; empty: none did, or the run
    came to its end all the same."""
    error: Mapping[str, Any] | None = status.get("last_error")
    if error is None or status["state"] == "finished":
        return ""
    return f"attempt {error['attempt']} ended by {error['cause']}: {error['text']}"


def _error_part(dossier: RunDossier) -> Element | None:
    error = error_text(dossier.status)
    if not error:
        return None
    more = f" All that it printed: `trainwarden logs {dossier.job}`."
    return tag("p", tag("strong", "Error: "), f"{error}.", tag("span", more))


def advice_part(dossier: RunDossier) -> Element | None:
    """What makes it slower than it need be, and what to do; None: nothing was seen."""
    advisories: Sequence[Mapping[str, Any]] = dossier.status.get("advisories") or ()
    if not advisories:
        return None
    items = [
        tag(
            "li",
            tag("strong", str(one["kind"]).replace("_", " ")),
            tag(
                "span",
                f"{'' if one['active'] else 'seen in '}attempt {one['attempt']}",
                class_="note",
            ),
            tag("span", f"{one['sentence']}."),
            tag("span", str(one["advice"])),
        )
        for one in advisories
    ]
    return tag("ol", items, class_="incidents")


GOODPUT = "goodput (time in steps that counted)"
USUAL_START_SECONDS = 60.0
"""Imports and data take no longer, as a rule."""
UNCOUNTED_SHARE = 0.05
"""So much of the time outside of fit may have been training that nobody counted."""


def spent_of(dossier: RunDossier) -> TimeSpent:
    """Of the whole run, without the time in which it was drained, or nobody looked after
    it; of one that was interrupted what its attempts took."""
    run = dossier.run
    phases: dict[str, float] = dossier.status.get("phase_seconds") or {}
    elapsed, attempts = run["elapsed_seconds"], run["attempt_seconds"]
    if elapsed and attempts:
        between = sum(phases.get(name, 0.0) for name in BETWEEN.values())
        # An older version did not keep it; what passed within attempts is in theirs.
        between = between or run["downtime_seconds"] or 0.0
        elapsed = min(elapsed, attempts + between)
    elapsed = elapsed or attempts or 0.0
    return TimeSpent(
        phases=phases,
        elapsed_seconds=elapsed,
        steps=sum(dossier.status.get("step_counts") or ()),
        step_seconds=dossier.status.get("step_seconds_sum") or 0.0,
        attempts=run["attempts"] or 1,
    )


def figures_of(dossier: RunDossier, spent: TimeSpent) -> dict[str, str]:
    """The figures, named; what is not known is left out."""
    run, status = dossier.run, dossier.status
    return _known(
        ("state", str(run["state"]), state_words),
        ("elapsed", run["elapsed_seconds"], format_duration),
        ("between its commands", run.get("paused_seconds") or None, format_duration),
        (GOODPUT, goodput_text(spent), str),
        ("attempts", run["attempts"], str),
        ("incidents", run["incidents"], str),
        ("steps", status.get("step"), "{:,}".format),
        ("loss", loss_text(status) or None, str),
        ("step time", status.get("step_seconds"), seconds_text),
        ("device memory, run peak", run["device_peak_bytes"], format_size),
        ("its limit", run.get("device_limit_bytes"), format_size),
        ("main memory, run peak", run["host_peak_bytes"], format_size),
        ("GPU time", run["gpu_seconds"] or None, format_duration),
        ("steps done again", run["lost_steps"], str),
        ("without a step", run["downtime_seconds"], format_duration),
    )


def goodput_text(spent: TimeSpent) -> str | None:
    """How much is known of it: what a script trains in loops of its own that nobody counts
    is in none of the steps, and may be all that it did outside of them."""
    if spent.elapsed_seconds <= 0:
        return None
    if spent.goodput is None:
        return "unknown: no steps were counted"
    least = "at least " if _uncounted(spent) else ""
    return f"{least}{spent.goodput:.0%}"


WHAT_COUNTS = (
    "Goodput: the time in steps, each timed by itself, and in validation, without steps"
    " done again, as a part of all the time below."
)
WHY_AT_LEAST = (
    " At least: much of the time passed before the first step, or outside of fit, where a"
    " loop of the script's own may have trained that nobody counts."
)


def goodput_note(spent: TimeSpent) -> str:
    """What the figure counts, and why there may be more; empty: there is none."""
    if spent.elapsed_seconds <= 0 or spent.goodput is None:
        return ""
    return WHAT_COUNTS + (WHY_AT_LEAST if _uncounted(spent) else "")


def _uncounted(spent: TimeSpent) -> bool:
    """Whether much was spent where nobody counts steps."""
    # A loop that nobody counts is in the phase of what comes before the first step too.
    start = spent.phases.get("starting", 0.0) - USUAL_START_SECONDS * spent.attempts
    uncounted = spent.phases.get("between", 0.0) + max(start, 0.0)
    return uncounted / spent.elapsed_seconds >= UNCOUNTED_SHARE


def _known(*given: tuple[str, Any, Callable[[Any], str]]) -> dict[str, str]:
    return {name: form(value) for name, value, form in given if value is not None}


def loss_text(status: Mapping[str, Any]) -> str:
    """The loss of a job; empty: there is none."""
    loss = status.get("loss")
    return format_loss_at(
        None if loss is None else figure(loss),
        of_step=status.get("loss_step"),
        step=status.get("step"),
    )


def tiles(figures: Mapping[str, str]) -> Element:
    """Named figures, side by side."""
    return tag(
        "dl",
        [
            tag(
                "div",
                tag("dt", name),
                tag(
                    "dd",
                    value,
                    class_=f"is-{value.replace(' ', '-')}" if name == "state" else None,
                ),
            )
            for name, value in figures.items()
        ],
        class_="tiles",
    )


def attempts_part(dossier: RunDossier) -> Element:
    """The attempts, each with its place in the run's time."""
    shown = dossier.attempts[-LISTED:]
    if not shown:
        return tag("p", "No attempt has begun yet.")
    began = shown[0]["began_at"]
    spans = [_span(one, began) for one in shown]
    whole = max(end for _, end in spans) or 1.0
    rows = [
        _attempt_row(one, span, whole, dossier)
        for one, span in zip(shown, spans, strict=True)
    ]
    paused = ", and between its commands" if dossier.run.get("paused_seconds") else ""
    heads = (
        "attempt",
        f"when, in the time of the run{paused}",
        "began",
        "lasted",
        "steps",
        "ended by",
        "answer",
    )
    table = tag(
        "table",
        tag("thead", tag("tr", [tag("th", head, scope="col") for head in heads])),
        tag("tbody", rows),
        class_="attempts",
    )
    return scrolling("Attempts", table)


def _span(one: Mapping[str, Any], began: str) -> tuple[float, float]:
    start = seconds_between(began, one["began_at"])
    return start, start + (one["seconds"] or 0.0)


BAR = 300


def _attempt_row(
    one: Mapping[str, Any],
    span: tuple[float, float],
    whole: float,
    dossier: RunDossier,
) -> Element:
    start, end = (at / whole * BAR for at in span)
    cause, over = one["cause"], dossier.run["exit_code"] is not None
    kind = "good" if cause == "none" else ("bad" if cause else "open")
    kind = "asked" if cause == "preempted" else kind
    bar = tag(
        "svg",
        tag("rect", x=0, y=6, width=BAR, height=2, class_="track"),
        tag(
            "rect",
            x=start,
            y=1,
            width=max(end - start, 1.5),
            height=12,
            class_=f"span {kind}",
        ),
        viewBox=f"0 0 {BAR} 14",
        preserveAspectRatio="none",
        aria_hidden="true",
        class_="bar",
    )
    lasted = "" if one["seconds"] is None else format_duration(one["seconds"])
    return tag(
        "tr",
        tag("th", str(one["attempt"]), scope="row"),
        tag("td", bar),
        tag("td", local_time(one["began_at"])),
        tag("td", lasted),
        tag("td", steps_text(one, dossier)),
        tag("td", ended_by(one, over=over)),
        tag("td", remedy_words(one["remedy"]) if one["remedy"] else ""),
    )


def ended_by(one: Mapping[str, Any], *, over: bool) -> str:
    """What ended an attempt, in words. ``over``: its run is."""
    if one.get("asked") in set(AskedEnd):
        return AskedEnd(one["asked"]).words
    if one["cause"] == "none":
        return "finished"
    how = one["cause"] or ("not known" if over else "it runs")
    return str(how).replace("_", " ")


def steps_text(one: Mapping[str, Any], dossier: RunDossier) -> str:
    """From which step to which an attempt went; of one that runs, to where it is now. Empty:
    neither is known."""
    restored, last = one["restored_step"], one["last_step"]
    status = dossier.status
    if last is None and one["cause"] is None and one["attempt"] == status["attempt"]:
        last = status["step"]
    if restored is None and last is None:
        return ""
    return f"{restored or 0} → {'?' if last is None else last}"


def incidents_part(
    incidents: Sequence[Mapping[str, Any]], *, link: Callable[[int], str] | None = None
) -> Element:
    """A list of them, the newest first."""
    if not incidents:
        return tag("p", "No incidents.")
    items = [_incident(one, link) for one in list(incidents)[::-1][:LISTED]]
    return tag("ol", items, class_="incidents")


def _incident(one: Mapping[str, Any], link: Callable[[int], str] | None) -> Element:
    headline = f"{incident_headline(one)}"
    title: Node = f"#{one['id']} {headline}"
    if link is not None:
        title = tag("a", title, href=link(one["id"]))
    step = "" if one["failed_step"] is None else f", after step {one['failed_step']}"
    where = f"{one['job']}, attempt {one['attempt']}{step} · {local_time(one['at'])}"
    why = own_text(one["because"], most=300)
    remedy = one["remedy"]
    because = f": {remedy['because']}" if remedy["because"] else ""
    lost = outcome_text(one)
    return tag(
        "li",
        tag("strong", title),
        tag("span", where, class_="note"),
        tag("span", why) if why else None,
        _crashed_thread(one),
        tag("span", f"Answer: {remedy_words(remedy['kind'])}{because}."),
        tag("span", lost) if lost else None,
    )


def _crashed_thread(one: Mapping[str, Any]) -> Element | None:
    """Its stack, where native code crashed; all threads are in the report of the incident."""
    stack = current_thread(str(one.get("stacks") or ""))[:MOST_STACK]
    name = f"Stack of the crash, incident {one['id']}"
    return (
        tag("pre", stack, tabindex=0, role="region", aria_label=name) if stack else None
    )


def outcome_text(one: Mapping[str, Any]) -> str:
    """What came of the answer; empty while nothing did."""
    down = one["downtime_seconds"]
    if one["restored_step"] is None:
        return "" if down is None else f"{format_duration(down)} passed {WITHOUT}."
    said = f"Training went on from step {one['restored_step']}"
    if one["lost_steps"] is not None:
        said += f"; {counted(one['lost_steps'], 'step')} done again"
    if down is not None:
        said += f"; {format_duration(down)} {WITHOUT}"
    return said + "."
