"""Signals in the training process.

SIGTERM asks for a drain: at the next step boundary the state is saved and the process
ends with 75. Outside of ``fit`` nothing would be lost, so it ends at once. Further ones
are the same request, whenever they come: a parent that dies sends it once for each of its
threads (PR_SET_PDEATHSIG of prctl(2) is about the thread), Slurm sends it to every process
of a job, before a time limit and again at it, and a snapshot may take longer than that.
Whoever does not want to wait has SIGKILL. SIGINT is the supervisor's: it forwards it as
SIGTERM. Once the script has ended SIGTERM changes nothing. SIGUSR1 writes the stacks of
all threads into the fault log.
"""

import faulthandler
import os
import signal
import sys
import traceback
from io import FileIO
from typing import NoReturn

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_DRAINED
from trainers.process.attempt_reporting import Attempt

NOTHING_TRAINED = (
    "ended on request before any supervised fit began: nothing new is saved, the next run "
    "goes on from the newest snapshot, or begins where there is none"
)

AT_AN_ERROR = "as it was asked to end, the script was handling an error of its own: {}"
MOST_SAID = 500
"""Characters of what it says of itself."""

_kept_open: list[FileIO] = []
"""``faulthandler`` keeps only their descriptors."""


def leave(attempt: Attempt) -> NoReturn:
    """Say that the state is saved and end the process with 75, at once.

    Not by an exception: a script's ``except:`` would swallow it and call the run
    finished, and its ``finally:`` would publish a half-trained model.
    """
    step, snapshot = attempt.training.saved
    attempt.say(RecordKind.DRAINED, step=step, snapshot=snapshot)
    end_at_once(EXIT_DRAINED)


def end_at_once(code: int) -> NoReturn:
    """End the process with ``code``, past every handler of the script."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)


def install(attempt: Attempt) -> None:
    """Set the handlers of this process; children that are forked get the defaults."""

    ours = os.getpid()

    def on_term(_number: int, _frame: object) -> None:
        # A signal may find a child before ``forget`` ran in it: it drains nothing.
        if os.getpid() != ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        if attempt.drain_requested:
            return
        attempt.drain()
        if attempt.failed:
            return  # it ends by its error, which would be told by nobody else
        if attempt.training.running is not None or attempt.training.loop:
            return  # the next step boundary sees the flag
        if attempt.training.steps is None:
            attempt.notice(NOTHING_TRAINED)
        _tell_of_error(attempt)
        attempt.wait_for_saver()
        leave(attempt)

    def forget() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.register_at_fork(after_in_child=forget)


def _tell_of_error(attempt: Attempt) -> None:
    """The script may be about to end by an error, in a ``finally`` say, and would do so
    again."""
    error = sys.exception()
    if error is not None and attempt.training.saved[0] is None:
        said = traceback.format_exception_only(error)[-1].strip()
        attempt.notice(AT_AN_ERROR.format(said[:MOST_SAID]))


def over() -> None:
    """The script has ended: there is nothing to save, and the process ends by itself.

    While the interpreter shuts down it gives handlers up, and a SIGTERM would make a
    finished run look as if it had been ended.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def watch_faults(attempt: Attempt) -> None:
    """Stacks on a fatal signal, and on SIGUSR1. Raises OSError."""
    file = attempt.paths.fault.open("ab", buffering=0)
    _kept_open.append(file)
    faulthandler.enable(file=file, all_threads=True)
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
