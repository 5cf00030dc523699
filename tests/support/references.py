"""Pages of reference that are drawn from the code: commands, causes, advice."""

import click

from supervisor.cli.command_group import COMMANDS, trainwarden
from supervisor.core.advisories.rules import RULES
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
            # click keeps the option of who asked first, which may be a test without -h.
            vars(command)["_help_option"] = None
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


def advisories_page() -> str:
    """Every advisory with its threshold, the reason for that, and what helps."""
    rows = "\n".join(
        f"| `{rule.kind}` | {rule.title} | {rule.threshold} | {rule.advice} |"
        for rule in RULES
    )
    return (
        f"# Advice while it runs\n\n{GENERATED}\n\n"
        "What makes a run slower or larger than it need be, from what was measured while it\n"
        "runs. It is said once a run; `status`, `explain` and the report show it with its\n"
        'figures, and the metric `trainwarden_advisory{run="…", kind="…"}` is 1 while it\n'
        "holds. Nothing is changed by it, and nothing is told that was not measured.\n\n"
        "| kind | what is wrong | told from there on | what helps |\n"
        "| --- | --- | --- | --- |\n"
        f"{rows}\n\n{ABOUT_ADVICE}"
    )


ABOUT_ADVICE = """\
## How it is measured

The first three steps of a `fit` do not count. A pipeline of `tf.data` keeps the gaps between
the batches that it handed out and the next ones asked for; what lies between the beginnings
of two steps and is no gap is a wait. It is asked once a second. On a GPU
a wait counts only as far as the driver says that the GPU was idle, since it may be at work on
the step before meanwhile. Tracing is timed by TensorFlow itself; the types of a step's
operations are read once, after the first step. With each heartbeat, once a second, the kernel
is asked whether the training thread stands in a write. GPUs are judged by the samples that
the metrics come from, those taken while steps are made. `make bench-evidence`, on two cores
shared with other work: 0.8 µs a step, 0.1 ms a second, and 0.13 s once a `fit` for a
MobileNetV2.

## What it does not see

- Keras on JAX, and pipelines whose autotuning is turned off: nothing is said of waits there.
- Loops of a script's own that do not use `trainers.session`: only tracing is seen. Eager
  loops, whose steps are no `tf.function`: nothing.
- Fits of less than a few seconds: `float64` and `converted_inputs` are told, what takes time
  is not.
- Autotuning, or a workspace, that takes memory from the model: no rule yet.
- What stands here of GPUs was tried with a double of the driver, and on no real GPU yet.
"""
