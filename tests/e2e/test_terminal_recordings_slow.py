"""A training as a person sees it: memory runs out, somebody kills it, it finishes."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.support.command import Trainwarden
from tests.support.recording import Recording
from tests.support.script_packages import SCRIPT_PACKAGES

pytestmark = pytest.mark.slow

DIGITS = Path(__file__).parents[2] / "trainers" / "reference" / "digits.py"


def test_a_training_through_two_crashes(trainwarden: Trainwarden) -> None:
    """``make demo``, in a terminal: the row tells of slices, memory against its limit and
    how long it takes; each crash is said in a line; the end is summed up."""
    terminal = Recording(trainwarden.directory, columns=150, rows=24)
    try:
        limited = (
            *("run", "--cpu-memory", "280MiB", "--snapshot-every", "5steps"),
            *("--env", f"PYTHONPATH={SCRIPT_PACKAGES}"),
        )
        terminal.run([*trainwarden.command(*limited), str(DIGITS)])
        terminal.until(lambda shown: "attempt 1 failed at step 0: device_oom" in shown)
        trains = (
            r"attempt 2 · epoch \d/8 · step \d+/12 ·.* of 280 MiB · \d slices ·.* left"
        )
        terminal.until(lambda shown: bool(re.search(trains, shown)))
        found = trainwarden.until(lambda s: (s["epoch"] or 0) >= 1, job="digits")
        os.kill(found["pid"], signal.SIGKILL)
        terminal.until(lambda shown: "failed at step" in shown and "preempted" in shown)
        terminal.until(lambda shown: bool(re.search(r"attempt 3 · epoch", shown)))
        screen = terminal.until(lambda shown: "digits: finished in" in shown)
        for told in ("metrics: ", "lost: ", "peak: ", "log: ", "snapshots: "):
            assert f"\n  {told}" in screen, told
        assert "test accuracy" in screen
    finally:
        terminal.close()
