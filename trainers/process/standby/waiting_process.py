"""The process that waits: it imports ahead, then becomes an attempt, or ends.

It holds no directive and has no page: to everybody it is none of training. It ends when
the socket does, whatever became of the supervisor; the kernel takes it before training
where memory runs out.
"""

import contextlib
import functools
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from supervisor.wire.files import write_json
from supervisor.wire.json_record import JsonRecord
from supervisor.wire.messages.directive import BATCH_ENVIRONMENT
from supervisor.wire.messages.standby_messages import (
    MOST_BYTES,
    HandOver,
    StandbyAnswer,
    StandbyPlan,
    line,
)
from trainers.process.standby.import_context import read
from trainers.process.standby.preloaded_modules import (
    PreloadedModules,
    UnusableError,
    applied,
    preload,
)

Message = TypeVar("Message", bound=JsonRecord)

FIRST_TO_DIE = "1000"
"""The most of ``/proc/self/oom_score_adj`` (proc(5))."""
TERMINATED = 128 + signal.SIGTERM
"""As a shell says it."""
TOLD_TO_THE_SCRIPT = frozenset({BATCH_ENVIRONMENT})
"""Variables that the script alone looks at, if at all: no package that was imported ahead
has read them."""
CHANGED = "{} was changed after it had been imported ahead"
NOT_MOVED = "trainwarden: the process that stood by cannot be the attempt: {}"
COLD = "the standby was of no use, and this attempt starts cold: {}"


def wait(numbers: str) -> list[str]:
    """Import ahead and wait: the arguments of the attempt that this process becomes.

    ``numbers``: of the socket, and of the directory where the attempt's files lie until it
    is one. Ends the process where there is nothing to become.
    """
    channel, directory = map(int, numbers.split(","))
    given, directory = directory, os.dup(directory)  # what it starts does not get it
    os.close(given)
    initial = dict(os.environ)
    with socket.socket(fileno=channel) as speaks:
        speaks.set_inheritable(False)
        usual = _take_me_first()
        told_by = _Channel(speaks)
        plan = told_by.heard(StandbyPlan)
        preloaded, because = _preloaded(plan)
        answer = StandbyAnswer(because=because, memory_bytes=_memory_bytes())
        with contextlib.suppress(OSError):
            speaks.sendall(line(answer))
        told = told_by.heard(HandOver)
    _give(usual)
    _moved(directory, told)
    os.close(directory)
    _go_to(told.working_directory)
    restart = functools.partial(_cold, told, initial)
    if preloaded is None:
        restart(because)
    changed = preloaded.changed()
    if changed is not None:
        restart(CHANGED.format(changed))
    others = sorted(told.environment.keys() - TOLD_TO_THE_SCRIPT)
    if others:
        restart(f"its environment differs: {', '.join(others)}")
    for name, value in told.environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    preloaded.offer(applied(initial, told.environment), restart)
    return [told.directive]


def _preloaded(plan: StandbyPlan) -> tuple[PreloadedModules | None, str]:
    records = read(Path(plan.imports))
    if not records:
        return None, "how the script imports its framework is not known"
    try:
        return preload(records, seed=plan.seed, arguments=plan.arguments), ""
    except UnusableError as error:
        return None, str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # an import may raise anything
        return None, f"{type(error).__name__}: {error}"[:500]


class _Channel:
    """What the supervisor says, line by line: it may say more before we listen."""

    def __init__(self, speaks: socket.socket) -> None:
        self._speaks = speaks
        self._text = bytearray()

    def heard(self, kind: type[Message]) -> Message:
        """The next message; a descriptor that comes with it is what we read from then on.
        Ends the process where nobody says anything any more."""
        while b"\n" not in self._text:
            self._listen()
        text, _, rest = bytes(self._text).partition(b"\n")
        self._text[:] = rest
        found = kind.from_json(_object(text))
        if found is None:
            _leave()
        return found

    def _listen(self) -> None:
        try:
            part, descriptors, _, _ = socket.recv_fds(self._speaks, MOST_BYTES, 1)
        except OSError:
            part, descriptors = b"", []
        for one in descriptors:
            os.dup2(one, 0)
            os.close(one)
        if not part:
            _leave()
        self._text += part


def _moved(directory: int, told: HandOver) -> None:
    """Where the attempt's files are for us to move, they are. Ends the process where they
    cannot be."""
    if told.content is None:
        return
    target = Path(told.directive)
    try:
        own = Path(f"/proc/self/fd/{directory}").readlink()
        write_json(own / target.name, told.content)
        own.rename(target.parent)
    except OSError as error:
        print(NOT_MOVED.format(error), file=sys.stderr)  # noqa: T201  # into its log: nobody else hears it any more
        _leave()


def _go_to(directory: str | None) -> None:
    """Where a cold start would begin. Ends the process where that is not there any more."""
    if directory is None:
        return
    try:
        os.chdir(directory)
    except OSError as error:
        print(NOT_MOVED.format(error), file=sys.stderr)  # noqa: T201  # into its log, as nobody else hears it
        _leave()


def _leave() -> NoReturn:
    """As if it were told to: it may have the name of an attempt by now, and with exit code
    0 that would be one which came to its end."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTERM)
    raise SystemExit(TERMINATED)


def _object(text: bytes) -> dict[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else {}


def _cold(told: HandOver, initial: dict[str, str], because: str) -> NoReturn:
    """Be the attempt as if nothing had been imported: a new image in the same process."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    script = str(Path(__file__).parents[2] / "launch.py")
    interpreter = sys.orig_argv[0]
    words = [interpreter, script, told.directive, COLD.format(because)]
    os.execvpe(interpreter, words, applied(initial, told.environment))  # noqa: S606  # no shell


def _take_me_first() -> str | None:
    """What the kernel thought of us before; None: it does not say."""
    try:
        usual = Path("/proc/self/oom_score_adj").read_text(encoding="ascii").strip()
    except OSError:
        return None
    _give(FIRST_TO_DIE)
    return usual


def _give(score: str | None) -> None:
    if score is not None:
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(score, encoding="ascii")


def _memory_bytes() -> int:
    """What of main memory is ours, and our part of what is shared; 0: not known."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for text in Path("/proc/self/smaps_rollup").read_text().splitlines():
            if text.startswith("Pss:"):
                return int(text.split()[1]) * 1024
    return 0
