"""Processes are found by the marker in their environment; who does not answer is passed
over."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.host.environments import Environments, marker_of
from supervisor.wire.directive import MARKER

PATIENCE = 60.0
HANGS, ANSWERS = 4194301, 4194302
"""Pids that no process can have: the kernel's highest is 4194304."""


def until(true: Callable[[], bool]) -> None:
    """Wait for it."""
    ends = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.01)


@pytest.fixture
def proc(tmp_path: Path) -> Iterator[Path]:
    """A ``/proc`` in which one process lets whoever reads its environment wait for ever,
    as one whose mappings are locked does, and another answers."""
    for pid in (HANGS, ANSWERS):
        (tmp_path / str(pid)).mkdir()
    hangs = tmp_path / str(HANGS) / "environ"
    os.mkfifo(hangs)
    (tmp_path / str(ANSWERS) / "environ").write_bytes(b"A=1\0" + marker_of("a-run", 3))
    (tmp_path / "uptime").write_text("no process")
    yield tmp_path
    until(lambda: _is_let_go(hangs))


def _is_let_go(hangs: Path) -> bool:
    """Whether no thread waits there any more."""
    with contextlib.suppress(OSError):  # nobody reads
        os.close(os.open(hangs, os.O_WRONLY | os.O_NONBLOCK))
    return not _reading()


def _reading() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "environments"]


def test_processes_of_a_run_are_found_by_their_marker() -> None:
    """Also a worker that left its session and outlived the shim."""
    worker = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        env={**os.environ, MARKER: "unit-test-run/1"},
        start_new_session=True,
    )
    asked = Environments()
    run, attempt = marker_of("unit-test-run"), marker_of("unit-test-run", 1)
    try:
        until(lambda: worker.pid in asked.wait_for(run))  # it has begun its program
        assert worker.pid in asked.wait_for(attempt)
        assert asked.wait_for(run)[worker.pid].startswith("python")
        assert asked.wait_for(marker_of("unit-test-run", 11)) == {}
        assert asked.wait_for(marker_of("another-run")) == {}
    finally:
        worker.kill()
        worker.wait()
    assert asked.wait_for(run) == {}


def test_who_does_not_answer_is_waited_for_in_no_loop(proc: Path) -> None:
    """Nothing is known as long as it may answer yet, and the loop goes on."""
    asked = Environments(proc=proc, silent_seconds=PATIENCE)
    marker = marker_of("a-run")
    assert asked.carriers(marker) is None
    assert asked.carriers(marker) is None
    assert len(_reading()) == 1
    until(lambda: _is_let_go(proc / str(HANGS) / "environ"))
    assert asked.carriers(marker) == {ANSWERS: "?"}


def test_who_did_not_answer_is_passed_over_from_then_on(proc: Path) -> None:
    """The thread that asked it stays behind, and no other follows."""
    asked = Environments(proc=proc, silent_seconds=0.05)
    for _ in range(5):
        assert asked.wait_for(marker_of("a-run")) == {ANSWERS: "?"}
        assert asked.wait_for(marker_of("another-run")) == {}
    assert len(_reading()) == 1
