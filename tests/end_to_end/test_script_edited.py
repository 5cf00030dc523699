"""A script that is edited while it runs: the run ends as it began."""

import os
import signal

import pytest

from tests.support.command import PATIENCE, Trainwarden

SCRIPT = """
import pathlib, time
print("as it began", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""


@pytest.mark.parametrize("gone", [False, True])
def test_a_restart_goes_on_with_what_began(
    trainwarden: Trainwarden, *, gone: bool
) -> None:
    """Edited or removed, it is run as it was, and that is told. Who starts the run
    again is asked, and then gets the new one."""
    script = trainwarden.script(SCRIPT)
    process = trainwarden.start("run", script)
    first = trainwarden.until(lambda status: status["pid"])
    wait_for(trainwarden, "as it began\n")
    script.write_text("print('as it is now', flush=True)\n")
    if gone:
        script.unlink()
    os.kill(first["pid"], signal.SIGKILL)
    trainwarden.until(lambda status: status["pid"] and status["attempt"] == 2)
    wait_for(trainwarden, "as it began\n")
    (trainwarden.directory / "go").touch()
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    assert "was changed after the run began" in output
    if not gone:
        again = trainwarden("run", script)
        assert again.returncode == 0, again.stderr
        assert trainwarden("logs", "train").stdout == "as it is now\n"


def wait_for(trainwarden: Trainwarden, text: str) -> None:
    """Until the newest attempt has printed this, and nothing else."""
    trainwarden.until(lambda _status: trainwarden("logs", "train").stdout == text)
