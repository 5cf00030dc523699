"""The list of commands, and what each says of itself."""

import pytest
from click.testing import CliRunner

from supervisor.cli.main import COMMANDS, trainwarden


def said(*words: str) -> str:
    """What the command prints; it has to end well."""
    runner = CliRunner()
    done = runner.invoke(trainwarden, list(words), prog_name="trainwarden")
    assert done.exit_code == 0, done.output
    return done.output


def test_every_command_is_listed() -> None:
    """With a line about it, and without importing any of them."""
    listed = said("--help")
    for name, (_, about) in COMMANDS.items():
        assert name in listed
        assert about.split()[0] in listed


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    """Each can be imported and is named as it is called."""
    assert f"trainwarden {name}" in said(name, "--help")


WITHOUT_JSON = {
    "ledger": "a group: its commands have it",
    "daemon": "a service, which tells the journal",
}


@pytest.mark.parametrize("name", [*COMMANDS, "ledger backup"])
def test_every_command_has_an_example_and_speaks_json(name: str) -> None:
    """Except where there is nothing to show."""
    told = said(*name.split(), "--help")
    assert ("--json" in told) is (name not in WITHOUT_JSON)
    assert "xample" in told or name == "ledger"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_completes(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script for it is printed, and completes the names of commands."""
    monkeypatch.setenv("_TRAINWARDEN_COMPLETE", f"{shell}_source")
    assert "_TRAINWARDEN_COMPLETE" in said()
    monkeypatch.setenv("_TRAINWARDEN_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "trainwarden expl")
    monkeypatch.setenv("COMP_CWORD", "expl" if shell == "fish" else "1")
    assert "explain" in said()


def test_an_unknown_command() -> None:
    """It is refused as one."""
    done = CliRunner().invoke(trainwarden, ["no-such"])
    assert done.exit_code == 2
    assert "No such command" in done.output
