"""The list of commands, and what each says of itself."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from supervisor.cli.command_group import COMMANDS, main, trainwarden
from supervisor.host.ledger.ledger import Ledger


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
    told = said(name, "--help")
    assert f"trainwarden {name}" in told
    assert "\\b" not in told  # click's mark for lines that stay as they are


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
    assert "there is no command 'no-such': " in done.output


def test_a_directory_that_is_gone_is_told(tmp_path: Path) -> None:
    """Whatever was asked: in one sentence."""
    here = tmp_path / "here"
    here.mkdir()
    script = (
        "import os, sys; from supervisor.cli.command_group import main;"
        " os.rmdir(os.getcwd()); sys.argv[1:] = ['run', 'x.py']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "trainwarden: the directory that you are in is gone: change to one that exists\n"
    )


def test_ctrl_c_before_anything_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends as shells expect it, and not as a run that gave up."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trainwarden, "invoke", interrupt)
    monkeypatch.setattr(sys, "argv", ["trainwarden", "status"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def test_a_backup_that_cannot_be_written_does_not_blame_the_ledger(
    tmp_path: Path,
) -> None:
    """Where it should go is what is wrong."""
    Ledger(tmp_path / "ledger.sqlite").close()
    target = tmp_path / "missing" / "copy.sqlite"
    words = ["ledger", "backup", "--state-dir", str(tmp_path), str(target)]
    done = CliRunner().invoke(trainwarden, words)
    assert done.exit_code == 1
    assert f"the backup {target} cannot be written: No such file" in done.output


@pytest.mark.parametrize(
    ("word", "meant"),
    [("statsu", "status"), ("rnu", "run"), ("incident", "incidents"), ("bogus", None)],
)
def test_what_is_no_command_is_told_with_what_was_meant(
    word: str, meant: str | None
) -> None:
    """Only where a command is like it."""
    done = CliRunner().invoke(trainwarden, [word], prog_name="trainwarden")
    assert done.exit_code == 2
    if meant is None:
        assert "did you mean" not in done.output
    else:
        assert f"did you mean {meant!r}?" in done.output
    assert "`trainwarden --help` lists them" in done.output
