"""Starts attempts from a process that has imported TensorFlow already.

Importing takes longer than a row's training. Nothing of TensorFlow has run in here
(no device, no thread of its runtime), so a fork of it is as good as a new process: each
attempt is a real one, with its own pid, killed by a real SIGKILL.

One JSON object a line on standard input: ``{"launch": DIRECTIVE}`` or ``{"script":
PATH, "args": […]}`` with ``cwd``, ``environment``, ``output`` and, where they are to be
apart, ``errors`` (paths for what it prints). One line back: its wait status.
"""

import importlib
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCRIPT_PACKAGES = Path(sys.prefix) / "script-packages"
"""See ``tests.support.script_packages``: imported here once, not in each attempt."""


def become(order: dict[str, Any]) -> None:
    """In the child: be what was ordered."""
    for stream, name in ((1, "output"), (2, "errors")):
        path = order.get(name, order["output"])
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(order["environment"])
    os.chdir(order["cwd"])
    if "launch" in order:
        sys.argv = [str(ROOT / "trainers" / "launch.py"), order["launch"]]
        # What ``python launch.py`` puts first; the file takes it away again.
        sys.path.insert(0, str(ROOT / "trainers"))
    else:
        sys.argv = [order["script"], *order["args"]]
        sys.path.insert(0, str(Path(order["script"]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


def serve() -> None:
    """Import, then fork for each order."""
    sys.path.append(str(SCRIPT_PACKAGES))
    for name in ("tensorflow", "keras"):
        importlib.import_module(name)  # what takes the time
    sys.path.pop(0)  # our own directory
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
