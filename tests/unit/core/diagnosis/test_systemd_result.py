"""What systemd says of the unit of an attempt, where nobody else is left to tell."""

from dataclasses import replace

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose, from_outside
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import record_of
from supervisor.core.diagnosis.log_scanner import scan
from supervisor.core.diagnosis.result import Diagnosis
from supervisor.core.diagnosis.systemd_result import (
    REBOOTED,
    VANISHED,
    UnitEnd,
    unit_end,
)

FAULT = b"RuntimeError: CUDA error: an illegal memory access was encountered\n"


def shown(result: str, code: int, status: int) -> dict[str, str]:
    """As ``systemctl show`` has it, of a unit whose main process was 7."""
    numbers = {"ExecMainPID": 7, "ExecMainCode": code, "ExecMainStatus": status}
    return {"Result": result} | {name: str(value) for name, value in numbers.items()}


def of(result: str, code: int, status: int, log: bytes = b"") -> tuple[Cause, str]:
    """The cause of such an end without an exit record, and what is said of it."""
    told = unit_end(shown(result, code, status), main_pid=7)
    assert told is not None
    diagnosis = diagnose(Evidence(exit=None, unit=told, log=scan(log)))
    return diagnosis.cause, " ".join(reason.text for reason in diagnosis.because)


@pytest.mark.parametrize(
    ("result", "code", "status", "cause", "words"),
    [
        ("oom-kill", 2, 9, Cause.HOST_OOM, "main memory ran out"),
        ("signal", 2, 9, Cause.PREEMPTED, "was ended by SIGKILL"),
        ("timeout", 2, 9, Cause.PREEMPTED, "did not end within the time"),
        ("watchdog", 2, 6, Cause.PREEMPTED, "did not answer its watchdog"),
        ("core-dump", 3, 11, Cause.PREEMPTED, "was ended by SIGSEGV"),
        ("timeout", 1, 0, Cause.PREEMPTED, "did not end within the time"),
        ("exit-code", 1, 1, Cause.UNKNOWN, "exit-code, and the process that watched"),
        ("success", 1, 0, Cause.UNKNOWN, "ended with 0"),
    ],
)
def test_results(result: str, code: int, status: int, cause: Cause, words: str) -> None:
    """Each leads to a cause, and what systemd said is quoted."""
    found, said = of(result, code, status)
    assert found is cause
    assert words in said
    assert "systemd says" in said


@pytest.mark.parametrize(
    ("end", "cause", "words"),
    [
        (UnitEnd(result="signal", signal=9, of_unit=False), Cause.PREEMPTED, "SIGKILL"),
        (UnitEnd(result=VANISHED, of_unit=False), Cause.PREEMPTED, "without a word"),
        (UnitEnd(result=REBOOTED, of_unit=False), Cause.PREEMPTED, "started anew"),
        (
            UnitEnd(result="exit-code", exit_code=1, of_unit=False),
            Cause.UNKNOWN,
            "ended with 1",
        ),
    ],
)
def test_without_a_unit(end: UnitEnd, cause: Cause, words: str) -> None:
    """The shim's parent saw it end, or came later: systemd is not said to have."""
    diagnosis = diagnose(Evidence(exit=None, unit=end))
    said = " ".join(reason.text for reason in diagnosis.because)
    assert diagnosis.cause is cause
    assert words in said
    assert "systemd" not in said


def test_what_training_left_behind_weighs_more() -> None:
    """A failure in the log is the cause; that the shim was killed came after it."""
    assert of("signal", 2, 9, FAULT)[0] is Cause.CUDA_FAULT


def test_the_shims_own_word_counts() -> None:
    """Where there is an exit record the unit is not asked."""
    told = UnitEnd(result="signal", signal=9)
    ended = Evidence(exit=record_of(1, None), unit=told)
    assert diagnose(ended).cause is Cause.UNKNOWN


@pytest.mark.parametrize(
    "found",
    [
        {},
        shown("success", 0, 0),  # not over yet
        shown("signal", 2, 9) | {"ExecMainPID": "8"},  # another attempt's
        shown("signal", 2, 9) | {"ExecMainCode": "[not set]"},
    ],
)
def test_nothing_is_known(found: dict[str, str]) -> None:
    """What systemd does not say, or says of another process, is no evidence."""
    assert unit_end(found, main_pid=7) is None


SIGKILLED = record_of(None, 9)


@pytest.mark.parametrize(
    ("evidence", "outside"),
    [
        (Evidence(exit=SIGKILLED, cgroup_oom_kills=0), True),
        (Evidence(exit=SIGKILLED, cgroup_oom_kills=None), False),
        (Evidence(exit=record_of(None, 15)), True),
        (Evidence(exit=record_of(143, None)), False),
        (Evidence(exit=record_of(1, None)), False),
        (Evidence(exit=None, unit=UnitEnd(result=VANISHED, of_unit=False)), True),
        (Evidence(exit=None, unit=UnitEnd(result="exit-code", exit_code=1)), False),
        (Evidence(exit=None), False),
        (Evidence(exit=SIGKILLED, cgroup_oom_kills=0, stop_requested=True), False),
    ],
)
def test_who_is_known_to_have_ended_it(*, evidence: Evidence, outside: bool) -> None:
    """By the kernel's or systemd's word, never by what it printed or chose to return."""
    preempted = Diagnosis(cause=Cause.PREEMPTED, because=())
    assert from_outside(preempted, evidence) is outside
    assert not from_outside(replace(preempted, cause=Cause.UNKNOWN), evidence)
