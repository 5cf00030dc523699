"""What the doctor says of Slurm."""

import pytest

from supervisor.host.doctor.finding import FindingLevel
from supervisor.host.doctor.slurm_checks import (
    comes_back,
    examine,
    parse_config,
    parse_record,
    patience,
    requeue_codes,
)

CONFIG = """Configuration data as of 2026-11-24T23:17:54
AuthInfo                = socket=/run/munge.socket
KillWait                = 30 sec
PreemptMode             = REQUEUE
PreemptType             = preempt/partition_prio
RequeueExit             = 75

Slurmctld(primary) at box is UP
"""
PARTITION = "PartitionName=low GraceTime=60 PreemptMode=REQUEUE State=UP"


def test_what_scontrol_prints() -> None:
    """Values have spaces in one, and equals signs in both."""
    assert parse_config(CONFIG)["AuthInfo"] == "socket=/run/munge.socket"
    assert parse_config(CONFIG)["KillWait"] == "30 sec"
    assert parse_record("A=1 TRES=cpu=1,mem=2G") == {"A": "1", "TRES": "cpu=1,mem=2G"}


@pytest.mark.parametrize(
    ("value", "codes"),
    [
        ("75", {75}),
        ("1,74-76", {1, 74, 75, 76}),
        ("(null)", set[int]()),
        (None, set[int]()),
    ],
)
def test_requeue_codes(value: str | None, codes: set[int]) -> None:
    """Numbers and ranges."""
    assert requeue_codes(value) == codes


@pytest.mark.parametrize(
    ("grace", "levels"),
    [
        (120.0, [FindingLevel.WARNING, FindingLevel.WARNING]),
        (40.0, [FindingLevel.WARNING, FindingLevel.OK]),
        (20.0, [FindingLevel.OK, FindingLevel.OK]),
    ],
)
def test_the_grace_has_to_fit_in(grace: float, levels: list[FindingLevel]) -> None:
    """KillWait after a requeue or a cancel, GraceTime where jobs are preempted."""
    found = patience(parse_config(CONFIG), parse_record(PARTITION), grace=grace)
    assert [one.level for one in found] == levels


def test_grace_time_counts_where_jobs_are_preempted_alone() -> None:
    """By partition; and what Slurm does not tell is not taken for enough."""
    config = {**parse_config(CONFIG), "PreemptType": "preempt/none"}
    (wait,) = patience(config, parse_record(PARTITION), grace=20.0)
    assert wait.about == "Slurm KillWait"
    off = parse_record("GraceTime=0 PreemptMode=OFF")
    assert len(patience(parse_config(CONFIG), off, grace=20.0)) == 1
    (unknown,) = patience({}, {}, grace=20.0)
    assert unknown.level is FindingLevel.NOT_CHECKED


def test_whether_a_job_comes_back() -> None:
    """By the exit code, and by what the job was submitted with."""
    config = parse_config(CONFIG)
    assert [one.level for one in comes_back(config, {})] == [FindingLevel.OK]
    found = comes_back({"RequeueExit": "(null)"}, {"Requeue": "0"})
    assert [one.level for one in found] == [FindingLevel.WARNING] * 2


def test_outside_of_a_job_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked there, either."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert examine(grace=120.0) == []
