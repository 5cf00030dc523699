"""One job in the foreground: found, locked, supervised, and told of at its end."""

import contextlib
import os
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import click
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from supervisor.cli.command_hint import command_hint, in_place
from supervisor.cli.foreground.remote_run import RemotePart, check_remote
from supervisor.cli.foreground.termination import Termination
from supervisor.cli.options import EXIT_USAGE, fail
from supervisor.cli.script_lookup import (
    active_python,
    checked_directory,
    checked_python,
    script_content,
    script_path,
)
from supervisor.cli.spec_options import name_of
from supervisor.cli.state_directory import state_sentence
from supervisor.cli.views.console import LastingConsole, View
from supervisor.cli.views.json_lines import JsonView
from supervisor.cli.views.run_surface import Surface
from supervisor.cli.views.summary import RunFigures, figures, summary
from supervisor.core.gpu.assignment import by_uuid, named
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.jobs.accounting.run_summary import RunSummary
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.spec import NotifySpec, Spec
from supervisor.core.lifecycle.exit_handling import EXIT_DRAINED, EXIT_FINISHED
from supervisor.core.lifecycle.notifications import where_to_look
from supervisor.core.metrics.machine_state import JobsView
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.units import format_size
from supervisor.host.doctor.cuda_checks import missing_gpus
from supervisor.host.exporter.machine_monitor import MachineMonitor
from supervisor.host.exporter.metrics_server import ServeError
from supervisor.host.launch.direct import DirectLauncher
from supervisor.host.launch.input_relay import InputRelay, relay_of
from supervisor.host.ledger.ballast import OF_A_RUN_BYTES, Ballast
from supervisor.host.ledger.ledger import IncidentRow, Ledger, LedgerError
from supervisor.host.notifications.notification_sender import problem_of
from supervisor.host.service.clock import Clock
from supervisor.host.service.lock import Lock, acquire, holder
from supervisor.host.service.network_file_systems import ledger_sentence
from supervisor.host.service.user_name import user_name
from supervisor.host.telemetry.output_follower import OutputFollower
from supervisor.runtime.alerts.disk_notifications import DiskNotifications
from supervisor.runtime.alerts.run_notifications import (
    NotificationSenders,
    RunNotifications,
)
from supervisor.runtime.exporter_setup import observing
from supervisor.runtime.recording.run_history import summaries
from supervisor.runtime.run_setup import (
    Begun,
    Job,
    ResumeOptions,
    as_it_began,
    begin,
    finished_before,
    refuse_if_it_trains,
    settle,
    supervisor_for,
)
from supervisor.runtime.supervisor import Supervisor
from supervisor.wire.paths import RunPaths, StatePaths
from supervisor.wire.snapshots.seal import script_hash

LOCK_SECONDS = 0.2
"""How long a reader of the lock may be in a person's way."""
ENDING_SECONDS = 30.0
"""... and, beyond its grace, an earlier supervisor that ends in a scheduler's."""


def job_of(spec: Spec) -> Job:
    """The spec with its names resolved; ends the command if there is no such script."""
    base = checked_directory(spec.working_directory)
    # Who reads the ledger elsewhere, or later, stands in another directory.
    spec = spec.model_copy(update={"working_directory": str(base)})
    script = script_path(spec.script, base)
    content = script_content(script, spec.script, base)
    if spec.python is not None:
        checked_python(spec.python, base)
    elif (active := active_python()) is not None:
        spec = spec.model_copy(update={"python": active})
    if spec.gpus is None and spec.gpu_count == 0:
        spec = spec.model_copy(update={"gpus": ()})
    missing = missing_gpus(spec.gpus)
    if missing is not None:
        fail(f"{missing}; see `{command_hint('gpu')}`")
    check_remote(spec)
    check_notifications(spec.notify)
    name = spec.name or name_of(script)
    return Job(
        name=name, spec=spec, script=script, script_hash=script_hash(content, spec.args)
    )


def check_gpu_count(spec: Spec) -> None:
    """Say what ``gpu_count`` comes to here, where no daemon chooses: end the command where
    there are fewer GPUs, and say which the script sees where there are enough."""
    count = spec.gpu_count or 0
    if spec.gpus is not None or not count or spec.memory.cpu is not None:
        return
    missing = missing_gpus(range(count))
    if missing is not None:
        fail(f"gpu_count asks for {count}: {missing}; see `{command_hint('gpu')}`")
    click.echo(
        f"gpu_count = {count} is for a daemon, which chooses them: here the script sees all"
        " GPUs that the environment shows; --gpus 0 gives it that one",
        err=True,
    )


def check_host_limit(spec: Spec) -> None:
    """Say that nobody keeps a limit on main memory here."""
    if spec.memory.host is not None:
        click.echo(
            f"memory.host = {format_size(spec.memory.host)} is kept by a daemon under"
            " systemd alone: here nothing limits main memory",
            err=True,
        )


def check_notifications(notify: NotifySpec) -> None:
    """End the command where somebody is to be told who cannot be."""
    problem = problem_of(notify.addresses, notify.command) if notify.wanted else None
    if problem is not None:
        fail(problem)


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


@contextlib.contextmanager
def locked_state(
    paths: StatePaths, job: str, *, patience: float | None
) -> Generator[None]:
    """The state directory, with the job locked. ``patience``: seconds to wait for an
    earlier supervisor of it; None: a person waits."""
    lock = paths.lock(job)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = _acquire(lock, seconds=LOCK_SECONDS if patience is None else patience)
    except OSError as error:
        fail(state_sentence(paths.root, error))
    if held is None:
        pid = holder(lock)
        by = "" if pid is None else f" by process {pid}"
        code = EXIT_USAGE if patience is None else EXIT_DRAINED
        message = f"the job {job!r} is already run{by}; see `{command_hint('status')}`"
        fail(message, exit_code=code)
    try:
        yield
    except LedgerError as error:
        fail(str(error), exit_code=1)
    except OSError as error:
        fail(state_sentence(paths.root, error), exit_code=1)
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


@dataclass(frozen=True, slots=True)
class _End:
    """What came of it."""

    status: JobStatus
    incidents: list[IncidentRow]
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForegroundRun:
    """One job under this command, from the ledger's row to the exit code."""

    job: Job
    paths: StatePaths
    choice: ResumeOptions
    observer: MachineMonitor
    surface: Surface
    console: LastingConsole
    termination: Termination

    def run(self) -> int:
        """Supervise it to its end. Raises LedgerError; ends the command where the run
        must not start."""
        clock = Clock()
        began = clock.now()
        with contextlib.closing(Ledger(self.paths.ledger)) as ledger:
            remote = RemotePart.look(self.job, self.paths, ledger, clock, self.choice)
            begun = self._begun(ledger, clock)
            before = len(ledger.attempts(begun.row.id))
            follower = OutputFollower(
                lambda number: begun.paths.attempt(number).output, after=before
            )
            with self.surface.view(self.console, follower) as shown:
                shown.say(f"{begun.job.name}: {begun.greeting}")
                if (shared := ledger_sentence(self.paths.root)) is not None:
                    shown.say(shared, level=LogLevel.WARNING)
                with contextlib.ExitStack() as stack:
                    remote.begin(begun, shown.say)
                    stack.callback(remote.close)
                    relay = relay_of(shown.say)
                    if relay is not None:
                        stack.callback(relay.close)
                    senders = NotificationSenders(
                        spec=begun.job.spec.notify, directory=begun.paths.root
                    )
                    disks = DiskNotifications(
                        senders=senders, clock=clock, say=shown.say
                    )
                    supervisor = self._supervisor(
                        begun, shown, relay=relay, remote=remote, disks=disks
                    )
                    code = supervisor.supervise()
                    ended = clock.now()
                    remote.finish(supervisor)
                    disks.look(at_once=True)
                    senders.finish(shown.say)
                end = _End(
                    supervisor.status(), ledger.incidents(run=begun.row.id), code
                )
                found = figures(
                    begun.paths,
                    end.status.attempt,
                    seconds=ended - began,
                    whole=_whole(ledger, begun.job.name, now=clock.wall()),
                    continued=before > 0,
                )
                self._tell(end, shown, begun.paths, found)
        return code

    def _begun(self, ledger: Ledger, clock: Clock) -> Begun:
        job = self.job
        if not self.choice.person:
            _stop_if_finished(job, ledger)
            job = as_it_began(job, ledger)
        try:
            refuse_if_it_trains(job.name, ledger)
            return begin(job, self.paths, ledger, clock, self.choice)
        except StartRefusedError as error:
            fail(str(error))

    def _supervisor(
        self,
        begun: Begun,
        shown: View,
        *,
        relay: InputRelay | None,
        remote: RemotePart,
        disks: DiskNotifications,
    ) -> Supervisor:
        def show(status: JobStatus) -> None:
            remote.see(supervisor)
            shown.show(status)
            jobs = _jobs_view(
                begun.job.spec, status, self.observer, late=supervisor.recorder.late
            )
            self.observer.show(
                [status],
                jobs=jobs,
                kept_out=lambda: _kept_out(begun.ledger, self.observer.readings()),
            )
            for sentence in self.observer.news():
                shown.say(sentence, level=LogLevel.WARNING)

        population = self.observer.population
        ballast = Ballast(begun.paths.root / "ballast", OF_A_RUN_BYTES)
        ballast.hold()
        supervisor = supervisor_for(
            begun,
            launcher=DirectLauncher(environments=population.environments, relay=relay),
            say=shown.say,
            show=show,
            observer=self.observer,
            accept_changes=self.choice.accept_changes,
            notifications=RunNotifications(
                job=begun.job.name,
                senders=disks.senders,
                say=shown.say,
                look=in_place(where_to_look(begun.job.name)),
            ),
            disks=disks,
            ballast=ballast,
        )
        settle(supervisor, begun)
        self.termination.of = supervisor
        return supervisor

    def _tell(self, end: _End, shown: View, paths: RunPaths, found: RunFigures) -> None:
        if isinstance(shown, JsonView):
            shown.finish(end.status, end.incidents, code=end.code)
            return
        text = summary(
            end.status,
            end.incidents,
            paths,
            found,
            code=end.code,
            output_shown=self.surface.output_beside_our_lines,
        )
        shown.end(text, level=LogLevel.ERROR if end.code == 1 else LogLevel.INFO)


def _whole(ledger: Ledger, job: str, *, now: float) -> RunSummary | None:
    """The run of ``job`` that ended just now, as ``history`` tells it."""
    try:
        found = summaries(ledger, lambda _job: True, now=now, job=job)
    except LedgerError:
        return None  # how it ended is told all the same
    return found[-1] if found else None


def _stop_if_finished(job: Job, ledger: Ledger) -> None:
    """A scheduler that lost sight of the end of a run starts it once more."""
    if finished_before(job, ledger):
        click.echo(
            f"{job.name}: has finished before; a new run needs another name", err=True
        )
        raise SystemExit(EXIT_FINISHED)


def _jobs_view(
    spec: Spec, status: JobStatus, observer: MachineMonitor, *, late: bool
) -> JobsView:
    """What a daemon would tell: the GPUs that the spec gives the run, and whose it is.
    One that is known by its number alone is left out until the driver says which it is."""
    gpus = spec.gpus if spec.gpus is not None and not status.state.ended else ()
    given = (gpu for gpu in named(gpus, observer.readings()) if by_uuid([gpu]))
    holder = status.job, user_name(os.getuid())
    return JobsView(holders=dict.fromkeys(given, holder), unwritten=late)


def _names(gpus: Iterable[Gpu]) -> frozenset[str]:
    """By which they may be quarantined."""
    return frozenset(
        name
        for gpu in gpus
        for name in (gpu.uuid, str(gpu.index), *(part.uuid for part in gpu.mig))
    )


def _kept_out(ledger: Ledger, here: Iterable[Gpu]) -> dict[str, frozenset[str]]:
    """The GPUs of ``here`` that failed and are not back yet; nothing where that cannot be
    told. The ledger may be shared with other machines, and theirs are not lost here.
    Without a daemon nobody takes one out of service."""
    try:
        kept = ledger.quarantined()
    except LedgerError:
        return {}
    return {
        "out_of_service": frozenset(),
        "quarantine": frozenset(row.gpu for row in kept) & _names(here),
    }
