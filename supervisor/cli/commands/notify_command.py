"""``trainwarden notify``: who is told of runs, and whether that reaches them."""

import socket
from pathlib import Path

import click

from supervisor.cli.commands.daemon_command import configuration
from supervisor.cli.options import fail, json_option, show
from supervisor.cli.spec_options import project_tables, read_tables, spec_of
from supervisor.core.jobs.notification import Notification
from supervisor.core.jobs.spec import NotifySpec, merge
from supervisor.core.text.visible import visible
from supervisor.host.notifications.addresses import read_addresses
from supervisor.host.notifications.notification_sender import (
    SendRequest,
    deliver,
    problem_of,
)


@click.command()
@click.option("--test", is_flag=True, help="Send a notification to everybody now.")
@click.option(
    "--spec",
    "spec_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The TOML file of a job. Default: [tool.trainwarden] of the project.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The configuration of a daemon, instead of a job's spec.",
)
@json_option
def notify(
    *, test: bool, spec_file: Path | None, config_file: Path | None, as_json: bool
) -> None:
    """Say who is told of a run, and of what; with --test tell them something.

    Example: trainwarden notify --test --spec job.toml
    """
    if spec_file is not None and config_file is not None:
        fail("give --spec or --config, not both")
    told = _told(spec_file, config_file)
    if not told.wanted:
        fail(
            "nobody is notified: name addresses or a command, and on what to tell them,"
            " in the table [notify] of a spec (--spec FILE) or in"
            " [tool.trainwarden.notify] of pyproject.toml; see docs/running.md"
        )
    problem = problem_of(told.addresses, told.command)
    if problem is not None:
        fail(problem)
    if not test:
        value = {"addresses": _names(told), "command": list(told.command)}
        value["on"] = list(told.on)
        lines = [f"{name}: {', '.join(of)}" for name, of in value.items() if of]
        show(value, lines, as_json=as_json)
        return
    results: list[dict[str, str | None]] = []
    for one in deliver(_test_request(told)):
        results.append({"address": one.address, "problem": one.problem})
        if not as_json:  # as soon as it is known
            click.echo(visible(f"{one.address}: {one.problem or 'sent'}"))
    if as_json:
        show(results, (), as_json=True)
    if any(one["problem"] is not None for one in results):
        raise SystemExit(1)


def _names(told: NotifySpec) -> list[str]:
    """What may be said of the addresses."""
    if told.addresses is None:
        return []
    return [one.name for one in read_addresses(Path(told.addresses))]


def _told(spec_file: Path | None, config_file: Path | None) -> NotifySpec:
    if config_file is not None:
        return configuration(config_file).notify
    project, of_project = project_tables(Path.cwd())
    tables = merge(of_project, read_tables(spec_file))
    where = f"the spec {spec_file}" if spec_file else f"[tool.trainwarden] of {project}"
    return spec_of(merge({"script": "-"}, tables), where=where).notify


def _test_request(told: NotifySpec) -> SendRequest:
    here = socket.gethostname()
    return SendRequest(
        notification=Notification(
            kind="test",
            job="-",
            title=f"trainwarden on {here}: a test",
            text="Whoever reads this is told of: " + ", ".join(told.on) + ".",
        ),
        addresses=told.addresses,
        command=told.command,
        seconds=0.0,
    )
