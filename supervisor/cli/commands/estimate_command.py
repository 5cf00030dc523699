"""``trainwarden estimate``: what would training need, before its first step?"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from supervisor.cli.foreground.foreground_run import job_of
from supervisor.cli.measuring import (
    directory_for,
    fail_after,
    free_pool,
    say,
    size_of,
)
from supervisor.cli.options import fail, json_option, show, state_option
from supervisor.cli.spec_options import (
    args_argument,
    asked_script,
    env_option,
    environment_of,
    module_option,
    python_option,
    read_spec,
    script_argument,
    spec_option,
)
from supervisor.cli.views import estimate_lines
from supervisor.core.jobs.spec import MemorySpec, Spec
from supervisor.core.memory.step_estimate import (
    GPU_RESERVE_BYTES,
    BatchFit,
    StepEstimate,
    fit_into,
    fit_into_common,
)
from supervisor.host.exporter.gpu_query import gpus_once
from supervisor.host.ledger.ledger import LedgerError
from supervisor.runtime.measuring.estimation import (
    EstimateError,
    EstimateQuestion,
    Estimation,
    MeasuredScript,
)
from supervisor.runtime.run_setup import Job

TRIAL_SECONDS = 40.0
PREFIX = "estimate-"
"""Of the directory of an estimate."""


@click.command(context_settings={"allow_interspersed_args": False})
@state_option
@json_option
@module_option
@python_option
@env_option
@spec_option
@click.option(
    "--memory-limit",
    metavar="SIZE",
    help="Say what fits into so much, e.g. 4GiB. Default: each GPU of this machine; where"
    " there is none, GPUs of the usual sizes.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1, max=2**31),
    help="Estimate a batch of so many samples. Default: the script's own.",
)
@click.option(
    "--jit/--no-jit",
    default=None,
    help="Measure the step compiled by XLA, or not. Default: as the script has it.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1, max=3600),
    default=TRIAL_SECONDS,
    show_default=True,
    help="No further size is tried after so long; the first ones take what they take.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=1, max=86400),
    default=600.0,
    show_default=True,
    help="Seconds until all has to be over.",
)
@script_argument
@args_argument
def estimate(
    *,
    state_dir: Path,
    as_json: bool,
    module: bool,
    python: str | None,
    variables: tuple[str, ...],
    spec_file: Path | None,
    memory_limit: str | None,
    batch: int | None,
    jit: bool | None,
    seconds: float,
    patience: float,
    script: str | None,
    args: tuple[str, ...],
) -> None:
    """Say what training SCRIPT would need of memory, before its first step.

    The script needs no change. It is run up to its first model.fit; there some steps of a
    few batch sizes are tried on the CPU, by the allocator that TensorFlow uses on GPUs (on
    JAX: by XLA's own analysis), and the process ends. Nothing is trained, no callback of
    the script's is called, and no GPU is used.

    Ends with 0 where it was measured, whether it fits or not; with 1 where that cannot be
    done, and why.

    \b
    Examples:
      trainwarden estimate train.py
      trainwarden estimate --memory-limit 4GiB --batch 256 train.py --epochs 10
    """  # noqa: D301  # \b is click's mark, not a backslash
    limit = size_of(memory_limit, "--memory-limit")
    if math.isnan(seconds) or math.isnan(patience):
        fail("--seconds and --patience: expected a number of seconds, got nan")
    _, spec = read_spec(
        spec_file,
        {
            **asked_script(script, args, module=module),
            "python": python,
            "environment": environment_of(variables),
        },
    )
    job = job_of(spec)
    pool = free_pool()
    question = EstimateQuestion(
        pool_bytes=pool,
        seconds=seconds,
        patience_seconds=patience,
        batch=batch,
        jit=jit,
    )
    with directory_for(state_dir, PREFIX) as root:
        temporary = root / "tmp"
        temporary.mkdir()
        to_do = to_measure(job, pool, temporary=temporary)
        measured = _measured(Estimation(to_do, question, root, say=say))
    wanted = batch or measured.estimate.model.batch
    fits = list(fits_into(measured.estimate, wanted, spec, limit))
    alone = measured.estimate.model.devices == 1
    common = fit_into_common(measured.estimate, wanted) if alone and not fits else ()
    show(
        estimate_lines.as_json(measured, wanted, fits, common),
        estimate_lines.lines(measured, wanted, fits, common),
        as_json=as_json,
    )


def to_measure(job: Job, pool: int, *, temporary: Path) -> Job:
    """``job`` as it is measured: on the CPU, in a pool of so many bytes. ``temporary``:
    where it leaves what it has no time to remove, as it ends at once."""
    spec = job.spec
    environment = {"TMPDIR": str(temporary), **spec.environment}
    changes: dict[str, Any] = {
        "memory": MemorySpec(cpu=pool),
        "gpus": (),
        "snapshots": spec.snapshots.model_copy(update={"memory": None, "remote": None}),
        "environment": {**environment, "JAX_PLATFORMS": "cpu"},
    }
    return replace(job, spec=spec.model_copy(update=changes))


def _measured(estimation: Estimation) -> MeasuredScript:
    try:
        return estimation.measured()
    except EstimateError as error:
        fail_after(error, error.failed)
    except (LedgerError, OSError) as error:
        fail(f"the script cannot be measured: {error}", exit_code=1)


def fits_into(
    found: StepEstimate, batch: int, spec: Spec, limit: int | None
) -> Iterator[BatchFit]:
    """Into the limit that was asked about, that of the spec, or the GPUs of this box; none:
    there is nothing to judge it by. Of several devices it is only known what all need."""
    if limit is not None:
        yield fit_into(found, batch, where="limit", limit_bytes=limit)
        return
    if spec.memory.cpu is not None:
        where = "memory.cpu of the spec"
        yield fit_into(found, batch, where=where, limit_bytes=spec.memory.cpu)
        return
    if found.model.devices > 1:
        return  # what one of them needs nobody has measured
    gpus = [gpu for gpu in gpus_once() if gpu.memory is not None]
    if not gpus and spec.memory.gpu is not None:
        where, size = "memory.gpu of the spec", spec.memory.gpu
        yield fit_into(found, batch, where=where, limit_bytes=size, device=True)
    for gpu in gpus:
        if gpu.memory is not None:
            total = gpu.memory.total - (gpu.memory.reserved or 0) - GPU_RESERVE_BYTES
            size = min(total, spec.memory.gpu or total)
            name = f"GPU {'' if gpu.index is None else gpu.index} {gpu.name}".strip()
            yield fit_into(
                found, batch, where=name, limit_bytes=max(size, 1), device=True
            )
