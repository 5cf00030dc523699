"""The demo of the README, whole."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.demo import EXPECTED

DEMO = Path(__file__).with_name("demo.py")
TRAINWARDEN = str(Path(sys.executable).with_name("trainwarden"))


def test_the_demo(tmp_path: Path) -> None:
    """Out of memory, then killed in the middle of an epoch, and it ends well.

    The driver checks causes, steps and accuracy, and ends with 0 only if all hold.
    """
    state = tmp_path / "state"
    told = subprocess.run(
        [sys.executable, DEMO, state],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert told.returncode == 0, told.stdout
    assert "The script ran to its end" in told.stdout
    again = subprocess.run(
        [TRAINWARDEN, "incidents", "--json", "--state-dir", str(state)],
        check=True,
        capture_output=True,
        timeout=60,
    )
    causes = [incident["cause"] for incident in json.loads(again.stdout)]
    assert causes == EXPECTED
