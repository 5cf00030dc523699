"""The commands that hand jobs to a daemon, and end or resume them there."""

import json
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from supervisor.cli.completion import job_argument, optional_job_argument
from supervisor.cli.foreground.foreground_job import foreground_job, refuse_if_over
from supervisor.cli.options import fail, json_option, show
from supervisor.cli.script_lookup import (
    active_python,
    checked_directory,
    script_content,
    script_path,
)
from supervisor.cli.sources.daemon_client import asking, box_option, client_of, post
from supervisor.cli.spec_options import (
    accept_changes_option,
    args_argument,
    asked_script,
    cpu_memory_option,
    env_option,
    environment_of,
    gpu_list,
    gpus_option,
    module_option,
    name_of,
    name_option,
    python_option,
    read_spec,
    refuse_for_daemon,
    script_argument,
    spec_option,
)
from supervisor.core.jobs.job_status import JobState, state_words
from supervisor.core.text.units import counted
from supervisor.host.control.control_client import Client, NoDaemonError, RefusedError

fresh_option = click.option(
    "--fresh", is_flag=True, help="Begin anew; earlier snapshots are unused."
)


@click.command(context_settings={"allow_interspersed_args": False})
@box_option
@json_option
@name_option
@gpus_option
@click.option(
    "--gpu-count",
    type=int,
    help="How many GPUs the daemon should choose. Without --gpus and this: none.",
)
@click.option("--priority", type=int, help="Higher goes first. Default: 0.")
@cpu_memory_option
@module_option
@python_option
@env_option
@click.option("--user", help="As whom it runs; for root and admins.")
@spec_option
@fresh_option
@accept_changes_option
@script_argument
@args_argument
def submit(
    *,
    state_dir: Path | None,
    as_json: bool,
    name: str | None,
    gpus: str | None,
    gpu_count: int | None,
    priority: int | None,
    cpu_memory: str | None,
    module: bool,
    python: str | None,
    variables: tuple[str, ...],
    user: str | None,
    spec_file: Path | None,
    fresh: bool,
    accept_changes: bool,
    script: str | None,
    args: tuple[str, ...],
) -> None:
    """Hand SCRIPT to the daemon, which runs it to its end, through crashes and reboots.

    It runs as you, in the directory you are in, with the Python of your virtual
    environment if one is active. Of your environment it gets what --spec says.

    \b
    Examples:
      trainwarden submit -- train.py --epochs 10
      trainwarden submit --gpu-count 2 --priority 5 train.py
      trainwarden submit --spec job.toml
    """  # noqa: D301  # \b is click's mark, not a backslash
    given = {
        "name": name,
        **asked_script(script, args, module=module),
        "python": python,
        "environment": environment_of(variables),
        "gpus": None if gpus is None else gpu_list(gpus),
        "gpu_count": gpu_count,
        "priority": priority,
        "memory": {"cpu": cpu_memory},
    }
    # What is wrong is told here, before anybody is asked.
    merged, spec = read_spec(spec_file, given)
    refuse_for_daemon(spec)
    body = {
        "spec": absolute(merged),
        "fresh": fresh,
        "accept_changes": accept_changes,
        **({} if user is None else {"user": user}),
    }
    job = post(state_dir, "/v1/jobs", body)
    tell(job, as_json=as_json)
    _tell_of_gpus(state_dir, asked="gpus" in merged, count=spec.gpu_count)


NO_GPU = "it asked for no GPU and will see none; --gpu-count 1 asks for one"


TOO_FEW = "it asked for {}, and this box has {}: it waits until there are more"


def _tell_of_gpus(state_dir: Path | None, *, asked: bool, count: int | None) -> None:
    """Where it has none on a box that has some, or waits for more than there are.
    ``asked``: for some by name, of which ``status`` tells."""
    if asked or count == 0:
        return
    try:
        here = len(client_of(state_dir).get("/v1/status")["gpus"])
    except (NoDaemonError, RefusedError):
        return  # it cannot be told
    if count is None and here:
        click.echo(NO_GPU, err=True)
    if count is not None and count > here:
        has = counted(here, "GPU") if here else "none"
        click.echo(TOO_FEW.format(counted(count, "GPU"), has), err=True)


def absolute(tables: dict[str, Any]) -> dict[str, Any]:
    """A spec that means the same to the daemon as to who stands here."""
    base = checked_directory(tables.get("working_directory"))
    script = script_path(tables["script"], base)
    script_content(script, tables["script"], base)
    active = active_python()
    python = {} if active is None else {"python": str(active)}
    return {
        "name": tables.get("name") or name_of(script),
        **python,
        **tables,
        "script": str(script),
        "working_directory": str(base),
    }


def tell(job: dict[str, Any], *, as_json: bool) -> None:
    """What came of it."""
    show(job, [_told(job)], as_json=as_json)


def _told(job: dict[str, Any]) -> str:
    told = [job["job"], state_words(job["state"])]
    return ": ".join(
        told if job["message"] == job["state"] else [*told, job["message"]]
    )


def tell_all(jobs: list[dict[str, Any]], *, as_json: bool) -> None:
    """What came of each."""
    lines = [_told(job) for job in jobs]
    show(jobs, lines or ["no job runs"], as_json=as_json)


def which(job: str | None, *, everything: bool, verb: str) -> str | None:
    """The job that is meant; None: all of them, which has to be said."""
    if job is not None and everything:
        fail(f"{verb} takes the name of a job, or --all, not both")
    if job is None and not everything:
        fail(f"which job? `trainwarden {verb} JOB`, or --all for every job")
    return job


def _end(state_dir: Path | None, job: str, *, drain: bool) -> dict[str, Any]:
    """Through the daemon, or where it runs in the foreground."""
    running = foreground_job(state_dir, job)
    if running is not None:
        return running.end()
    refuse_if_over(state_dir, job, "there is nothing to end")
    ended: dict[str, Any] = post(
        state_dir, f"/v1/jobs/{quote(job)}/stop", {"drain": drain}
    )
    if ended["state"] == JobState.FINISHED:
        return {**ended, "message": "it had ended before: there is nothing to end"}
    return ended


def _wanted(state_dir: Path | None, *, running: bool) -> list[str]:
    """The jobs of the daemon that run, or will; ``running``: without those that wait for
    their turn. One that has ended will not, one that could not begin may."""
    with asking():
        jobs = client_of(state_dir).get("/v1/status")["jobs"]
    rows = [(row, JobState(row["state"])) for row in jobs if row["wanted"] == "run"]
    return [
        row["job"]
        for row, state in rows
        if not (running and state is JobState.QUEUED)
        and not (state.ended and (running or row["attempt"]))
    ]


MOST_NAMED = 20
"""Jobs of others that are left out by name: a shared box may have thousands."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What came of asking for something of one job after the other."""

    done: list[dict[str, Any]]
    refused: list[str]
    """Why it could not be."""
    others: list[str]
    """Jobs of others, in which who asked has no say, and whose they are."""


def ask_each(
    client: Client, names: list[str], verb: str, body: dict[str, Any]
) -> Answers:
    """Ask for ``verb`` of each job: one that is refused (it has come to its end
    meanwhile) keeps no other from it. Where the daemon goes away in between, what was done
    is told all the same."""
    found = Answers([], [], [])
    for asked, name in enumerate(names):
        try:
            found.done.append(client.post(f"/v1/jobs/{quote(name)}/{verb}", body))
        except NoDaemonError as error:
            if not asked:
                raise
            left = f"{name} and {len(names) - asked - 1} more may not have heard of it"
            found.refused.append(f"{error}: {left}")
            break
        except RefusedError as error:
            theirs = error.status == HTTPStatus.FORBIDDEN
            (found.others if theirs else found.refused).append(f"{name}: {error}")
    return found


def _ask_all(
    state_dir: Path | None,
    names: list[str],
    verb: str,
    body: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """The jobs of others are left out, as ``scancel`` and ``systemctl --user`` do, which
    is no failure, but said: the box is not empty."""
    with asking():
        answers = ask_each(client_of(state_dir), names, verb, body)
    tell_all(answers.done, as_json=as_json)
    for other in answers.others[:MOST_NAMED]:
        click.echo(f"left out: {other}", err=True)
    if len(answers.others) > MOST_NAMED:
        more = len(answers.others) - MOST_NAMED
        click.echo(f"left out: {more} more jobs of others", err=True)
    if answers.refused:
        fail("; ".join(answers.refused), exit_code=1)


def _not_in_the_foreground(state_dir: Path | None, job: str) -> None:
    """End the command where ``job`` runs there, or ran: nobody else has its command."""
    running = foreground_job(state_dir, job)
    if running is not None:
        running.refuse(AGAIN)
    refuse_if_over(state_dir, job, ANEW, finished=NEW)


AGAIN = "the same `trainwarden run SCRIPT` lets it go on"
ANEW = f"{AGAIN}, or with --fresh begins it anew"
NEW = "the same `trainwarden run SCRIPT` begins a new run"


ALL = click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Every job of yours; for root and admins: of everybody.",
)


@click.command()
@box_option
@json_option
@click.option("--drain", is_flag=True, help="Save a snapshot first, however long.")
@ALL
@optional_job_argument
def stop(
    *,
    state_dir: Path | None,
    as_json: bool,
    drain: bool,
    everything: bool,
    job: str | None,
) -> None:
    """End JOB at its newest snapshot, or with --drain after a new one.

    One that runs in the foreground is asked as Ctrl-C there would: it saves its state.

    Example: trainwarden stop --drain digits; trainwarden start digits resumes it.
    """
    one = which(job, everything=everything, verb="stop")
    body = {"drain": drain}
    if one is not None:
        tell(_end(state_dir, one, drain=drain), as_json=as_json)
        return
    names = _wanted(state_dir, running=False)
    _ask_all(state_dir, names, "stop", body, as_json=as_json)


@click.command()
@box_option
@json_option
@fresh_option
@accept_changes_option
@job_argument
def start(
    *,
    state_dir: Path | None,
    as_json: bool,
    fresh: bool,
    accept_changes: bool,
    job: str,
) -> None:
    """Let JOB run that has ended or was stopped: it resumes from its newest snapshot.

    Example: trainwarden start digits
    """
    _not_in_the_foreground(state_dir, job)
    body = {"fresh": fresh, "accept_changes": accept_changes}
    tell(post(state_dir, f"/v1/jobs/{quote(job)}/start", body), as_json=as_json)


@click.command()
@box_option
@json_option
@ALL
@optional_job_argument
def restart(
    *, state_dir: Path | None, as_json: bool, everything: bool, job: str | None
) -> None:
    """Drain JOB, or with --all every job that runs, and let it go on in a new process.

    On a box that is paused it goes on after `trainwarden resume`.

    Example, for maintenance: trainwarden pause; trainwarden restart --all
    """
    one = which(job, everything=everything, verb="restart")
    if one is not None:
        _not_in_the_foreground(state_dir, one)
        tell(post(state_dir, f"/v1/jobs/{quote(one)}/restart", {}), as_json=as_json)
        return
    names = _wanted(state_dir, running=True)
    _ask_all(state_dir, names, "restart", {}, as_json=as_json)


@click.command()
@box_option
@json_option
@ALL
@optional_job_argument
def drain(
    *, state_dir: Path | None, as_json: bool, everything: bool, job: str | None
) -> None:
    """Save the state of JOB, or with --all of every job that runs, and end it.

    JOB may run in the foreground, too; --all leaves those alone.

    Example: trainwarden drain digits
    """
    one = which(job, everything=everything, verb="drain")
    if one is not None:
        tell(_end(state_dir, one, drain=True), as_json=as_json)
        return
    names = _wanted(state_dir, running=True)
    _ask_all(state_dir, names, "stop", {"drain": True}, as_json=as_json)


@click.command()
@box_option
@json_option
def pause(*, state_dir: Path | None, as_json: bool) -> None:
    """Start nothing more on this box; what runs goes on.

    Example, before maintenance: trainwarden pause; trainwarden restart --all
    """
    post(state_dir, "/v1/box/pause", {})
    text = "paused: nothing more is started until `trainwarden resume`"
    click.echo(json.dumps({"paused": True}) if as_json else text)


@click.command()
@box_option
@json_option
def resume(*, state_dir: Path | None, as_json: bool) -> None:
    """Start jobs again after `trainwarden pause`. Drained ones need `start`.

    Example, after maintenance: trainwarden resume
    """
    with asking():
        client = client_of(state_dir)
        paused = client.get("/v1/status")["paused_by"] is not None
        client.post("/v1/box/resume", {})
    text = "resumed" if paused else "it was not paused"
    click.echo(json.dumps({"paused": False}) if as_json else text)
