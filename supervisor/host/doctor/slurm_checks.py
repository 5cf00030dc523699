"""Slurm, as a job sees it: whether it leaves a run the time to save, and takes it back."""

import os
import re
import shutil
from collections.abc import Mapping

from supervisor.core.lifecycle.exit_handling import EXIT_DRAINED
from supervisor.core.text.units import format_duration
from supervisor.host.doctor.finding import Finding, fine, unchecked, warning
from supervisor.host.process.child_process import TimeUpError, run_to_end

CALL_SECONDS = 10.0
ENDED = "what is not saved by then is done again from the newest snapshot"


def parse_config(text: str) -> dict[str, str]:
    """What ``scontrol show config`` prints: ``Name = value`` a line."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def parse_record(text: str) -> dict[str, str]:
    """What ``scontrol show --oneliner partition`` (or ``job``) prints: ``Name=value``
    words."""
    pairs = (word.partition("=") for word in text.split())
    return {name: value for name, equals, value in pairs if equals}


def seconds_of(value: str | None) -> float | None:
    """``30 sec``, ``30``; None: no number, such as ``INFINITE``."""
    found = re.match(r"\d+", value or "")
    return float(found[0]) if found else None


def requeue_codes(value: str | None) -> set[int]:
    """``RequeueExit``: numbers and ranges, such as ``75,100-102``."""
    codes: set[int] = set()
    for low, high in re.findall(r"(\d+)(?:-(\d+))?", value or ""):
        codes.update(range(int(low), int(high or low) + 1))
    return codes


def patience(
    config: Mapping[str, str], partition: Mapping[str, str], *, grace: float
) -> list[Finding]:
    """KillWait, and GraceTime of the partition, against ``drain.grace`` in seconds."""
    wait = seconds_of(config.get("KillWait"))
    findings = [_enough("Slurm KillWait", "a requeue or a cancel", wait, grace)]
    mode = partition.get("PreemptMode") or config.get("PreemptMode", "OFF")
    preempts = config.get("PreemptType", "") not in {"", "(null)", "preempt/none"}
    if preempts and {"REQUEUE", "CANCEL"} & set(mode.split(",")):
        least = seconds_of(partition.get("GraceTime"))
        known = [one for one in (least, wait) if one is not None]
        least = max(known, default=None)  # either may be the one that counts
        findings.append(_enough("Slurm GraceTime", "preemption", least, grace))
    return findings


def _enough(about: str, by: str, seconds: float | None, grace: float) -> Finding:
    if seconds is None:
        return unchecked(about, "scontrol does not tell it")
    told = f"{by} leaves {format_duration(seconds)} from SIGTERM to SIGKILL"
    if seconds > grace:
        return fine(about, f"{told}; drain.grace is {format_duration(grace)}")
    fix = f"drain.grace below {format_duration(seconds)}, or a longer {about[6:]}"
    return warning(
        about, f"{told}, drain.grace is {format_duration(grace)}: {ENDED}", fix
    )


def comes_back(config: Mapping[str, str], job: Mapping[str, str]) -> list[Finding]:
    """Whether a run that was drained, or lost its node, goes back into the queue."""
    codes = requeue_codes(config.get("RequeueExit"))
    code = (
        fine("Slurm RequeueExit", f"has {EXIT_DRAINED}")
        if EXIT_DRAINED in codes
        else warning(
            "Slurm RequeueExit",
            f"has not {EXIT_DRAINED}: at its time limit a run is saved, and not queued again",
            f"RequeueExit={EXIT_DRAINED} in slurm.conf, or submit it again by hand",
        )
    )
    if job.get("Requeue") == "0":
        text = "this job is not: preempted, or without its node, it is lost"
        return [code, warning("Slurm requeue", text, "#SBATCH --requeue")]
    return [code]


def examine(*, grace: float) -> list[Finding]:
    """All findings, inside a job; none outside of one."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None or shutil.which("scontrol") is None:
        return []
    config = _told("config")
    if config is None:
        return [unchecked("Slurm", "scontrol does not answer")]
    name = os.environ.get("SLURM_JOB_PARTITION", "")
    partition = parse_record(_told("--oneliner", "partition", name) or "")
    about_job = parse_record(_told("--oneliner", "job", job) or "")
    known = parse_config(config)
    return [*patience(known, partition, grace=grace), *comes_back(known, about_job)]


def _told(*what: str) -> str | None:
    """What ``scontrol show`` prints; None: it fails, or does not answer."""
    try:
        done = run_to_end(["scontrol", "show", *what], seconds=CALL_SECONDS)
    except (OSError, TimeUpError):
        return None
    return done.stdout if done.returncode == 0 else None
