"""The kernel's kills for want of memory: whom they hit, and whether they were the end.

The cgroup of an attempt counts them (``memory.events``, its ``oom_kill``), and the kernel log
names each by a pid. Both tell of any process of the attempt, a worker, say: where we sent
SIGKILL ourselves, what was counted by then had hit another one. Lines of the kernel log come
here only where its pids are those that we see: not in a container (``driver_errors``).
"""

import re
from collections.abc import Iterator

from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import NATIVE, SIGKILL
from supervisor.core.diagnosis.result import Reason
from supervisor.core.diagnosis.scoring import ScoredSignal, kernel_claims, signal_in

_VICTIM = re.compile(r"Killed process (?P<pid>\d+)")
"""linux: mm/oom_kill.c (__oom_kill_process)."""


def counted_kills(evidence: Evidence) -> Reason | None:
    """What the counter says of an attempt that SIGKILL ended; None: it counted nothing, or
    something else ended it."""
    kills = evidence.cgroup_oom_kills
    if not kills or signal_in(evidence) != SIGKILL:
        return None
    text = f"The kernel's OOM counter of this attempt's cgroup stands at {kills}."
    return Reason(text, "cgroup")


def nothing_counted(evidence: Evidence) -> Reason:
    """Where SIGKILL came from, of an attempt that we did not kill, and whose counter told of
    no kill."""
    counter = "did not move: it was not memory"
    if evidence.cgroup_oom_kills is None:
        counter = "could not be read"
    text = (
        "Trainwarden did not send it: somebody outside did, or the script itself; the "
        f"cgroup's OOM counter {counter}."
    )
    return Reason(text, "cgroup")


def killed_before_us(evidence: Evidence) -> Iterator[Reason]:
    """Why it may have saved nothing: others of the attempt had been killed for memory."""
    if evidence.oom_kills_before_kill:
        text = (
            "Before that the kernel's OOM counter of its cgroup stood at "
            f"{evidence.oom_kills_before_kill}: a process there had been killed for memory."
        )
        yield Reason(text, "cgroup")


def ended_otherwise(evidence: Evidence) -> bool:
    """Whether something else than our request (SIGTERM, later SIGKILL) ended it: a
    fatal signal of its own, the kernel for want of memory, a GPU that failed."""
    if signal_in(evidence) in NATIVE:
        return True
    kills, before = evidence.cgroup_oom_kills, evidence.oom_kills_before_kill
    killed = signal_in(evidence) == SIGKILL and (kills or 0) > (before or 0)
    return killed or any(
        claim.decisive and not _killed_another(claim, evidence)
        for claim in kernel_claims(evidence)
    )


def _killed_another(claim: ScoredSignal, evidence: Evidence) -> bool:
    """Whether, of a process that we ended out of its grace, the kernel's line tells that
    it had killed another one of the attempt for memory, a worker say."""
    if evidence.grace_seconds is None or evidence.exit is None:
        return False
    found = _VICTIM.search(claim.reason.text)
    return found is not None and int(found["pid"]) != evidence.exit.pid
