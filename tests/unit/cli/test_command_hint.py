"""What a person is told to run works when it is pasted."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from supervisor.cli.command_group import trainwarden
from supervisor.cli.command_hint import command_hint
from supervisor.cli.sources.daemon_client import box_option
from supervisor.host.ledger.ledger import Ledger
from supervisor.wire.paths import StatePaths


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
