"""Runs command lines from a process that has imported the command already.

Importing takes most of the time of a command that answers at once. Each command line is a
fork of its own: a real process with its own descriptors, environment and exit code.

One JSON object a line on standard input: ``words``, ``cwd``, ``environment``, ``output``,
``errors`` (paths for what it prints), ``user`` (a number; None: as we are) and ``seconds``
(then it is killed). One line back: its wait status.
"""

import gc
import importlib
import json
import os
import signal
import sys
import time
from typing import Any

from supervisor.cli import entry
from supervisor.cli.command_group import COMMANDS


def become(order: dict[str, Any]) -> None:
    """In the child: be what was ordered."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "output"), (2, "errors")):
        os.dup2(os.open(order[name], os.O_WRONLY | os.O_APPEND), number)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(
        2, "w", encoding="utf-8", errors="backslashreplace", closefd=False
    )
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    os.chdir(order["cwd"])
    if order["user"] is not None:
        os.setgroups([])
        os.setgid(order["user"])
        os.setuid(order["user"])
    signal.alarm(order["seconds"])
    sys.argv = ["trainwarden", *order["words"]]
    entry.main()


def serve() -> None:
    """Import, then fork for each order."""
    for module, _ in COMMANDS.values():
        importlib.import_module(f"supervisor.cli.commands.{module}")
    gc.freeze()  # a fork copies no page for want of a look at it
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            become(order)
            return
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
