"""Starts attempts that stood by first: what a zygote does, for scripts of which the next
attempt has imported what the one before did (``restart.standby``)."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisor.wire.files import read_json
from supervisor.wire.messages.directive import Directive
from supervisor.wire.messages.standby_messages import (
    MOST_BYTES,
    WORD,
    HandOver,
    StandbyPlan,
    line,
)
from supervisor.wire.paths import AttemptPaths
from tests.support.fresh import LAUNCH, PATIENCE, Fresh, with_ours


@dataclass
class StandbyParent:
    """Takes the orders of a ``Zygote``. The first attempt of a run is a Python of its own;
    each that follows one which recorded its imports stands by, and is handed over."""

    stood_by: int = 0
    """How many attempts were processes that had stood by, and said that they wait."""

    def run(
        self,
        *,
        cwd: str,
        environment: Mapping[str, str],
        output: str,
        launch: str | None = None,
        script: str | None = None,
        args: Sequence[str] = (),
    ) -> int:
        """One attempt to its end: its exit code; negative: the signal."""
        imports = None if launch is None else _imports_before(_directive(launch))
        if launch is None or imports is None:
            return Fresh().run(
                cwd=cwd,
                environment=environment,
                output=output,
                launch=launch,
                script=script,
                args=args,
            )
        ours, theirs = socket.socketpair()
        place = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY)
        with ours, Path(output).open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, str(LAUNCH), WORD, f"{theirs.fileno()},{place}"],
                cwd=cwd,
                env=with_ours(environment),
                pass_fds=(theirs.fileno(), place),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
            theirs.close()
            os.close(place)
            self._hand_over(ours, launch, imports)
            return process.wait(PATIENCE)

    def _hand_over(self, channel: socket.socket, launch: str, imports: Path) -> None:
        """As a supervisor does, once the process has said how it is."""
        channel.settimeout(PATIENCE)
        told = _directive(launch)
        arguments = (told.script, *told.args)
        plan = StandbyPlan(imports=str(imports), seed=told.seed, arguments=arguments)
        channel.sendall(line(plan))
        answer = b""
        while not answer.endswith(b"\n"):
            part = channel.recv(MOST_BYTES)
            assert part, "it has ended"
            answer += part
        self.stood_by += not json.loads(answer)["because"]
        channel.sendall(line(HandOver(directive=launch)))


def _directive(path: str) -> Directive:
    value = read_json(Path(path))
    found = None if value is None else Directive.from_json(value)
    assert found is not None
    return found


def _imports_before(told: Directive) -> Path | None:
    """What the attempt before wrote down; None: there was none, or it wrote nothing."""
    before = Path(told.attempt_directory).with_name(f"attempt-{told.attempt - 1}")
    imports = AttemptPaths(before).imports
    return imports if imports.exists() else None
