"""Pages of reference that are drawn from the code: commands, causes and remedies."""

import click

from supervisor.cli.command_group import COMMANDS, trainwarden
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import ADVICE
from supervisor.core.diagnosis.explain import HEADLINES
from supervisor.core.jobs.spec import Spec
from supervisor.core.remediation.describe import escalations_json, escalations_text
from supervisor.core.remediation.escalation import RemedyPermissions

WIDTH = 96
GENERATED = "`make generated` writes this page."


def commands_page() -> str:
    """What ``--help`` says of each command."""
    parts = [f"# Commands\n\n{GENERATED}\n"]
    with click.Context(
        trainwarden, info_name="trainwarden", **trainwarden.context_settings
    ) as group:
        for name in COMMANDS:
            command = trainwarden.get_command(group, name)
            assert command is not None
            with click.Context(
                command, info_name=name, parent=group, terminal_width=WIDTH
            ) as context:
                told = command.get_help(context).strip()
            parts.append(f"## {name}\n\n```text\n{told}\n```\n")
    return "\n".join(parts)


def causes_page() -> str:
    """Every cause with its headline and advice, and what is done about it."""
    rows = "\n".join(
        f"| `{cause}` | {HEADLINES[cause]} | {ADVICE[cause]} |"
        for cause in Cause
        if ADVICE[cause]
    )
    spec = Spec(script="-")
    plans = escalations_text(
        escalations_json(
            RemedyPermissions(allowed=spec.remedies.allowed, gpus=spec.gpus),
            without_progress=spec.restart.without_progress,
            deadlines=spec.liveness.deadlines,
        )
    )
    return (
        f"# Causes and remedies\n\n{GENERATED}\n\n"
        "`trainwarden incidents` names one of these causes; `explain` says how one knows.\n\n"
        "| cause | what happened | what helps |\n| --- | --- | --- |\n"
        f"{rows}\n\n"
        "## What is done\n\n"
        "As `trainwarden policy` prints it where a spec allows nothing more.\n\n"
        f"```text\n{plans.strip()}\n```\n"
    )
