"""The control socket, asked by schemathesis for all that its own document allows, and
for much that it does not: https://schemathesis.readthedocs.io.

A short run with one seed here; ``make fuzz`` makes a long one with another each time.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.host.control.control_client import Client, NoDaemonError
from tests.support.boxes import PATIENCE, until
from tests.support.relay import relayed

ROOT = Path(__file__).parents[3]
MANY = int(os.environ.get("TRAINWARDEN_FUZZ", "0"))
COVERAGE = ["--phases=coverage", "--max-examples=1", "--seed=7"]
FUZZING = ["--phases=coverage,fuzzing", "--max-examples=3", "--seed=7"]
LONG = [f"--max-examples={max(MANY // 500, 3)}"]
SHORT = [  # make test asks for the like of it in test_hostile_input
    pytest.param(COVERAGE, id="coverage", marks=pytest.mark.slow),
    pytest.param(FUZZING, id="fuzzing", marks=pytest.mark.slow),
]
RUNS = [pytest.param(LONG, id="long")] if MANY else SHORT


class Fuzzed:
    """A daemon whose attempts are no processes."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.client = Client(self.state / "control.sock")
        config = directory / "trainwarden.toml"
        config.write_text(
            f'state_dir = "{self.state}"\n[gpus]\nuse = ["GPU-a", "GPU-b"]\n'
        )
        self.log = directory / "daemon.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.quick_daemon", str(config)],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def answers(self) -> bool:
        """Whether it does."""
        try:
            self.client.get("/v1/status")
        except NoDaemonError:
            return False
        return True

    def end(self) -> str:
        """End it; what it said."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(timeout=PATIENCE)
        return self.log.read_text()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Fuzzed]:
    """One that answers."""
    fuzzed = Fuzzed(tmp_path)
    try:
        until(lambda: fuzzed.answers() or fuzzed.process.poll() is not None)
        yield fuzzed
    finally:
        fuzzed.end()


def schemathesis(url: str, *options: str, directory: Path) -> tuple[int, str]:
    """How its run ends, and what it says."""
    program = Path(sys.executable).with_name("schemathesis")
    done = subprocess.run(
        [program, "run", f"{url}/v1/openapi.json", "--checks=all", "--no-color",
         *options],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", RUNS)
def test_what_the_document_says_holds(
    daemon: Fuzzed, tmp_path: Path, options: list[str]
) -> None:
    """Every answer has a status, a type and a shape that the document tells of; what it
    allows is not refused as malformed, and what it forbids is; nobody gets a 500, and
    the daemon is there afterwards."""
    with relayed(daemon.state / "control.sock") as url:
        code, said = schemathesis(url, *options, directory=tmp_path)
    assert code == 0, said
    assert daemon.answers()
    assert "Traceback" not in daemon.end()
