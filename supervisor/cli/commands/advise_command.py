"""``trainwarden advise``: what would make this script need less, or go faster?"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from supervisor.cli.foreground.foreground_run import job_of
from supervisor.cli.measuring import (
    TerminatedError,
    directory_for,
    exit_code_after,
    fail_after,
    free_pool,
    say,
)
from supervisor.cli.options import (
    default_state_directory,
    fail,
    json_option,
    show,
)
from supervisor.cli.sources.daemon_client import box_option
from supervisor.cli.sources.job_lookup import files_of, has_job, refuse_as_root
from supervisor.cli.spec_options import (
    args_argument,
    asked_script,
    cpu_memory_option,
    env_option,
    environment_of,
    given_only,
    module_option,
    python_option,
    read_spec,
    script_argument,
    spec_of,
    spec_option,
)
from supervisor.cli.views import advised_spec, alternative_lines
from supervisor.cli.views.advised_spec import WrittenSpec
from supervisor.core.jobs.spec import Spec, merge
from supervisor.core.jobs.written_spec import written
from supervisor.core.memory.alternatives import AlternativeAxis
from supervisor.host.exporter.gpu_query import gpus_once
from supervisor.host.ledger.ledger import LedgerError
from supervisor.runtime.measuring.alternative_trials import Advice, AlternativeTrials
from supervisor.runtime.measuring.trial_attempt import AdviseError, TrialQuestion
from supervisor.runtime.recording.job_locator import JobFiles
from supervisor.runtime.run_setup import Job

PREFIX = "advise-"
"""Of the directory of a command's trials."""
STEPS = 12
LEAST_STEPS = 8
"""With fewer, there is no median where several are made in a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRequest:
    """What is to be tried."""

    tables: Mapping[str, Any]
    """Of its spec, as they are written."""
    """It names an absolute script and directory: a file of it may be moved."""
    job: Job
    by_daemon: bool = False
    """Whether it is a job of a daemon, which has the GPUs that it asks for, or none."""


@click.command(context_settings={"allow_interspersed_args": False})
@box_option
@json_option
@module_option
@python_option
@env_option
@spec_option
@cpu_memory_option
@click.option(
    "--gpu-memory", metavar="SIZE", help="Limit the memory of a GPU, e.g. 4GiB."
)
@click.option(
    "--only",
    type=click.Choice([axis.value for axis in AlternativeAxis]),
    multiple=True,
    help="Try no others than these; may be given again. Default: all that apply.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=LEAST_STEPS, max=10_000),
    default=STEPS,
    show_default=True,
    help="Training steps of each trial.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=1, max=86400),
    default=300.0,
    show_default=True,
    help="Seconds until a trial has to be over.",
)
@click.option(
    "--apply",
    "apply_it",
    is_flag=True,
    help="Write a spec beside you that does what run can do itself.",
)
@script_argument
@args_argument
def advise(
    *,
    state_dir: Path | None,
    as_json: bool,
    module: bool,
    python: str | None,
    variables: tuple[str, ...],
    spec_file: Path | None,
    cpu_memory: str | None,
    gpu_memory: str | None,
    only: tuple[str, ...],
    steps: int,
    patience: float,
    apply_it: bool,
    script: str | None,
    args: tuple[str, ...],
) -> None:
    """Try what would make SCRIPT, or a job by its name, need less memory or go faster.

    The script needs no change. Each alternative is tried for some steps of its first
    model.fit, in a process of its own, from the same start and under the limit: slices,
    mixed precision, XLA, recomputation, several steps in a call, leaner optimizers, other
    ways to read the data, smaller images, settings of cuDNN. A table says what each needs
    and takes, and whether the numbers stay the same; then the best combination that fits,
    and what does it. Nothing is trained, and no callback of the script's is called; its own
    lines before fit run as often as there are trials.

    It takes a process for each trial, some 20 in all; each line says which of how many it is,
    and about how long the rest takes. Ctrl-C prints the table of what was measured so far.

    Ends with 0 where something fits, with 1 where nothing does or nothing can be tried.

    \b
    Examples:
      trainwarden advise --cpu-memory 600MiB train.py
      trainwarden advise --only slices --only jit train.py --epochs 10
      trainwarden advise --apply digits
    """  # noqa: D301  # \b is click's mark, not a backslash
    if math.isnan(patience):
        fail("--patience: expected a number of seconds, got nan")
    given: dict[str, Any] = {
        "python": python,
        "environment": environment_of(variables),
        "memory": {"cpu": cpu_memory, "gpu": gpu_memory},
    }
    asked = _asked(script, args, state_dir, spec_file, given, module=module)
    question = _question(asked, only, steps, patience, gpu_memory=gpu_memory)
    place = advised_spec.place_of(asked.job.name) if apply_it else None
    found, exit_code = _advice(asked.job, state_dir, question)
    applied = None
    if place is not None and found.best is not None:
        applied = (
            advised_spec.write(place, asked.tables, found)
            if found.whole
            else WrittenSpec(path=None)
        )
    show(
        alternative_lines.as_json(found, applied),
        alternative_lines.lines(found, applied),
        as_json=as_json,
    )
    raise SystemExit(exit_code)


def _asked(
    script: str | None,
    args: tuple[str, ...],
    state_dir: Path | None,
    spec_file: Path | None,
    given: dict[str, Any],
    *,
    module: bool,
) -> AdviceRequest:
    if script is not None and not module and _names_a_job(script, state_dir):
        return _of_job(script, args, state_dir, spec_file, given)
    return _resolved(
        *read_spec(spec_file, {**asked_script(script, args, module=module), **given})
    )


def _resolved(
    tables: dict[str, Any], spec: Spec, *, by_daemon: bool = False
) -> AdviceRequest:
    job = job_of(spec)
    places = {
        "script": str(job.script),
        "working_directory": job.spec.working_directory,
    }
    return AdviceRequest(tables={**tables, **places}, job=job, by_daemon=by_daemon)


def _names_a_job(word: str, state_dir: Path | None) -> bool:
    """A script is there, or has a path or the suffix of one. All else may be a job; what is
    neither is told as what it looks like."""
    there = os.path.isfile(word)  # noqa: PTH113  # never raises
    if there or "/" in word or word.endswith(".py"):
        return False
    like_a_script = bool(Path(word).suffix) or os.path.exists(word)  # noqa: PTH110  # as above
    return not like_a_script or has_job(state_dir, word)


def _of_job(
    name: str,
    args: tuple[str, ...],
    state_dir: Path | None,
    spec_file: Path | None,
    given: dict[str, Any],
) -> AdviceRequest:
    if args or spec_file is not None:
        fail(
            f"{name} is no script that is there, so it is taken for a job: that has its own"
            " spec and arguments, and takes none"
        )
    files = files_of(state_dir, name)
    refuse_as_root(files, "run the script of a job")
    said = given_only({**given, "name": name})
    tables = merge(merge(written(files.spec), _places_of(files)), said)
    spec = spec_of(tables, where=f"the spec of {name} and the options", given=said)
    return _resolved(tables, spec, by_daemon=files.by_daemon)


def _places_of(files: JobFiles) -> dict[str, str]:
    """Where its script is and where it worked, wherever its spec was written."""
    if files.base is None:
        say(f"it is not known where {files.job} was run: it is tried from here")
    found = {"script": files.script, "working_directory": files.base}
    return {key: value for key, value in found.items() if value}


def _question(
    asked: AdviceRequest,
    only: tuple[str, ...],
    steps: int,
    patience: float,
    *,
    gpu_memory: str | None,
) -> TrialQuestion:
    """On the CPU where the spec limits its memory, or there is no GPU; ends the command
    where a GPU's memory was to be limited then."""
    limits = asked.job.spec.memory
    why = _why_no_gpu(asked)
    if why is not None and gpu_memory is not None:
        fail(f"--gpu-memory limits nothing here: {why}")
    if why is not None and limits.gpu is not None:
        say(f"memory.gpu of the spec is left out: {why}")
    return TrialQuestion(
        limit_bytes=limits.gpu if why is None else limits.cpu,
        on_gpu=why is None,
        pool_bytes=free_pool(),
        steps=steps,
        patience_seconds=patience,
        only=frozenset(map(AlternativeAxis, only)) or frozenset(AlternativeAxis),
    )


def _why_no_gpu(asked: AdviceRequest) -> str | None:
    """Why it is tried on the CPU; None: it is tried on a GPU."""
    spec = asked.job.spec
    if spec.memory.cpu is not None:
        return (
            "it is tried on the CPU, whose memory is limited (--cpu-memory, memory.cpu)"
        )
    none_counted = asked.by_daemon if spec.gpu_count is None else spec.gpu_count == 0
    if spec.gpus == () or (spec.gpus is None and none_counted):
        return "the job asks for no GPU"
    return None if gpus_once() else "there is no GPU to be seen on this machine"


def _advice(
    job: Job, state_dir: Path | None, question: TrialQuestion
) -> tuple[Advice, int]:
    """What was found, and the exit code. Where it is ended before, it is what was found
    until then, if that is anything."""
    with directory_for(state_dir or default_state_directory(), PREFIX) as root:
        trials = AlternativeTrials(job, question, root, say=say)
        try:
            found = trials.advice()
        except (KeyboardInterrupt, TerminatedError) as end:
            so_far = trials.so_far()
            if so_far is None:
                raise
            return so_far, exit_code_after(end)
        except AdviseError as error:
            fail_after(error, error.failed)
        except (LedgerError, OSError) as error:
            fail(f"the script cannot be tried: {error}", exit_code=1)
    return found, 0 if found.best is not None else 1
