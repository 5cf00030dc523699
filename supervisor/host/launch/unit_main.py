"""The first process of an attempt's own unit: it becomes the shim.

``python -I -m supervisor.host.launch.unit_main REQUEST.json``, as the job's user. The daemon
writes nothing into a user's directories: it asks here, and what belongs to the user is
made by the user's own process. A request says what to run, where and with what; it lies
in a directory that only root hands out and only the daemon writes.
"""

import fcntl
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from supervisor.core.text.log_level import LogLevel
from supervisor.host.service.journal import marked
from supervisor.wire.files import read_json, write_json
from supervisor.wire.paths import AttemptPaths

CHANNEL, DIRECTORY = 8, 9
"""Descriptors of a process that stands by: the daemon names them in its command."""
ASIDE = 16
"""Higher than either: none of them is in the other's place."""
CONNECT_SECONDS = 20.0
EX_UNAVAILABLE = 69
"""From sysexits.h."""


def main(arguments: list[str]) -> NoReturn:
    """Become what the request in ``arguments`` asks for; does not return."""
    if len(arguments) != 1:
        sys.exit("usage: attempt_unit REQUEST.json")
    request = read_json(Path(arguments[0]), links=True)  # no user writes there
    if request is None:
        said = f"trainwarden: no request that could be read in {arguments[0]}"
        sys.exit(marked(said, LogLevel.ERROR))
    try:
        if "directive" in request:
            prepare(request)
        if "standby" in request:
            prepare_standby(request["standby"])
        become(request)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        said = marked(f"trainwarden: {error.strerror}{where}", LogLevel.ERROR)
        sys.stderr.write(f"{said}\n")
    sys.exit(EX_UNAVAILABLE)


def prepare(request: Mapping[str, Any]) -> None:
    """Make the attempt's directories and its directive. Raises OSError."""
    directive = cast("dict[str, Any]", request["directive"])
    paths = AttemptPaths(Path(directive["attempt_directory"]))
    snapshots = Path(directive["snapshot_directory"])
    snapshots.mkdir(parents=True, exist_ok=True, mode=0o750)
    forget_earlier_runs(snapshots.parent)
    paths.dumps.mkdir(parents=True, exist_ok=True, mode=0o750)
    write_json(paths.directive, directive)


def prepare_standby(standby: Mapping[str, Any]) -> None:
    """Open what a process needs that waits to be an attempt: what it is told by, and a
    directory of its own. Raises OSError."""
    place = Path(str(standby["place"]))
    shutil.rmtree(place, ignore_errors=True)  # of those before it
    place.mkdir(parents=True, mode=0o750)
    own = place / str(os.getpid())
    AttemptPaths(own).dumps.mkdir(parents=True, mode=0o750)
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(CONNECT_SECONDS)
    channel.connect(str(standby["socket"]))
    channel.settimeout(None)
    directory = os.open(own, os.O_RDONLY | os.O_DIRECTORY)
    opened = (channel.detach(), CHANNEL), (directory, DIRECTORY)
    aside = [
        (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, ASIDE), target)
        for number, target in opened
    ]
    for number, target in aside:
        os.dup2(number, target, inheritable=True)


def forget_earlier_runs(run: Path) -> None:
    """A new run has begun: the snapshots of those before it are of no more use."""
    for earlier in run.parent.glob("run-*"):
        if 0 < _number(earlier) < _number(run):
            shutil.rmtree(earlier / "snapshots", ignore_errors=True)


def _number(run: Path) -> int:
    """Of ``run-7`` 7; 0 of anything else."""
    number = run.name.removeprefix("run-")
    return int(number) if number.isdecimal() else 0


def become(request: Mapping[str, Any]) -> None:
    """Replace this process. Raises OSError: it could not be."""
    os.chdir(request["directory"])
    command = [str(part) for part in request["command"]]
    given = {str(k): str(v) for k, v in request["environment"].items()}
    environment = {**os.environ, **given}
    os.execve(command[0], command, environment)  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
