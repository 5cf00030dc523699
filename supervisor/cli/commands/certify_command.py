"""``trainwarden certify``: would this script end as if it had never been killed?"""

import contextlib
import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from supervisor.cli.foreground.foreground_run import (
    check_gpu_count,
    check_host_limit,
    job_of,
    observing_machine,
)
from supervisor.cli.options import EXIT_INTERRUPTED, fail, json_option, state_option
from supervisor.cli.spec_options import (
    args_argument,
    cpu_memory_option,
    gpu_list,
    gpus_option,
    read_spec,
    script_argument,
    spec_option,
)
from supervisor.cli.state_directory import state_sentence
from supervisor.cli.views import json_lines
from supervisor.cli.views.console import lasting, view
from supervisor.cli.views.json_lines import JsonView
from supervisor.cli.views.summary import last_words
from supervisor.core.jobs.certificate import Certificate, Outcome
from supervisor.host.ledger.ledger import LedgerError
from supervisor.host.service.nonblocking_writer import left_out
from supervisor.runtime.measuring.certification import (
    Certification,
    CertifyError,
    Plan,
    forget,
)
from supervisor.wire.paths import StatePaths


@click.command(context_settings={"allow_interspersed_args": False})
@state_option
@json_option
@cpu_memory_option
@gpus_option
@spec_option
@click.option(
    "--steps",
    type=click.IntRange(min=2),
    help="End each run after so many steps. Default: at its own end.",
)
@click.option(
    "--kills",
    type=click.IntRange(min=1, max=100),
    default=3,
    show_default=True,
    help="How often the run is killed, after steps drawn at random.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**63 - 1),
    help="Draw the same steps as another time. Default: drawn.",
)
@script_argument
@args_argument
def certify(
    *,
    state_dir: Path,
    as_json: bool,
    cpu_memory: str | None,
    gpus: str | None,
    spec_file: Path | None,
    steps: int | None,
    kills: int,
    seed: int | None,
    script: str | None,
    args: tuple[str, ...],
) -> None:
    """Try whether SCRIPT ends as if it had never been killed.

    It is run twice, each time in a copy of the working directory: left alone, and killed
    (SIGKILL) after steps drawn at random. All that both leave is compared to the bit:
    weights, optimizer, callbacks, History, and the files in the working directory. Where
    something differs it is run once more, to see whether it does so by itself.

    Ends with 0 where all is the same, else with 1 and what differs.

    \b
    Examples:
      trainwarden certify train.py
      trainwarden certify --steps 200 --kills 5 train.py --epochs 10
    """  # noqa: D301  # \b is click's mark, not a backslash
    given = {
        "script": script,
        "args": list(args) or None,
        "gpus": None if gpus is None else gpu_list(gpus),
        "memory": {"cpu": cpu_memory},
    }
    _, spec = read_spec(spec_file, given)
    job = job_of(spec)
    check_gpu_count(job.spec)
    check_host_limit(job.spec)
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        root = Path(tempfile.mkdtemp(prefix="certify-", dir=state_dir.absolute()))
    except OSError as error:
        fail(state_sentence(state_dir, error))
    with (
        lasting(gap=json_lines.left_out if as_json else left_out) as console,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(forget, root)
        observer = stack.enter_context(
            observing_machine(job.spec, StatePaths(state_dir.absolute()))
        )
        shown = JsonView(console) if as_json else view(console)
        plan = Plan(kills=kills, steps=steps, seed=seed)
        with shown:
            trials = Certification(
                job, plan, root, observer=observer, say=shown.say, show=shown.show
            )
            found = _certificate(trials)
        if isinstance(shown, JsonView):
            shown.put("certified", **_as_json(found))
        else:
            console.put("\n".join(found.lines))
    raise SystemExit(0 if found.outcome is Outcome.CERTIFIED else 1)


def _certificate(trials: Certification) -> Certificate:
    try:
        return trials.certificate()
    except CertifyError as error:
        said = [str(error)]
        if error.failed is not None:
            said.append(last_words(error.failed.crash, error.failed.output))
        fail("\n".join(said), exit_code=EXIT_INTERRUPTED if error.interrupted else 1)
    except LedgerError as error:
        fail(str(error), exit_code=1)
    except OSError as error:
        fail(f"the script cannot be tried: {error}", exit_code=1)


def _as_json(found: Certificate) -> dict[str, object]:
    told = {"promise": found.promise, "outcome": found.outcome, "lines": found.lines}
    return {**asdict(found), **told}
