"""A command line that cannot be read is answered in one sentence."""

import subprocess
from pathlib import Path

import pytest

from tests.support.command import COMMAND, Trainwarden


@pytest.fixture
def trainwarden(tmp_path: Path) -> Trainwarden:
    """The command, in an empty directory."""
    return Trainwarden(directory=tmp_path, state=tmp_path / "state")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "status --jsno",
            (
                "there is no option '--jsno': did you mean '--json'? `trainwarden status"
                " --help` lists them"
            ),
        ),
        (
            "run --epochs 3 train.py",
            (
                "there is no option '--epochs': an option of the script stands after the"
                " script, `trainwarden run SCRIPT --epochs`; `trainwarden run --help` lists"
                " them"
            ),
        ),
        (
            "logs",
            (
                "JOB is missing: say `trainwarden logs [OPTIONS] JOB`; `trainwarden logs"
                " --help` says more"
            ),
        ),
        (
            "status a b",
            (
                "`trainwarden status` does not take 'b': say `trainwarden status [OPTIONS]"
                " [JOB]`; `trainwarden status --help` says more"
            ),
        ),
        (
            "ui --port many",
            "--port: 'many' is not a whole number; `trainwarden ui --help` says more",
        ),
        (
            "memory x --wait long",
            "--wait: 'long' is not a number; `trainwarden memory --help` says more",
        ),
        (
            "ui --port 70000",
            (
                "--port: 70000 is not in the range 0<=x<=65535; `trainwarden ui --help` says"
                " more"
            ),
        ),
        (
            "run --name",
            "option '--name' requires an argument: `trainwarden run --help` says more",
        ),
        (
            "run --json=3 train.py",
            "option '--json' does not take a value: `trainwarden run --help` says more",
        ),
        (
            "history --since ever",
            (
                "--since: expected a date (2026-01-31, 2026-01-31T12:00) or 7d, got 'ever';"
                " `trainwarden history --help` says more"
            ),
        ),
    ],
)
def test_one_sentence(trainwarden: Trainwarden, line: str, sentence: str) -> None:
    """What is wrong and what to do, like any other refusal; exit code 2."""
    done = trainwarden(*line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"trainwarden: {sentence}\n"


def plain(*words: str) -> subprocess.CompletedProcess[str]:
    """The command, with nothing but these words."""
    return subprocess.run(
        [COMMAND, *words], capture_output=True, text=True, check=False
    )


def test_of_a_command_of_a_group() -> None:
    """It is named with its group; that click's parser names no command changes nothing."""
    done = plain("ledger", "backup", "--json=3")
    help_of_it = "`trainwarden ledger backup --help` says more"
    assert (done.returncode, done.stderr) == (
        2,
        f"trainwarden: option '--json' does not take a value: {help_of_it}\n",
    )


def test_a_missing_option() -> None:
    """It is named; usage would not name it."""
    done = plain("report", "digits")
    assert (done.returncode, done.stderr) == (
        2,
        "trainwarden: -o / --output is missing: `trainwarden report --help` says more\n",
    )


def test_a_group_alone_is_explained() -> None:
    """Its help is no error of anybody's."""
    done = plain("ledger")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: trainwarden ledger")
