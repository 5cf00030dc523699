"""The page of one job in ``top``: all that is known of it, and its newest incidents."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from supervisor.cli.command_hint import command_hint
from supervisor.cli.views.progress import (
    ago,
    error_line,
    phase_in_brackets,
    plan_line,
    remedy_lines,
    remote_line,
    slice_trial,
    stillness,
)
from supervisor.cli.views.top.gauges import RecentSamples, sparkline
from supervisor.cli.views.top.job_columns import (
    STATE_TONES,
    memory_gauge,
    memory_tone,
    step_time,
)
from supervisor.cli.views.top.job_listing import ListedJob, shown_state
from supervisor.cli.views.top.spans import Span, SpanLine, Tone, one_line
from supervisor.core.diagnosis.explain import own_text, summarise_incident
from supervisor.core.jobs.job_status import JobStatus, status_from_json
from supervisor.core.text.units import format_duration, format_loss_at, format_size

LABEL_CELLS = 12
BAR_CELLS = 20
MOST_INCIDENTS = 20
UNKNOWN = "a newer version tells of this job, which this one does not understand"

DetailFact = tuple[str, str, Tone]
"""What it is about, the text, and its tone."""


def job_details(
    job: ListedJob | None,
    incidents: Sequence[Mapping[str, Any]] | None,
    history: RecentSamples,
    *,
    width: int,
) -> list[SpanLine]:
    """The lines of the page, each at most ``width`` cells wide. ``job`` None: it is not
    there any more; ``incidents``: the newest first, None: they are not known yet."""
    blank = ("", "", Tone.NORMAL)
    facts = (*job_facts(job, history), blank, *_incidents(incidents))
    return [line for fact in facts for line in _lines(fact, width)]


def _incidents(incidents: Sequence[Mapping[str, Any]] | None) -> Iterator[DetailFact]:
    if not incidents:
        yield "incidents", "…" if incidents is None else "none", Tone.FAINT
        return
    shown = incidents[:MOST_INCIDENTS]
    for at, one in enumerate(shown):
        yield "" if at else "incidents", summarise_incident(one), Tone.NORMAL
        told = own_text(one["because"])
        if told:
            hint = command_hint("explain", str(one["id"]))
            yield "", f"{told} ({hint})", Tone.FAINT
    if len(incidents) > len(shown):
        rest = f"{len(incidents) - len(shown)} older ones: {command_hint('incidents')}"
        yield "", rest, Tone.FAINT


def job_facts(job: ListedJob | None, history: RecentSamples) -> Iterator[DetailFact]:
    """What is known, without what is not."""
    if job is None:
        yield "", "it is not on the list any more", Tone.WARNING
        return
    try:
        status = status_from_json(job)
    except (ValueError, TypeError, KeyError):
        yield "", UNKNOWN, Tone.WARNING
        return
    parts = (
        *_where(status, job),
        *_speed(status, job, history),
        *_memory(status, job, history),
        *_saved(status),
        *_promised(status),
        *_remedies(status),
    )
    yield from (fact for fact in parts if fact[1])


def _where(status: JobStatus, job: ListedJob) -> Iterator[DetailFact]:
    state = f"{shown_state(job)}{phase_in_brackets(status)}"
    yield "state", state, STATE_TONES.get(str(status.state), Tone.NORMAL)
    yield "", status.message, Tone.NORMAL
    error = error_line(status)
    yield "error", error, Tone.BAD
    if error:
        yield "", f"more: {command_hint('logs', status.job)}", Tone.FAINT
    priority = f", priority {job['priority']}" if "priority" in job else ""
    yield "owner", f"{job.get('owner') or ''}{priority}", Tone.NORMAL
    yield "GPUs", ", ".join(job.get("gpus") or ()), Tone.NORMAL
    process = "" if status.pid is None else f", process {status.pid}"
    yield "attempt", f"{status.attempt}{process}", Tone.NORMAL


def _speed(
    status: JobStatus, job: ListedJob, history: RecentSamples
) -> Iterator[DetailFact]:
    if status.epoch is not None:
        epoch = f"{status.epoch + 1} of {status.epochs or '?'}"
        if status.step_in_epoch is not None:
            epoch += f", step {status.step_in_epoch} of {status.steps_per_epoch or '?'}"
        yield "epoch", epoch, Tone.NORMAL
    if status.step is not None:
        yield "step", str(status.step), Tone.NORMAL
    loss = None if status.loss is None else f"{status.loss:.6g}"
    told = format_loss_at(loss, of_step=status.loss_step, step=status.step)
    yield "loss", told, Tone.NORMAL
    yield "", stillness(status), Tone.WARNING
    trend = sparkline(history.seconds[status.job])
    yield "step time", f"{step_time(job)} {trend}".strip(), Tone.NORMAL
    if status.effective_batch is not None:
        yield "batch", f"{status.effective_batch}{_cut(status)}", Tone.NORMAL


def _cut(status: JobStatus) -> str:
    if status.slice_trial is not None:
        return f", {slice_trial(status)}"
    return f" in {status.slices} slices" if (status.slices or 0) > 1 else ""


def _memory(
    status: JobStatus, job: ListedJob, history: RecentSamples
) -> Iterator[DetailFact]:
    trend = sparkline(history.memory[status.job])
    gauge = memory_gauge(job, BAR_CELLS)
    used = f"{gauge} between steps" if gauge else ""
    yield "memory", f"{used} {trend}".strip(), memory_tone(job)
    if status.memory_peak_bytes is not None:
        yield "step peak", format_size(status.memory_peak_bytes), Tone.NORMAL
    if status.run_peak_bytes is not None:
        yield "run peak", format_size(status.run_peak_bytes), Tone.NORMAL
    yield "allocator", _allocator(status), Tone.NORMAL
    for resource, seconds in status.forecast_seconds.items():
        soon = f"{resource} memory runs out in about {format_duration(seconds)}"
        yield "forecast", soon, Tone.WARNING
    if status.host_rss_bytes is not None:
        yield "main memory", format_size(status.host_rss_bytes), Tone.NORMAL
    if status.heartbeat_age_seconds is not None:
        beat = f"{format_duration(status.heartbeat_age_seconds)} ago"
        yield "heartbeat", beat, Tone.NORMAL


def _allocator(status: JobStatus) -> str:
    """Its figures, as far as they are known."""
    known = status.allocator
    if known is None:
        return ""
    sizes = {
        "pool": known.pool_bytes,
        "largest free block": known.largest_free_bytes,
        "largest tensor that fits": known.largest_allocatable_bytes,
        "largest request": known.largest_request_bytes,
    }
    parts = [f"{n} {format_size(s)}" for n, s in sizes.items() if s is not None]
    if known.fragmentation is not None:
        parts.append(f"fragmentation {known.fragmentation:.0%}")
    if known.source == "estimate":
        parts.append("estimated")
    return ", ".join(parts)


def _saved(status: JobStatus) -> Iterator[DetailFact]:
    saved = "none yet"
    if status.snapshot is not None:
        saved = f"step {status.snapshot.step}, {ago(status.snapshot.age_seconds)}"
    yield "snapshot", saved, Tone.NORMAL
    for name, tier in status.tiers.items():
        if tier.age_seconds is not None:
            size = (
                "" if tier.size_bytes is None else f", {format_size(tier.size_bytes)}"
            )
            failed = f", {tier.failures} failed" if tier.failures else ""
            told = f"{name}: {format_duration(tier.age_seconds)} ago{size}{failed}"
            yield "", told, Tone.NORMAL
    if status.snapshot_plan is not None:
        yield "", plan_line(status.snapshot_plan), Tone.NORMAL
    if status.remote is not None:
        yield "remote", remote_line(status.remote), Tone.NORMAL
    if status.standby is not None:
        yield "standby", status.standby, Tone.NORMAL


def _promised(status: JobStatus) -> Iterator[DetailFact]:
    promise = ""
    if status.promise:
        call = status.promise_fit
        of = f" (call {call + 1} of fit)" if call else ""
        promise = f"bit-identical resume is not promised{of}: {status.promise}"
    elif status.exact:
        promise = "bit-identical resume"
    yield "promise", promise, Tone.NORMAL
    yield "proof", status.proof or "", Tone.NORMAL


def _remedies(status: JobStatus) -> Iterator[DetailFact]:
    for at, line in enumerate(remedy_lines(status)):
        yield "" if at else "remedies", line, Tone.NORMAL
    counts = [f"{cause} {times}" for cause, times in status.restarts.items()]
    yield "restarts", ", ".join(counts), Tone.NORMAL


def _lines(fact: DetailFact, width: int) -> Iterator[SpanLine]:
    """A fact in as many lines as it takes, beside its label, or below it where there is
    no room beside."""
    label, text, tone = fact
    narrow = width < 3 * LABEL_CELLS
    room = max(width - (2 if narrow else LABEL_CELLS), 1)
    lines = wrapped(one_line(text), room) or [""]
    if narrow:
        if label:
            yield (Span(label[:width], Tone.BOLD),)
        yield from ((Span("  "), Span(line, tone)) for line in lines)
        return
    for at, line in enumerate(lines):
        begin = "" if at else label
        yield (Span(begin.ljust(LABEL_CELLS), Tone.BOLD), Span(line, tone))


def wrapped(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` cells, ended at words where they can be."""
    most = width
    while True:
        lines = textwrap.wrap(text, most)
        if most == 1 or all(cell_len(line) <= width for line in lines):
            return lines
        most = max(most * 3 // 4, 1)
