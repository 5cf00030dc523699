"""A training as a person sees it: undisturbed, out of memory, killed, hanging, at its end."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import COMMAND, Trainwarden
from tests.support.recording import Recording
from tests.support.script_packages import SCRIPT_PACKAGES

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parents[2] / "trainers" / "reference"
QUICK = """
[liveness]
step = "15s"
"""


@pytest.fixture
def terminal(trainwarden: Trainwarden) -> Iterator[Recording]:
    """As people have it: scripts in the working directory, the command on the PATH."""
    shutil.copytree(SCRIPTS, trainwarden.directory, dirs_exist_ok=True)
    recording = Recording(
        trainwarden.directory,
        columns=130,
        rows=24,
        environment=(
            f"PATH={Path(COMMAND).parent}:{os.environ['PATH']}",
            f"TRAINWARDEN_STATE_DIR={trainwarden.state}",
            f"PYTHONPATH={SCRIPT_PACKAGES}",
            "TF_CPP_MIN_LOG_LEVEL=3",
        ),
    )
    try:
        yield recording
    finally:
        recording.close()


def test_a_training_that_nothing_happens_to(terminal: Recording) -> None:
    """Keras' own lines as ever, and one row below them; no line of ours in between."""
    terminal.run(["trainwarden", "run", "--snapshot-every", "5steps", "digits.py"])
    trains = r"attempt 1 · epoch [2-8]/8 · step \d+/12 ·.* loss \d.*saved .* left"
    screen = terminal.until(lambda shown: bool(re.search(trains, shown)))
    assert "accuracy" in screen
    ours = [line for line in screen.splitlines() if line.startswith("trainwarden:")]
    assert len(ours) <= 2, ours
    terminal.picture("terminal-run", "a run that nothing happens to")
    screen = terminal.until(lambda shown: "digits: finished in" in shown)
    assert "failed at step" not in screen


def test_a_training_through_two_crashes(
    trainwarden: Trainwarden, terminal: Recording
) -> None:
    """``make demo``, in a terminal: the row tells of slices, memory against its limit and
    how long it takes; each crash is said in a line; the end is summed up."""
    terminal.run(
        [
            "trainwarden",
            "run",
            "--cpu-memory",
            "280MiB",
            "--snapshot-every",
            "5steps",
            "digits.py",
        ]
    )
    terminal.until(
        lambda shown: (
            "attempt 1 failed at step 0: the device ran out of memory" in shown
        )
    )
    trains = (
        r"attempt 2 · epoch [2-8]/8 · step \d+/12 ·.* of 280 MiB · \d slices ·.* left"
    )
    terminal.until(lambda shown: bool(re.search(trains, shown)))
    terminal.picture("terminal-oom", "memory ran out: the same batch, in slices")
    found = trainwarden.until(lambda s: (s["epoch"] or 0) >= 1, job="digits")
    os.kill(found["pid"], signal.SIGKILL)
    terminal.until(lambda shown: "failed at step" in shown and "preempted" in shown)
    terminal.until(lambda shown: bool(re.search(r"attempt 3 · epoch", shown)))
    terminal.picture("terminal-kill", "killed: it goes on from the snapshot")
    screen = terminal.until(lambda shown: "digits: finished in" in shown)
    for told in ("metrics: ", "lost: ", "run peak: ", "log: ", "snapshots: "):
        assert f"\n  {told}" in screen, told
    assert "test accuracy" in screen
    terminal.picture("terminal-end", "the end, summed up")


def test_a_hang_is_seen_coming(trainwarden: Trainwarden, terminal: Recording) -> None:
    """The row says how long nothing has come; then it is judged, and the run goes on."""
    trainwarden.script(QUICK, "quick.toml")
    terminal.run(
        [*["trainwarden", "run", "--spec", "quick.toml"], *committing("deadlock")]
    )
    terminal.until(lambda shown: bool(re.search(r"nothing new for 1\d s", shown)))
    terminal.picture("terminal-hang", "a hang coming up")
    terminal.until(lambda shown: "attempt 1 failed at step" in shown)
    terminal.until(lambda shown: "misbehave: finished in" in shown)


def test_a_loss_that_is_no_number(terminal: Recording) -> None:
    """The line says what it was and where the run goes on."""
    terminal.run(["trainwarden", "run", *committing("lose-the-loss")])
    terminal.until(lambda shown: "non_finite_loss" in shown)
    terminal.until(lambda shown: bool(re.search(r"attempt 2 · epoch", shown)))
    terminal.picture("terminal-nan", "a loss that is no number: back to before it")
    terminal.until(lambda shown: "misbehave: finished in" in shown)


def committing(fault: str) -> list[str]:
    """The words for a script that commits a fault once, at a pace to be looked at."""
    words = "--snapshot-every 2steps misbehave.py {} --pause 0.2 --at 30"
    return words.format(fault).split()
