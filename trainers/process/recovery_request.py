"""The question whether training may go on in this process after a step that failed.

The supervisor decides, as it does about every failure. If nobody answers within the bound
(the supervisor is gone, or cannot write here), the process ends as it would have.
"""

import contextlib
import time

from supervisor.wire.event_file import RecordKind
from supervisor.wire.files import read_json, write_json
from supervisor.wire.messages.recovery_answer import RecoveryAnswer
from supervisor.wire.records.end_records import CrashReport
from trainers.process.attempt_reporting import Attempt

ANSWER_SECONDS = 10.0
"""The supervisor looks every two seconds at least; a busy machine may take longer."""
POLL_SECONDS = 0.02


def ask(
    attempt: Attempt, crash: CrashReport, *, number: int, step: int
) -> RecoveryAnswer | None:
    """The answer about failure ``number`` of this attempt, after ``step`` steps; None:
    there is none, or the attempt is to end anyway."""
    try:
        write_json(attempt.paths.failure, crash.to_json())
    except OSError:
        return None
    attempt.say(RecordKind.STEP_FAILED, number=number, step=step)
    until = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < until and not attempt.drain_requested:
        answer = _read(attempt)
        if answer is not None and answer.number == number:
            return answer
        time.sleep(POLL_SECONDS)
    return None


def goes_on(attempt: Attempt, answer: RecoveryAnswer, *, step: int) -> None:
    """Training goes on as was answered: what was left as evidence is over."""
    paths = attempt.paths
    evidence = [paths.failure, paths.memory_answer, paths.memory_map]
    with contextlib.suppress(OSError):
        evidence += paths.dumps.iterdir()
    for path in evidence:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    attempt.say(
        RecordKind.GOES_ON,
        number=answer.number,
        step=step,
        log_bytes=_size_of_log(attempt),
    )


def _size_of_log(attempt: Attempt) -> int:
    try:
        return attempt.paths.output.stat().st_size
    except OSError:
        return 0


def _read(attempt: Attempt) -> RecoveryAnswer | None:
    value = read_json(attempt.paths.recovery)
    return None if value is None else RecoveryAnswer.from_json(value)
