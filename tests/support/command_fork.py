"""Command lines as forks of a process that has imported the command (command_process)."""

import atexit
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

PROCESS = Path(__file__).with_name("command_process.py")
ROOT = Path(__file__).parents[2]
AT_ONCE = frozenset((
    "status", "explain", "incidents", "snapshots", "logs", "report", "history", "policy",
    "memory", "diagnose", "quarantine", "submit", "start", "stop", "restart", "drain",
    "forget", "pause", "resume",
))  # fmt: skip
"""Commands that read what there is, or ask a daemon, and end."""
AT_START = ("LD_", "PYTHON", "LC_", "LANG", "MALLOC_")
"""Variables that the start of a process alone heeds."""


@dataclass(frozen=True)
class CommandFork:
    """A process to fork command lines from, one after another."""

    orders: IO[str]
    answers: IO[str]
    free: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self,
        words: list[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        seconds: int,
        user: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """One command line to its end."""
        with memory_file() as output, memory_file() as errors:
            order = {
                "words": words, "cwd": str(cwd), "environment": dict(environment),
                "output": path_of(output), "errors": path_of(errors), "user": user,
                "seconds": seconds,
            }  # fmt: skip
            self.orders.write(json.dumps(order) + "\n")
            self.orders.flush()
            assert select.select([self.answers], [], [], seconds + 10)[0], words
            code = os.waitstatus_to_exitcode(int(self.answers.readline()))
            said, complained = (
                one.read().decode(errors="replace") for one in (output, errors)
            )
        return subprocess.CompletedProcess(words, code, said, complained)


def memory_file() -> IO[bytes]:
    """One that leaves nothing behind, whatever ends this process."""
    return os.fdopen(os.memfd_create("prints"), "rb")


def path_of(file: IO[bytes]) -> str:
    """Where another process of ours finds it."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


@contextmanager
def command_fork() -> Generator[CommandFork]:
    """Start the process, and end it."""
    with subprocess.Popen(
        [sys.executable, str(PROCESS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield CommandFork(process.stdin, process.stdout)
        finally:
            process.stdin.close()


@cache
def shared_fork() -> tuple[CommandFork, dict[str, str]]:
    """One for all tests of this process, and with which variables it was started."""
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(command_fork()), at_start(os.environ)


def at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """What of it the start of a process heeds."""
    return {
        name: value for name, value in environment.items() if name.startswith(AT_START)
    }


def answered(
    command: list[str], cwd: Path, seconds: int
) -> subprocess.CompletedProcess[str] | None:
    """What ``command`` (the program first) answers, from a fork; None where it takes a
    process from nothing: it trains or serves, or one is forked just now."""
    if command[1] not in AT_ONCE or "--follow" in command or "-f" in command:
        return None
    fork, started_with = shared_fork()
    if at_start(os.environ) != started_with or not fork.free.acquire(blocking=False):
        return None
    try:
        return fork.run(command[1:], cwd=cwd, environment=os.environ, seconds=seconds)
    finally:
        fork.free.release()
