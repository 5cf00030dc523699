"""What a person is told to run works when it is pasted."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from supervisor.cli.command_group import trainwarden
from supervisor.cli.command_hint import command_hint, placing
from supervisor.cli.sources.box_site import BoxSite
from supervisor.cli.sources.box_source import BoxSource
from supervisor.cli.sources.daemon_client import box_option
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import Diagnosis, Reason, Remedy, RemedyKind
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import RecordIncident
from supervisor.core.remediation.history import AttemptHistory
from supervisor.host.ledger.ledger import Ledger
from supervisor.wire.paths import StatePaths
from tests.support.looked_at import a_run


@click.command()
@box_option
def asks(*, state_dir: Path | None) -> None:
    """Give a hint."""
    del state_dir
    click.echo(command_hint("explain", "3"))


def test_a_directory_that_was_named_is_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an option or in the environment; quoted for a shell."""
    place = tmp_path / "a place"
    hint = f"trainwarden explain 3 --state-dir '{place}'\n"
    runner = CliRunner()
    assert runner.invoke(asks, ["--state-dir", str(place)]).output == hint
    monkeypatch.setenv("TRAINWARDEN_STATE_DIR", str(place))
    assert runner.invoke(asks, []).output == hint


def test_the_usual_directory_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is there one outside of a command."""
    monkeypatch.delenv("TRAINWARDEN_STATE_DIR", raising=False)
    assert CliRunner().invoke(asks, []).output == "trainwarden explain 3\n"
    assert command_hint("status") == "trainwarden status"


def test_a_wrong_name_is_answered_with_a_command_that_works(tmp_path: Path) -> None:
    """What stands between the backquotes runs."""
    Ledger(StatePaths(tmp_path).ledger).close()
    words = ["memory", "digits", "--state-dir", str(tmp_path)]
    done = CliRunner().invoke(trainwarden, words)
    (hint,) = re.findall("`trainwarden (.*)`", done.output)
    assert str(tmp_path) in hint
    assert CliRunner().invoke(trainwarden, shlex.split(hint)).exit_code == 0


def test_a_wrong_incident_is_answered_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although it is refused before options are read."""
    place = f"--state-dir {tmp_path}"
    words = ["explain", "abc", "--state-dir", str(tmp_path)]
    assert place in CliRunner().invoke(trainwarden, words).output
    monkeypatch.setenv("TRAINWARDEN_STATE_DIR", str(tmp_path))
    assert place in CliRunner().invoke(trainwarden, words[:2]).output


def test_nothing_has_run(tmp_path: Path) -> None:
    """It is said what begins something."""
    words = ["status", "--state-dir", str(tmp_path / "none")]
    said = CliRunner().invoke(trainwarden, words).output
    assert (
        f"`trainwarden run --state-dir {tmp_path / 'none'} SCRIPT` begins one" in said
    )


HUNG = RecordIncident(
    attempt=1,
    diagnosis=Diagnosis(
        cause=Cause.STALLED, because=(Reason("no step", "hang"),), advice=""
    ),
    remedy=Remedy(kind=RemedyKind.STOP, because="nothing helps"),
    failed_step=None,
    stacks="Thread 0x1",
)


def gave_up(state: Path) -> None:
    """A run in ``state`` that gave up after a hang."""
    with a_run(state) as run:
        ended = AttemptHistory(number=1, cause=Cause.STALLED, error="no step")
        run.ledger.put_attempt(run.row.id, ended, now=1.0)
        run.ledger.record_incident(run.row.id, HUNG, now=2.0)
        run.ledger.set_state(
            run.row.id, state=JobState.GAVE_UP, message="", overrides=None, ended_at=3.0
        )


HINT = re.compile("`(trainwarden .*?)`")


@pytest.mark.parametrize("what", ["digits", "1"])
def test_pages_name_the_directory_too(tmp_path: Path, what: str) -> None:
    """A report that is written for somebody, and the page that is served."""
    gave_up(tmp_path)
    place = f"--state-dir {tmp_path}"
    words = ["report", what, "-o", "-", "--state-dir", str(tmp_path)]
    report = CliRunner().invoke(trainwarden, words)
    assert report.exit_code == 0, report.output

    @click.command()
    @box_option
    def served(*, state_dir: Path | None) -> None:
        """The page, as ``ui`` has it."""
        del state_dir
        source = BoxSource(client=None, where=tmp_path)
        site = BoxSite(source=lambda: source, place=placing())
        kind = "incidents" if what.isdigit() else "jobs"
        click.echo(site(f"/{kind}/{what}").body)
        click.echo(site(f"/api/{kind}/{what}").body)

    page = CliRunner().invoke(served, ["--state-dir", str(tmp_path)])
    for shown, times in ((report.output, 1), (page.output, 2)):
        hints = HINT.findall(shown)
        assert len(hints) >= times
        assert all(place in hint for hint in hints)
    assert place not in CliRunner().invoke(served, []).output


def test_a_report_without_paths_has_none_in_its_hints(tmp_path: Path) -> None:
    """It is written to be sent."""
    gave_up(tmp_path)
    words = ["report", "digits", "-o", "-", "--redact", "--state-dir", str(tmp_path)]
    done = CliRunner().invoke(trainwarden, words)
    assert HINT.findall(done.output)
    assert str(tmp_path) not in done.output
