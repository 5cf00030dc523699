"""Threads that live on: what their work may do, and what becomes of it at an end."""

import multiprocessing
import subprocess
import sys
import threading

import pytest

from trainers.process import worker_threads

NAME = "test-lasting"


def ended(action: worker_threads.Action) -> worker_threads.Work:
    """What was started and waited for."""
    work = worker_threads.start(action, name=NAME)
    work.wait()
    return work


def test_one_thread_does_what_comes_in_turn() -> None:
    """And lets go of it."""
    seen: list[int] = []
    works = [ended(lambda: seen.append(threading.get_ident())) for _ in range(5)]
    assert len(set(seen)) == 1
    assert [(work.is_alive, work.action) for work in works] == [(False, None)] * 5


def test_none_waits_for_another() -> None:
    """Each has a thread of its own."""
    met = threading.Barrier(3)

    def meet() -> None:
        met.wait(60)

    works = [worker_threads.start(meet, name=NAME) for _ in range(2)]
    assert all(work.is_alive for work in works)
    met.wait(60)
    for work in works:
        work.wait()


def test_an_exception_is_told_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever hooks into exceptions of threads sees it; the thread goes on."""
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)

    def fail() -> None:
        raise KeyError

    seen: list[str] = []
    ended(fail)
    ended(lambda: seen.append(threading.current_thread().name))
    assert [one.exc_type for one in told] == [KeyError]
    assert seen == [NAME]


def _in_a_child(work: worker_threads.Work) -> None:
    work.wait()
    assert not work.is_alive
    assert not ended(lambda: None).is_alive


def test_a_forked_child_waits_for_nothing_of_its_parent() -> None:
    """It has none of the threads; what it starts gets its own."""
    go_on = threading.Event()

    def stay() -> None:
        go_on.wait(60)

    work = worker_threads.start(stay, name=NAME)
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_in_a_child, args=(work,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert work.is_alive
    go_on.set()
    work.wait()


SCRIPT = """
import os, sys, time
from trainers.process import worker_threads as lasting_threads

def slow():
    time.sleep(0.5)
    print("done", flush=True)

lasting_threads.start(slow, name="slow")
if sys.argv[1] == "fork" and os.fork() == 0:
    sys.exit(0)
if sys.argv[1] == "now":
    os._exit(3)
sys.exit(4)
"""


@pytest.mark.parametrize(
    ("how", "code", "out"),
    [("end", 4, "done\n"), ("fork", 4, "done\n"), ("now", 3, "")],
)
def test_a_process_that_ends_waits_for_what_is_at_work(
    how: str, code: int, out: str
) -> None:
    """But for no idle thread, not in a forked child, and not where it ends at once."""
    words = [sys.executable, "-c", SCRIPT, how]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, out, "")
