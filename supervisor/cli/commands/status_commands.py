"""``status``, ``incidents`` and ``explain``: what the state directory tells."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import click
from typing_extensions import override

from supervisor.cli.command_hint import command_hint
from supervisor.cli.completion import complete_incident, optional_job_argument
from supervisor.cli.options import fail, json_option, show
from supervisor.cli.sources.box_source import BoxSource, UnseenError
from supervisor.cli.sources.daemon_client import (
    answering,
    asking,
    directory_of,
    tell_gone,
)
from supervisor.cli.sources.daemon_client import box_option as state_option
from supervisor.cli.sources.ledger_reader import reading
from supervisor.cli.sources.remote_reader import show_remote
from supervisor.cli.sources.run_reader import summary_of
from supervisor.cli.views.advisory_lines import advisory_line, advisory_text
from supervisor.cli.views.ended_job import (
    EndedRun,
    ended_json,
    ended_lines,
    has_ended,
)
from supervisor.cli.views.progress import (
    error_line,
    plan_line,
    progress_line,
    remedy_lines,
    remote_line,
    unsaved_lines,
)
from supervisor.cli.views.summary import RunFigures
from supervisor.core.diagnosis.explain import (
    asks_for_log,
    explain_incident,
    own_text,
    summarise_incident,
)
from supervisor.core.jobs.job_status import JobStatus, status_from_json, status_json
from supervisor.core.memory.step_budget import sentence as budget_sentence
from supervisor.host.ledger.ledger import Ledger, LedgerError
from supervisor.host.service.clock import Clock
from supervisor.host.service.user_name import user_name
from supervisor.runtime.stored_status import stored_statuses
from supervisor.wire.paths import StatePaths


@click.command()
@json_option
@state_option
@click.option(
    "--remote",
    metavar="URL",
    help="Show what lies in this remote tier instead: s3://bucket/prefix.",
)
@optional_job_argument
def status(
    *, as_json: bool, state_dir: Path | None, remote: str | None, job: str | None
) -> None:
    """Show every job, or JOB: its state, its attempt, and where it is; once it is over, what
    it came to.

    Asks the daemon if one answers; else the files of the state directory tell.

    Example: trainwarden status digits; trainwarden status --remote s3://bucket/runs
    """
    if remote is not None:
        show_remote(remote, job, as_json=as_json)
        return
    client = answering(state_dir)
    if client is None:
        tell_gone(state_dir)
        found = stored_jobs(directory_of(state_dir))
    else:
        with asking():
            box = client.get("/v1/status")
        found = box["jobs"]
        _warn(box)
    if job is not None:
        found = [item for item in found if item["job"] == job]
        if not found:
            where = directory_of(state_dir) if client is None else "this daemon's list"
            fail(f"there is no job {job!r} in {where}; see `{command_hint('status')}`")
    lines = [line for item in found for line in _lines(status_from_json(item))]
    if job is not None and has_ended(status_from_json(found[0])):
        found, more = _with_end(
            found[0], BoxSource(client=client, where=directory_of(state_dir))
        )
        lines += more
    nothing = f"no job has run in {directory_of(state_dir)} yet"
    show(found, lines or [nothing], as_json=as_json)


def stored_jobs(state_dir: Path) -> list[dict[str, Any]]:
    """What the files tell of every job, in the shape of ``status --json``."""
    paths = StatePaths(state_dir)
    with reading(paths) as ledger:
        now = Clock().now()
        found = [] if ledger is None else stored_statuses(ledger, paths, now=now)
    return [status_json(item) for item in found]


def _warn(box: dict[str, Any]) -> None:
    if box["paused_by"] is not None:
        click.echo(f"paused by {box['paused_by']}: nothing is started", err=True)
    for problem in box["problems"]:
        click.echo(f"job file {problem}", err=True)


def _with_end(
    item: dict[str, Any], source: BoxSource
) -> tuple[list[dict[str, Any]], list[str]]:
    """A job that has ended with what its run came to, as JSON and in lines; without, where
    that is not theirs to see."""
    try:
        dossier, log = source.run(item["job"]), source.log(item["job"])
    except UnseenError:
        return [item], []
    epochs = [
        one for number in sorted(dossier.epochs) for one in dossier.epochs[number]
    ]
    last = epochs[-1] if epochs else None
    end = EndedRun(
        figures=RunFigures(
            whole=summary_of(dossier.run),
            metrics={} if last is None else last.logs,
            epoch=None if last is None else last.epoch,
        ),
        incidents=dossier.incidents,
        log=log,
        by_daemon="owner" in item,
    )
    shown = status_from_json(item)
    return [{**item, "ended": ended_json(shown, end)}], list(ended_lines(shown, end))


def _lines(item: JobStatus) -> Iterator[str]:
    """A job for a person."""
    yield progress_line(item)
    error = error_line(item)
    if error:
        yield f"  {error}"
        yield f"    more: {command_hint('incidents', item.job)}, {command_hint('logs', item.job)}"
    if item.snapshot_plan is not None and item.pid is not None:
        yield f"  {plan_line(item.snapshot_plan)}"
    if item.step_needs is not None:
        yield f"  {budget_sentence(item.step_needs)}"
    yield from (f"  {line}" for line in unsaved_lines(item))
    if item.remote is not None:
        yield f"  {remote_line(item.remote)}"
    if item.standby is not None:
        yield f"  {item.standby}"
    yield from (f"  {line}" for line in remedy_lines(item))
    for one in item.advisories:
        yield f"  {advisory_line(one)}"
    if item.proof:
        yield f"  {item.proof}"
    if item.exact:
        yield "  bit-identical resume: promised"
    if item.promise:
        yield f"  bit-identical resume is not promised{_of(item)}: {item.promise}"


def _of(item: JobStatus) -> str:
    """Which call of ``fit``, where it is not the first or only one."""
    return f" (call {item.promise_fit + 1} of fit)" if item.promise_fit else ""


@click.command()
@json_option
@state_option
@click.option("--ack", type=int, metavar="ID", help="Say that you have seen this one.")
@optional_job_argument
def incidents(
    *, as_json: bool, state_dir: Path | None, ack: int | None, job: str | None
) -> None:
    """List what went wrong, and what was done about it.

    Example: trainwarden incidents digits; trainwarden incidents --ack 3
    """
    if ack is not None:
        _acknowledge(state_dir, ack)
        show([{"acknowledged": ack}], [f"incident {ack}: seen"], as_json=as_json)
        return
    found = _incidents(state_dir, job)
    lines = [line for item in found for line in _incident_lines(item)]
    if lines:
        lines.append(f"{command_hint('explain', 'ID')} tells more of one")
    show(found, lines or ["no incidents"], as_json=as_json)


def _incident_lines(item: dict[str, Any]) -> Iterator[str]:
    """What happened, and in a line of its own what failed said itself."""
    yield summarise_incident(item)
    text = own_text(item["because"])
    if text:
        yield f"  {text}"


def _acknowledge(state_dir: Path | None, incident: int) -> None:
    client = answering(state_dir)
    if client is not None:
        with asking():
            client.post(f"/v1/incidents/{incident}/acknowledge", {})
        return
    paths = StatePaths(directory_of(state_dir))
    with reading(paths):  # ends the command where there is nothing
        pass
    try:
        with contextlib.closing(Ledger(paths.ledger)) as ledger:
            now = Clock().wall()
            if not ledger.acknowledge(incident, by=user_name(os.getuid()), now=now):
                fail(
                    f"there is no incident {incident}; see `{command_hint('incidents')}`"
                )
    except LedgerError as error:
        fail(str(error), exit_code=1)


class IncidentNumber(click.ParamType[int]):
    """Of an incident on the command line."""

    name = "id"

    @override
    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> int:
        """Read it, or end the command with a sentence."""
        text = str(value)
        if text.isascii() and text.isdigit() and len(text) < 19:
            return int(text)
        return fail(
            f"ID is the number of an incident, as `{command_hint('incidents')}` lists them; got "
            f"{text!r}"
        )


def _incidents(state_dir: Path | None, job: str | None) -> list[dict[str, Any]]:
    client = answering(state_dir)
    if client is not None:
        with asking():
            found = client.get("/v1/incidents" + (f"?job={quote(job)}" if job else ""))
            if job is not None:
                client.get(f"/v1/jobs/{quote(job)}")  # a wrong name is told
        return cast("list[dict[str, Any]]", found)
    where = directory_of(state_dir)
    with reading(StatePaths(where)) as ledger:
        rows = [] if ledger is None else ledger.incidents(job=job)
        known = job is None or (ledger is not None and ledger.latest_run(job))
    if not known:
        fail(f"there is no job {job!r} in {where}; see `{command_hint('status')}`")
    return [asdict(row) for row in rows]


@click.command()
@json_option
@state_option
@click.argument(
    "incident",
    type=IncidentNumber(),
    metavar="[ID]",
    required=False,
    shell_complete=complete_incident,
)
def explain(*, as_json: bool, state_dir: Path | None, incident: int | None) -> None:
    """Explain an incident in plain words: the newest, or that of this ID; and what the
    run could do better.

    Example: trainwarden explain; trainwarden explain 3
    """
    known = _incidents(state_dir, None)
    if incident is None:
        found = sorted(known, key=lambda item: item["id"])[-1:]
        if not found:
            _show_advice(state_dir, as_json=as_json)
            return
    else:
        found = [item for item in known if item["id"] == incident]
    if not found:
        fail(f"there is no incident {incident}; see `{command_hint('incidents')}`")
    text = "\n\n".join([explain_incident(found[0]), *_log_line(found[0], state_dir)])
    job = found[0]["job"]
    advised = [item for item in _advised(state_dir) if item.job == job]
    advice = [advisory_text(item.job, item.advisories) for item in advised]
    value = {**found[0], "explanation": text, "advisories": _as_json(advised)}
    show(value, ["\n\n".join((text, *advice))], as_json=as_json)


def _log_line(incident: dict[str, Any], state_dir: Path | None) -> Iterator[str]:
    """Where the log lies that the advice is to look at."""
    if not asks_for_log(incident):
        return
    source = BoxSource(client=answering(state_dir), where=directory_of(state_dir))
    log = source.log_of(incident)
    if log is not None:
        yield f"Its log: {log}"


def _advised(state_dir: Path | None) -> list[JobStatus]:
    """Jobs that could do better."""
    client = answering(state_dir)
    if client is None:
        found = stored_jobs(directory_of(state_dir))
    else:
        with asking():
            found = client.get("/v1/status")["jobs"]
    return [item for item in map(status_from_json, found) if item.advisories]


def _as_json(advised: Sequence[JobStatus]) -> list[dict[str, Any]]:
    return [asdict(one) for item in advised for one in item.advisories]


def _show_advice(state_dir: Path | None, *, as_json: bool) -> None:
    """Nothing went wrong, which is no error; something may be slower than it need be."""
    advised = _advised(state_dir)
    text = "There is no incident: nothing went wrong."
    advice = [advisory_text(item.job, item.advisories) for item in advised]
    value = {"explanation": text, "advisories": _as_json(advised)}
    show(value, ["\n\n".join((text, *advice))], as_json=as_json)
