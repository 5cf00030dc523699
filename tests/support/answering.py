"""A stand-in for the supervisor that lets each failed step be gone on after."""

import contextlib
import threading
from collections.abc import Callable, Generator

from supervisor.wire.event_file import EventReader, RecordKind
from supervisor.wire.files import write_json
from supervisor.wire.messages.recovery_answer import RecoveryAnswer
from supervisor.wire.paths import AttemptPaths

POLL_SECONDS = 0.02
Answer = Callable[[int, int], RecoveryAnswer | None]
"""What is answered to the failure of a number, after so many steps; None: nothing."""


def go_back(number: int, step: int) -> RecoveryAnswer:
    """Go on, from a snapshot of before that step."""
    return RecoveryAnswer(
        number=number, goes_on=True, restore_before_step=step, prove=True
    )


@contextlib.contextmanager
def answering(paths: AttemptPaths, answer: Answer = go_back) -> Generator[None]:
    """In here the attempt in ``paths`` is answered."""
    over = threading.Event()
    thread = threading.Thread(target=_answer, args=(paths, answer, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _answer(paths: AttemptPaths, answer: Answer, over: threading.Event) -> None:
    reader = EventReader(paths.events)
    while not over.wait(POLL_SECONDS):
        for record in reader.poll():
            if record.kind == RecordKind.STEP_FAILED:
                found = answer(record.fields["number"], record.fields["step"])
                if found is not None:
                    write_json(paths.recovery, found.to_json())
