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


def test_an_unknown_command() -> None:
    """It is refused as one."""
    done = CliRunner().invoke(trainwarden, ["no-such"])
    assert done.exit_code == 2
    assert "No such command" in done.output
