"""Processes are found by the marker in their environment; who does not answer is passed
over."""

import contextlib
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisor.host.process import marker_scan
from supervisor.host.process.marker_scan import MarkerScan, marker_of
from supervisor.host.process.proc_files import stat
from supervisor.wire.messages.directive import MARKER

PATIENCE = 60.0
HANGS = 4194301
"""A pid that no process can have, but one: the kernel's highest is 4194304."""
RUN_ID = f"test-environments-{os.getpid()}"
RUN, OTHER = marker_of(RUN_ID), marker_of("another-run")


def until(true: Callable[[], bool]) -> None:
    """Wait for it."""
    ends = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.01)


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """One that left its session, and its shim."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, MARKER: f"{RUN_ID}/1"},
        start_new_session=True,
    )
    until(lambda: MARKER in Path(f"/proc/{process.pid}/environ").read_text())
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def proc(tmp_path: Path, worker: subprocess.Popen[bytes]) -> Iterator[Path]:
    """A ``/proc`` in which one process lets whoever reads its environment wait for ever,
    as one whose mappings are locked does, and the worker answers."""
    (tmp_path / str(worker.pid)).symlink_to(f"/proc/{worker.pid}")
    (tmp_path / str(HANGS)).mkdir()
    os.mkfifo(tmp_path / str(HANGS) / "environ")
    (tmp_path / "uptime").write_text("no process")
    yield tmp_path
    answer(tmp_path)


def answer(proc: Path) -> None:
    """Let whoever waits for the silent process go on: its environment is empty."""

    def is_let_go() -> bool:
        with contextlib.suppress(OSError):  # nobody reads
            os.close(
                os.open(proc / str(HANGS) / "environ", os.O_WRONLY | os.O_NONBLOCK)
            )
        return not reading()

    until(is_let_go)


def reading() -> list[threading.Thread]:
    """The threads that read."""
    return [one for one in threading.enumerate() if one.name == "environments"]


def test_processes_of_a_run_are_found_by_their_marker(
    worker: subprocess.Popen[bytes],
) -> None:
    """Of the run, of the attempt, and of no other; with who exactly they are."""
    asked = MarkerScan()
    found = asked.wait_for(RUN)
    assert found.keys() == {worker.pid}
    known = stat(worker.pid)
    assert known is not None
    assert found[worker.pid].started_ticks == known.started_ticks
    assert found[worker.pid].name.startswith("python")
    assert asked.wait_for(marker_of(RUN_ID, 1)) == found
    assert asked.wait_for(marker_of(RUN_ID, 11)) == {}
    assert asked.wait_for(marker_of(RUN_ID[:-1])) == {}
    assert asked.wait_for(OTHER) == {}
    worker.kill()
    worker.wait()
    assert asked.wait_for(RUN) == {}


def test_who_does_not_answer_is_waited_for_in_no_loop(
    proc: Path, worker: subprocess.Popen[bytes]
) -> None:
    """Nothing is known as long as it may answer yet; one thread asks for all."""
    asked = MarkerScan(proc=proc, silent_seconds=PATIENCE)
    for _ in range(3):
        assert asked.carriers(RUN) is None
        assert asked.carriers(OTHER) is None
    assert len(reading()) == 1
    answer(proc)
    assert (asked.carriers(RUN) or {}).keys() == {worker.pid}
    (proc / str(HANGS) / "environ").unlink()
    assert asked.wait_for(OTHER) == {}


def test_who_does_not_answer_is_passed_over_until_it_does(
    proc: Path, worker: subprocess.Popen[bytes]
) -> None:
    """The thread that asked it stays behind, and no other follows."""
    asked = MarkerScan(proc=proc, silent_seconds=0.05)
    for _ in range(5):
        assert asked.wait_for(RUN).keys() == {worker.pid}
        assert asked.wait_for(OTHER) == {}
    assert len(reading()) == 1
    answer(proc)
    assert asked.wait_for(RUN).keys() == {worker.pid}
    assert len(reading()) == 1  # it was asked again


def test_what_was_found_long_ago_is_not_believed(
    proc: Path, worker: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked, and did not ask again for a while, asks anew."""
    asked = MarkerScan(proc=proc, silent_seconds=PATIENCE)
    assert asked.carriers(RUN) is None
    answer(proc)
    worker.kill()
    worker.wait()
    monkeypatch.setattr(marker_scan, "KNOWN_SECONDS", 0.0)
    assert asked.carriers(RUN) is None
    answer(proc)


def test_where_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no answer: somebody may be left."""

    def too_many(_path: object) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files")

    asked = MarkerScan()
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", too_many)
        with pytest.raises(OSError, match="Too many open files"):
            asked.wait_for(RUN)
    assert asked.wait_for(OTHER) == {}


def test_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the limit of a cgroup."""

    def no_more(_thread: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    asked = MarkerScan()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        with pytest.raises(OSError, match="can't start new thread"):
            asked.carriers(RUN)
    assert asked.wait_for(RUN) == {}
