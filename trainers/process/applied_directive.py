"""The parts of the directive that are in force here, told as values.

What a remedy asked for counts only once this process has said so: a script may have a
setting of its own, and what should have set ours may not have been asked.
"""

import os
from typing import Any

from supervisor.wire.event_file import RecordKind
from trainers.process.attempt_reporting import Attempt

OWN_LOOP = (
    "{} of the spec changes steps of fit alone: those of a loop of the script's own are"
    " computed as the script has it"
)


def tell(attempt: Attempt, name: str, *, asked: Any, found: Any) -> None:
    """Say that ``found`` is in force where ``asked`` was asked for; nothing if neither
    that nor what was said before differs."""
    if asked is not None and attempt.is_news(f"applied {name}", found):
        attempt.say(RecordKind.APPLIED, name=name, asked=asked, found=found)


def tell_environment(attempt: Attempt) -> None:
    """At the import of TensorFlow, which reads these variables from then on."""
    directive = attempt.directive
    for name, asked in directive.variables.items():
        value = os.environ.get(name)
        # XLA_FLAGS holds the job's own as well.
        held = value is not None and asked in value.split()
        tell(attempt, name, asked=asked, found=asked if held else value)
    if directive.visible_gpus is not None:
        asked = ",".join(directive.visible_gpus)
        found = os.environ.get("CUDA_VISIBLE_DEVICES")
        tell(attempt, "visible_gpus", asked=asked, found=found)


def tell_own_loop(attempt: Attempt) -> None:
    """Say once what of the spec is not done to steps outside of ``fit``."""
    directive = attempt.directive
    asked = {
        "compute.jit": directive.jit is not None,
        "compute.recompute": directive.recompute,
    }
    names = [name for name, is_asked in asked.items() if is_asked]
    if names and attempt.is_news("own loop"):
        attempt.notice(OWN_LOOP.format(" and ".join(names)))
