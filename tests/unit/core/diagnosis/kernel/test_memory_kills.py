"""Whom the kernel killed for want of memory: the attempt, or one of its workers before."""

from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.kernel.memory_kills import ended_otherwise
from supervisor.wire.reasons import KillReason
from tests.support.evidence import cause, ours, seen


def test_a_worker_killed_for_memory_before_did_not_end_whom_we_killed() -> None:
    """What the kernel counted by the time of our SIGKILL is told beside it; only what it
    counted since, or said of that very process, ended it."""
    late = Evidence(exit=ours(signal=9), grace_seconds=120.0, stop_requested=True)
    before = replace(late, cgroup_oom_kills=2, oom_kills_before_kill=2)
    found = diagnose(before)
    assert found.cause is Cause.PREEMPTED
    assert found.because[0].code == KillReason.GRACE_OVER
    assert "stood at 2" in found.because[-1].text
    assert cause(replace(before, cgroup_oom_kills=3)) is Cause.HOST_OOM
    assert cause(replace(before, oom_kills_before_kill=None)) is Cause.HOST_OOM
    pid = ours(signal=9).pid
    other = seen(f"Memory cgroup out of memory: Killed process {pid + 1} (python3)")
    assert cause(replace(before, kernel=other)) is Cause.PREEMPTED
    assert cause(replace(before, kernel=other, grace_seconds=None)) is Cause.HOST_OOM
    own = seen(f"Memory cgroup out of memory: Killed process {pid} (python3)")
    assert cause(replace(before, kernel=own)) is Cause.HOST_OOM


def test_sigkill_is_memory_only_where_the_kernel_says_so() -> None:
    """Otherwise it was sent by somebody outside, or by the script itself: nobody saw who,
    and the sentence says no more than what is known."""
    killed = Evidence(exit=ours(signal=9), log=seen("KeyError: handled\n"))
    assert cause(replace(killed, cgroup_oom_kills=1)) is Cause.HOST_OOM
    still = diagnose(replace(killed, cgroup_oom_kills=0))
    blind = diagnose(killed)
    assert still.cause is blind.cause is Cause.PREEMPTED
    assert "did not move" in still.because[-1].text
    assert "or the script itself" in still.because[-1].text
    assert "could not be read" in blind.because[-1].text
    kernel = replace(killed, kernel=seen("Memory cgroup out of memory: Killed process"))
    assert cause(kernel) is Cause.HOST_OOM


def test_what_ended_an_attempt_before_our_request() -> None:
    """A fatal signal of its own, or a word of the kernel that is not about another process;
    the kernel's line of an attempt that has no exit record may be about it."""
    assert ended_otherwise(Evidence(exit=ours(signal=11)))
    assert not ended_otherwise(Evidence(exit=ours(signal=15)))
    line = seen("Out of memory: Killed process 12 (python)")
    assert ended_otherwise(Evidence(exit=None, kernel=line, grace_seconds=1.0))
