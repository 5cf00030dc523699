"""Whether the end of an attempt waits for the GPU driver."""

import pytest

from supervisor.core.diagnosis.driver_wait import (
    BUSY_SECONDS,
    NO_WORD,
    WORD_SECONDS,
    DriverWait,
    awaited,
    explainable,
)
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import SIGKILL, record_of
from supervisor.wire.records.end_records import CrashReport
from tests.support.evidence import refusal

ABORTED = Evidence(exit=record_of(None, 6))
LISTENING = DriverWait(used=True, answers=True, begun=9.0)
"""The newest reading was begun before the end at 10."""


def crashed(exception: str, message: str = "it broke") -> Evidence:
    """An exception that ended the script."""
    report = CrashReport(
        exception=exception, message=message, traceback="", steps_done=9, in_fit=True
    )
    return Evidence(exit=record_of(1, None), crash=report)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (LISTENING, True),
        (DriverWait(used=True, answers=True), True),
        (DriverWait(used=True, answers=True, begun=9.99), True),
        (DriverWait(used=True, answers=True, begun=10.0), False),
        (DriverWait(used=False, answers=True, begun=9.0), False),
        (DriverWait(used=True, answers=False, begun=9.0), False),
        (NO_WORD, False),
    ],
)
def test_until_a_reading_that_was_begun_after_the_end(
    word: DriverWait, *, expected: bool
) -> None:
    """A reading that was under way may have asked the GPU before it failed; without a
    GPU, or with nobody who asks the driver, the end is decided at once."""
    assert awaited(ABORTED, word, ended=10.0, now=10.0) is expected


@pytest.mark.parametrize(
    ("begun", "bound"),
    [
        (9.9, BUSY_SECONDS),
        (10.01 - BUSY_SECONDS, BUSY_SECONDS),
        (10.0 - BUSY_SECONDS, WORD_SECONDS),
        (None, WORD_SECONDS),
    ],
)
def test_a_driver_that_hangs_holds_up_nothing(
    begun: float | None, bound: float
) -> None:
    """However long no reading comes, the wait is over after a bounded time: a longer one
    where the driver answered until just before."""
    word = DriverWait(used=True, answers=True, begun=begun)
    assert awaited(ABORTED, word, ended=10.0, now=10.0 + bound - 0.01)
    assert not awaited(ABORTED, word, ended=10.0, now=10.0 + bound)
    assert not awaited(ABORTED, word, ended=10.0, now=1e9)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (ABORTED, True),
        (Evidence(exit=None), True),
        (Evidence(exit=record_of(9, None)), True),
        (crashed("tensorflow.python.framework.errors_impl.InternalError"), True),
        (crashed("RuntimeError"), True),
        (crashed("KeyError"), False),
        (crashed("builtins.FileNotFoundError", "No such file or directory"), False),
        (Evidence(exit=record_of(None, SIGKILL)), False),
        (Evidence(exit=record_of(0, None), finished=True), False),
        (Evidence(exit=record_of(75, None), drained=True), False),
        (Evidence(exit=record_of(1, None), refused=refusal("changed")), False),
        (Evidence(exit=record_of(None, 15), stop_requested=True), False),
        (Evidence(exit=record_of(3, None), script_exit_code=3), False),
    ],
)
def test_only_an_end_that_a_gpu_can_explain(
    evidence: Evidence, *, expected: bool
) -> None:
    """Nobody waits for the driver's word on a typing mistake."""
    assert explainable(evidence) is expected
    assert awaited(evidence, LISTENING, ended=10.0, now=10.0) is expected
