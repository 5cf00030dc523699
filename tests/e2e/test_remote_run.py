"""``run`` and ``status`` with a remote tier, up to where training begins."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import Trainwarden

SECRET = "wJalrXUtnFEMI"  # noqa: S105  # of nobody


def spec(trainwarden: Trainwarden, address: str, name: str = 'name = "train"') -> Path:
    """A plain script, with snapshots sent to ``address``."""
    trainwarden.script("print('trained')")
    path = trainwarden.directory / "job.toml"
    path.write_text(f'script = "train.py"\n{name}\n[snapshots]\nremote = "{address}"\n')
    return path


@pytest.fixture
def address(tmp_path: Path) -> str:
    """Of an empty directory that machines share."""
    (tmp_path / "shared").mkdir()
    return f"file://{tmp_path}/shared"


def test_a_run_leaves_its_end_there_and_is_not_done_twice(
    trainwarden: Trainwarden, address: str, tmp_path: Path
) -> None:
    """On a second machine ``status`` tells how it ended, and a scheduler's start nothing
    to do."""
    job = spec(trainwarden, address)
    done = trainwarden("run", "--spec", job)
    assert done.returncode == 0, done.stderr
    told = trainwarden("status", "--remote", address)
    assert "train · finished on " in told.stdout
    (found,) = json.loads(
        trainwarden("status", "--remote", address, "--json", "train").stdout
    )
    assert (found["state"], found["claims"], found["step"]) == ("finished", 1, None)
    again = trainwarden("run", "--requeued", "--spec", job, state=tmp_path / "other")
    assert again.returncode == 0
    assert "has finished before, on " in again.stderr
    assert "trained" not in again.stdout
    none = trainwarden("status", "--remote", address, "nobody")
    assert (none.returncode, "no job 'nobody'" in none.stderr) == (2, True)


def test_no_credentials_anywhere(trainwarden: Trainwarden, tmp_path: Path) -> None:
    """An address with one is refused, before anything is written; so is a name that
    another machine could not guess."""
    done = trainwarden("run", "--spec", spec(trainwarden, f"s3://AKIA:{SECRET}@bucket"))
    assert (done.returncode, SECRET in done.stderr + done.stdout) == (2, False)
    assert "credentials come from the platform" in done.stderr
    told = trainwarden("status", "--remote", f"az://bucket/a?sig={SECRET}")
    assert (told.returncode, SECRET in told.stderr) == (2, False)
    assert "never stand in an address" in told.stderr
    assert not (tmp_path / "state").exists()
    done = trainwarden("run", "--spec", spec(trainwarden, "s3://bucket", name=""))
    assert (done.returncode, "--name" in done.stderr) == (2, True)


def test_a_missing_extra_is_said_before_anything_runs(
    trainwarden: Trainwarden, address: str
) -> None:
    """One sentence, with what to install."""
    job = spec(trainwarden, address)
    hidden = (
        "import sys; sys.modules['obstore'] = None;"
        "from supervisor.cli.entry import main; main()"
    )
    command = trainwarden.command("run", "--spec", job)
    ended = subprocess.run(
        [sys.executable, "-c", hidden, *command[1:]],
        cwd=trainwarden.directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "pip install 'trainwarden[remote]'" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_store_that_is_not_there(trainwarden: Trainwarden, tmp_path: Path) -> None:
    """How far the run has come is unknown: a person is told, a scheduler comes again."""
    job = spec(trainwarden, f"file://{tmp_path}/mnt")
    done = trainwarden("run", "--spec", job)
    assert (done.returncode, "is it mounted?" in done.stderr) == (1, True)
    assert trainwarden("run", "--requeued", "--spec", job).returncode == 75
