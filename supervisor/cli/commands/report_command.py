"""``trainwarden report``: a page about a run, or about an incident, in one file."""

import os
import shlex
import socket
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click

from supervisor import __version__
from supervisor.cli.command_hint import placing
from supervisor.cli.options import fail, json_option, show
from supervisor.cli.sources.box_source import BoxSource, UnseenError, sources_of
from supervisor.cli.sources.daemon_client import box_option
from supervisor.core.text.units import format_size
from supervisor.host.service.user_name import user_name
from supervisor.web.markup import Redaction, as_it_is
from supervisor.web.redaction import Redactor
from supervisor.web.report_page import incident_report, run_report
from supervisor.web.run_view import RunDossier
from supervisor.web.secrets_in_text import secrets_of


@click.command()
@json_option
@box_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file to write, such as report.html; - is standard output.",
)
@click.option(
    "--redact",
    "redacted",
    is_flag=True,
    help="Without secrets, paths, user and host names, addresses and the environment.",
)
@click.argument("what", metavar="JOB|INCIDENT")
def report(
    *, as_json: bool, state_dir: Path | None, output: Path, redacted: bool, what: str
) -> None:
    """Write a page about the newest run of JOB, or about INCIDENT (a number).

    It is one file that needs nothing else and asks nobody for anything: to keep, to send,
    to print. A job whose name is a number is meant where there is no such incident.

    Example: trainwarden report digits -o report.html
    """
    if as_json and str(output) == "-":
        fail("--json tells where the page was written: name a file with -o")
    text = _text(state_dir, what, redacted=redacted)
    if str(output) == "-":
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(
            f"cannot write {output}: {error.strerror}; {_way_out(output)}", exit_code=1
        )
    size = output.stat().st_size
    value = {"report": str(output.absolute()), "bytes": size}
    show(value, [f"wrote {output} ({format_size(size)})"], as_json=as_json)


def _way_out(output: Path) -> str:
    """What to do where a page could not be written there."""
    parent = output.parent
    other = "name another file with -o"
    if os.path.lexists(parent):
        return other
    return f"make the directory (`mkdir -p {shlex.quote(str(parent))}`), or {other}"


def _text(state_dir: Path | None, what: str, *, redacted: bool) -> str:
    problems: list[str] = []
    for source in sources_of(state_dir):
        for made in _ways(source, what):
            try:
                return made(redacted)
            except UnseenError as error:
                problems.append(str(error))
    return fail(problems[0])


def _ways(source: BoxSource, what: str) -> list[Callable[[bool], str]]:
    """An incident, where it is a number; else a job."""
    way: list[Callable[[bool], str]] = [
        lambda hide: _of_run(source, what, redacted=hide)
    ]
    if what.isascii() and what.isdigit() and len(what) < 19:
        way.insert(0, lambda hide: _of_incident(source, int(what), redacted=hide))
    return way


def _of_run(source: BoxSource, job: str, *, redacted: bool) -> str:
    dossier = source.run(job)
    return run_report(
        dossier,
        made=_made(redacted=redacted),
        redact=_text_of(dossier, source.where, redacted=redacted),
    )


def _of_incident(source: BoxSource, number: int, *, redacted: bool) -> str:
    dossier = source.incident(number)
    return incident_report(
        dossier,
        made=_made(redacted=redacted),
        redact=_text_of(dossier.run, source.where, redacted=redacted),
    )


def _made(*, redacted: bool) -> str:
    when = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    what = (
        " Secrets, paths, names and the environment are left out." if redacted else ""
    )
    return f"Written by trainwarden {__version__}, {when}.{what}"


def _text_of(run: RunDossier | None, where: Path, *, redacted: bool) -> Redaction:
    """How texts are written: suggested commands as they work here, and then, where that is
    asked for, without what is nobody else's."""
    place = placing()
    hide = redactor(run, where) if redacted else as_it_is
    return lambda text: hide(place(text))


def redactor(run: RunDossier | None, where: Path) -> Redaction:
    """By what is known of this machine, of who asks, and of the run."""
    spec = {} if run is None else run.spec
    home = Path(os.environ.get("HOME") or Path("~").expanduser())
    users = {user_name(os.geteuid()), user_name(os.getuid()), home.name}
    users |= set() if run is None or not run.run["user"] else {str(run.run["user"])}
    host = socket.gethostname()
    named = (spec.get("script"), spec.get("working_directory"), spec.get("python"))
    places = {str(home), str(where.absolute()), str(Path.cwd())}
    places |= {str(path) for one in named if one for path in (Path(one).parent, one)}
    places -= {str(spec.get("script"))}  # its name tells what ran
    environment = {str(k): str(v) for k, v in spec.get("environment", {}).items()}
    args = [str(one) for one in spec.get("args") or ()]
    return Redactor(
        users=tuple(users),
        hosts=(host, host.partition(".")[0], socket.getfqdn()),
        places=tuple(place for place in places if place != "/"),
        environment=environment,
        secrets=secrets_of(args, (environment, os.environ)),
    )
