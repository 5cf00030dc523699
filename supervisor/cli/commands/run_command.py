"""``trainwarden run``: one script, in the foreground, to its end."""

import contextlib
import errno
import os
from collections.abc import Generator
from pathlib import Path

import click
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from supervisor.cli.console import LastingConsole
from supervisor.cli.json_lines import JsonView
from supervisor.cli.options import EXIT_USAGE, fail, json_option, state_option
from supervisor.cli.run_surface import Surface
from supervisor.cli.script_lookup import checked_python, script_content
from supervisor.cli.spec_options import (
    accept_changes_option,
    args_argument,
    asked_script,
    cpu_memory_option,
    env_option,
    environment_of,
    gpu_list,
    gpus_option,
    module_option,
    name_of,
    name_option,
    python_option,
    read_spec,
    script_argument,
    spec_option,
)
from supervisor.cli.summary import figures, summary
from supervisor.cli.termination import Termination
from supervisor.core.gpu.assignment import by_uuid, named
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.exit_handling import EXIT_DRAINED, EXIT_FINISHED
from supervisor.core.metrics.machine_state import JobsView
from supervisor.core.text.log_level import LogLevel
from supervisor.host.doctor.cuda_checks import missing_gpus
from supervisor.host.exporter.machine_monitor import MachineMonitor
from supervisor.host.exporter.metrics_server import ServeError
from supervisor.host.launch.direct import DirectLauncher
from supervisor.host.launch.input_relay import relay_of
from supervisor.host.ledger.ledger import Ledger, LedgerError
from supervisor.host.service.clock import Clock
from supervisor.host.service.lock import Lock, acquire, holder
from supervisor.host.service.network_file_systems import ledger_sentence
from supervisor.host.service.user_name import user_name
from supervisor.host.telemetry.output_follower import OutputFollower
from supervisor.runtime.exporter_setup import observing
from supervisor.runtime.foreground import (
    Job,
    ResumeOptions,
    as_it_began,
    begin,
    finished_before,
    refuse_if_it_trains,
    settle,
    supervisor_for,
)
from supervisor.wire.paths import StatePaths
from supervisor.wire.seal import script_hash

LOCK_SECONDS = 0.2
"""How long a reader of the lock may be in a person's way."""
ENDING_SECONDS = 30.0
"""... and, beyond its grace, an earlier supervisor that ends in a scheduler's."""


@click.command(context_settings={"allow_interspersed_args": False})
@name_option
@state_option
@json_option
@module_option
@python_option
@env_option
@cpu_memory_option
@gpus_option
@click.option(
    "--snapshot-every",
    metavar="30s|200steps",
    help="Interval of snapshots. Default: planned from what one costs.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT|off",
    help="Serve /metrics for Prometheus there. Default: off.",
)
@spec_option
@click.option(
    "--fresh", is_flag=True, help="Begin anew; earlier snapshots are deleted."
)
@accept_changes_option
@click.option(
    "-q", "--quiet", is_flag=True, help="Of what we have to say only what is wrong."
)
@click.option(
    "--no-output", is_flag=True, help="Do not show what the script prints: see its log."
)
@click.option(
    "--requeued",
    is_flag=True,
    help="A scheduler starts it again, no person: a run that finished stays so, one that "
    "still ends is waited for, and an edited script goes on as it was.",
)
@script_argument
@args_argument
def run(
    *,
    name: str | None,
    state_dir: Path,
    as_json: bool,
    module: bool,
    python: str | None,
    variables: tuple[str, ...],
    cpu_memory: str | None,
    gpus: str | None,
    snapshot_every: str | None,
    metrics: str | None,
    spec_file: Path | None,
    fresh: bool,
    accept_changes: bool,
    quiet: bool,
    no_output: bool,
    requeued: bool,
    script: str | None,
    args: tuple[str, ...],
) -> None:
    """Run SCRIPT to its end, through crashes.

    The script needs no change. After a crash the cause is named, a remedy chosen, and
    training goes on from the newest snapshot. SIGTERM or Ctrl-C saves a snapshot and
    ends with 75; the same command resumes.

    What the script prints is shown as it comes. Where standard output is no terminal, it
    gets that alone, byte for byte, and our own lines go to standard error.

    \b
    Examples:
      trainwarden run train.py --epochs 10
      trainwarden run -m package.train --epochs 10
      trainwarden run --python /srv/venv/bin/python --env SEED=7 train.py
      trainwarden run --spec job.toml
    """  # noqa: D301  # \b is click's mark, not a backslash
    termination = Termination()
    termination.listen()
    given = {
        "name": name,
        **asked_script(script, args, module=module),
        "python": python,
        "environment": environment_of(variables),
        "gpus": None if gpus is None else gpu_list(gpus),
        "memory": {"cpu": cpu_memory},
        "snapshots": {"every": snapshot_every},
        "metrics": {"listen": metrics},
    }
    if fresh and requeued:
        fail("--fresh would throw away what a requeued run goes on from: choose one")
    _, spec = read_spec(spec_file, given)
    job = job_of(spec)
    choice = ResumeOptions(
        fresh=fresh, accept_changes=accept_changes, person=not requeued
    )
    paths = StatePaths(state_dir.absolute())
    patience = spec.drain.grace + ENDING_SECONDS if requeued else None
    surface = Surface(quiet=quiet, output=not no_output, as_json=as_json)
    with (
        surface.console() as console,
        _state(paths, job.name, patience=patience),
        observing_machine(job.spec, paths) as observer,
    ):
        code = _foreground(
            job, paths, observer, choice, termination, surface=surface, console=console
        )
        termination.over()
        raise SystemExit(code)


def job_of(spec: Spec) -> Job:
    """The spec with its names resolved; ends the command if there is no such script."""
    base = Path(spec.working_directory or Path.cwd())
    script = (base / spec.script).resolve()
    content = script_content(script, spec.script)
    if spec.python is not None:
        checked_python(spec.python, base)
    missing = missing_gpus(spec.gpus)
    if missing is not None:
        fail(f"{missing}; see `trainwarden gpu`")
    name = spec.name or name_of(script)
    return Job(
        name=name, spec=spec, script=script, script_hash=script_hash(content, spec.args)
    )


def _stop_if_finished(job: Job, ledger: Ledger) -> None:
    """A scheduler that lost sight of the end of a run starts it once more."""
    if finished_before(job, ledger):
        click.echo(
            f"{job.name}: has finished before; a new run needs another name", err=True
        )
        raise SystemExit(EXIT_FINISHED)


@contextlib.contextmanager
def _state(paths: StatePaths, job: str, *, patience: float | None) -> Generator[None]:
    """The state directory, with the job locked. ``patience``: seconds to wait for an
    earlier supervisor of it; None: a person waits."""
    lock = paths.lock(job)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = _acquire(lock, seconds=LOCK_SECONDS if patience is None else patience)
    except OSError as error:
        fail(_state_sentence(paths, error))
    if held is None:
        pid = holder(lock)
        by = "" if pid is None else f" by process {pid}"
        code = EXIT_USAGE if patience is None else EXIT_DRAINED
        message = f"the job {job!r} is already run{by}; see `trainwarden status`"
        fail(message, exit_code=code)
    try:
        yield
    except LedgerError as error:
        fail(str(error), exit_code=1)
    except OSError as error:
        fail(_state_sentence(paths, error), exit_code=1)
    finally:
        held.release()


def _acquire(path: Path, *, seconds: float) -> Lock | None:
    """The lock; a reader may hold it for the blink of an eye."""
    return Retrying(
        retry=retry_if_result(lambda lock: lock is None),
        wait=wait_fixed(0.05),
        stop=stop_after_delay(seconds),
        retry_error_callback=lambda _state: None,
    )(acquire, path)


def _state_sentence(paths: StatePaths, error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"the disk of the state directory {paths.root} is full"
    return (
        f"cannot write to the state directory {paths.root}: {error.strerror}; "
        "choose another with --state-dir"
    )


@contextlib.contextmanager
def observing_machine(spec: Spec, paths: StatePaths) -> Generator[MachineMonitor]:
    """Watch the machine around a run; ends the command if metrics cannot be served."""
    try:
        memory, gpus = spec.snapshots.memory, spec.gpus
        observed = observing(spec.metrics, paths.root, memory=memory, gpus=gpus)
        with observed as observer:
            yield observer
    except ServeError as error:
        fail(str(error))


def _jobs_view(
    spec: Spec, status: JobStatus, observer: MachineMonitor, *, late: bool
) -> JobsView:
    """What a daemon would tell: the GPUs that the spec gives the run, and whose it is.
    One that is known by its number alone is left out until the driver says which it is."""
    gpus = spec.gpus if spec.gpus is not None and not status.state.ended else ()
    given = (gpu for gpu in named(gpus, observer.readings()) if by_uuid([gpu]))
    holder = status.job, user_name(os.getuid())
    return JobsView(holders=dict.fromkeys(given, holder), unwritten=late)


def _kept_out(ledger: Ledger) -> dict[str, frozenset[str]]:
    """The GPUs that failed and are not back yet; nothing where that cannot be told.
    Without a daemon nobody takes one out of service."""
    try:
        kept = ledger.quarantined()
    except LedgerError:
        return {}
    return {
        "out_of_service": frozenset(),
        "quarantine": frozenset(row.gpu for row in kept),
    }


def _foreground(
    job: Job,
    paths: StatePaths,
    observer: MachineMonitor,
    choice: ResumeOptions,
    termination: Termination,
    *,
    surface: Surface,
    console: LastingConsole,
) -> int:
    clock = Clock()
    began = clock.now()
    with contextlib.closing(Ledger(paths.ledger)) as ledger:
        if not choice.person:
            _stop_if_finished(job, ledger)
            job = as_it_began(job, ledger)
        try:
            refuse_if_it_trains(job.name, ledger)
            begun = begin(job, paths, ledger, clock, choice)
        except StartRefusedError as error:
            fail(str(error))
        before = len(ledger.attempts(begun.row.id))
        follower = OutputFollower(
            lambda number: begun.paths.attempt(number).output, after=before
        )
        with surface.view(console, follower) as shown:

            def show(status: JobStatus) -> None:
                shown.show(status)
                observer.show(
                    [status],
                    jobs=_jobs_view(
                        job.spec, status, observer, late=supervisor.recorder.late
                    ),
                    kept_out=lambda: _kept_out(ledger),
                )
                for sentence in observer.news():
                    shown.say(sentence, level=LogLevel.WARNING)

            shown.say(f"{job.name}: {begun.greeting}")
            if (shared := ledger_sentence(paths.root)) is not None:
                shown.say(shared, level=LogLevel.WARNING)
            relay = relay_of(shown.say)
            supervisor = supervisor_for(
                begun,
                launcher=DirectLauncher(
                    environments=observer.population.environments, relay=relay
                ),
                say=shown.say,
                show=show,
                accept_changes=choice.accept_changes,
                population=observer.population,
            )
            supervisor.devices = observer.devices_of(job.spec.gpus)
            settle(supervisor, begun)
            termination.of = supervisor
            code = supervisor.supervise()
            if relay is not None:
                relay.close()
            incidents = ledger.incidents(run=begun.row.id)
            status = supervisor.status()
            if isinstance(shown, JsonView):
                shown.finish(status, incidents, code=code)
                return code
            found = figures(begun.paths, status.attempt, seconds=clock.now() - began)
            text = summary(
                status,
                incidents,
                begun.paths,
                found,
                code=code,
                output_shown=surface.output_beside_our_lines,
            )
            shown.end(text, level=LogLevel.ERROR if code == 1 else LogLevel.INFO)
    return code
