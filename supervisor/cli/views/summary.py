"""What is printed when a run is over."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from supervisor.cli.command_hint import command_hint
from supervisor.core.diagnosis.explain import own_text, summarise_incident
from supervisor.core.diagnosis.result import IncidentKind
from supervisor.core.jobs.accounting.run_summary import RunSummary, lost_text
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.lifecycle.exit_handling import (
    EXIT_DRAINED,
    EXIT_FINISHED,
    EXIT_GAVE_UP,
)
from supervisor.core.text.plain import plain
from supervisor.core.text.units import format_duration, format_size
from supervisor.host.ledger.ledger import IncidentRow
from supervisor.host.snapshots.snapshot_catalog import newest_step
from supervisor.wire.event_file import EventReader, RecordKind
from supervisor.wire.files import read_json
from supervisor.wire.paths import AttemptPaths, RunPaths
from supervisor.wire.records.end_records import CrashReport

TO_RESUME = "run the same command again to resume"
FROM_THE_TOP = (
    "nothing was saved: the same command runs the script from its top, which goes on only"
    " if the script keeps checkpoints of its own"
)
MOST_ATTEMPTS = 100
"""Of so many of the newest the figures are looked at."""
LOG_LINES = 20
LOG_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """What a run cost and came to. None: not known."""

    seconds: float | None = None
    """Of this command."""
    whole: RunSummary | None = None
    """Of all its attempts, as ``history`` tells it."""
    continued: bool = False
    """An earlier command had begun it."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of the last epoch that was trained to its end."""
    epoch: int | None = None
    """Which one that was, from 0."""

    @property
    def elapsed(self) -> str:
        """How long it took, in words, as the ledger has it, which ``status`` and
        ``history`` tell later; empty where nobody knows."""
        if self.seconds is None:
            return ""
        here = format_duration(self.seconds)
        whole = None if self.whole is None else self.whole.elapsed_seconds
        if whole is None:
            return here
        if not self.continued:
            return format_duration(whole)
        return f"{format_duration(whole)} of all its commands, {here} of this one"


def figures(
    paths: RunPaths,
    attempts: int,
    *,
    seconds: float,
    whole: RunSummary | None = None,
    continued: bool = False,
) -> RunFigures:
    """As the ledger, and the files of its newest ``attempts``, tell them."""
    found = RunFigures(seconds=seconds, whole=whole, continued=continued)
    for number in range(max(attempts - MOST_ATTEMPTS, 0) + 1, attempts + 1):
        found = _with_epoch(found, paths.attempt(number))
    return found


def _with_epoch(found: RunFigures, files: AttemptPaths) -> RunFigures:
    reader, ended = EventReader(files.events), None
    while records := reader.poll():
        of_epochs = [one for one in records if one.kind == RecordKind.EPOCH_ENDED]
        ended = of_epochs[-1] if of_epochs else ended
    if ended is None or not isinstance(ended.fields.get("logs"), dict):
        return found
    named = cast("dict[str, object]", ended.fields["logs"])
    numbers = {
        name: float(value)
        for name, value in named.items()
        if isinstance(value, (int, float))
    }
    epoch = ended.fields.get("epoch")
    return replace(
        found, metrics=numbers, epoch=epoch if type(epoch) is int else found.epoch
    )


def summary(
    status: JobStatus,
    incidents: Sequence[IncidentRow],
    paths: RunPaths,
    found: RunFigures,
    *,
    code: int,
    output_shown: bool = False,
) -> str:
    """A few lines: how it ended, what it came to and cost, what went wrong on the way,
    where to look. ``output_shown``: who reads this has seen what the script printed."""
    attempt = paths.attempt(max(status.attempt, 1))
    lines = [f"{status.job}: {status.state.words}"]
    if code == EXIT_FINISHED:
        many = f"{status.attempt} attempts" if status.attempt > 1 else "one attempt"
        lines[0] = f"{status.job}: finished in {many}"
    if code == EXIT_GAVE_UP:
        lines[0] = f"{status.job}: gave up: {status.message}"
    if found.elapsed and code != EXIT_GAVE_UP:
        lines[0] += f", {found.elapsed}"
    if code == EXIT_DRAINED:
        saved = newest_step(paths.snapshots) != 0
        lines[0] += _by_error(status, incidents)
        lines[0] += f"; {TO_RESUME if saved else FROM_THE_TOP}"
    told = [asdict(item) for item in incidents]
    lines += came_to(found, told)
    lines.append(f"  log: {attempt.output}")
    if (newest_step(paths.snapshots) or 0) > 0:
        lines.append(f"  snapshots: {paths.snapshots}")
    lines += incident_lines(told)
    if code == EXIT_GAVE_UP and incidents and incidents[-1].advice:
        lines.append(f"  what to do: {incidents[-1].advice}")
    if code == EXIT_GAVE_UP and not output_shown:
        said = last_words(attempt.crash, attempt.output)
        lines += ["", said] if said else []
    return "\n".join(lines)


def _by_error(status: JobStatus, incidents: Sequence[IncidentRow]) -> str:
    """What the last attempt ended by where it was asked to end and an error came first:
    it would most likely come again. Empty: it ended as it was asked to."""
    last = incidents[-1] if incidents else None
    if last is None or last.attempt != status.attempt:
        return ""
    raised = any(one.get("signature") == "crash" for one in last.because)
    if not raised or last.happened != IncidentKind.ENDED:
        return ""
    return f"; it ended by an error before that: {own_text(last.because)}"


def incident_lines(incidents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each in a line, and in another what failed said itself."""
    if incidents:
        yield f"  incidents ({command_hint('explain', 'ID')} tells more):"
    for one in incidents:
        yield f"    {summarise_incident(one)}"
        text = own_text(one["because"])
        if text:
            yield f"      {text}"


def came_to(found: RunFigures, incidents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What was reached, lost and needed; lost as ``history`` has it, where that is known."""
    if found.metrics:
        listed = ", ".join(
            f"{name} {value:.4g}" for name, value in found.metrics.items()
        )
        epoch = "" if found.epoch is None else f" (epoch {found.epoch + 1})"
        yield f"  metrics: {listed}{epoch}"
    steps = sum(item["lost_steps"] or 0 for item in incidents)
    down = sum(item["downtime_seconds"] or 0.0 for item in incidents)
    if found.whole is not None:
        steps, down = found.whole.lost_steps, found.whole.downtime_seconds
    if steps or down:
        yield f"  lost: {lost_text(steps, down)}"
    used = _peaks(found.whole)
    if used:
        yield f"  run peak: {', '.join(used)}"


def _peaks(whole: RunSummary | None) -> list[str]:
    """The most of all attempts."""
    used: list[str] = []
    if whole is not None and whole.device_peak_bytes is not None:
        limit = whole.device_limit_bytes
        of = "" if limit is None else f" of {format_size(limit)}"
        used.append(f"{format_size(whole.device_peak_bytes)}{of} for tensors")
    if whole is not None and whole.host_peak_bytes is not None:
        used.append(f"{format_size(whole.host_peak_bytes)} of main memory")
    return used


def last_words(crash: Path, output: Path) -> str:
    """The traceback of the last attempt, or else the end of its log."""
    value = read_json(crash)
    report = None if value is None else CrashReport.from_json(value)
    if report is not None:
        return plain(report.traceback).rstrip()
    try:
        with output.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - LOG_BYTES, 0))
            tail = file.read().decode(errors="replace")
    except OSError:
        return "(the attempt left no log)"
    return "\n".join(plain(tail).splitlines()[-LOG_LINES:])
