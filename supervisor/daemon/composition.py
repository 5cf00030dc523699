"""Composition root of the daemon: a configuration becomes a running daemon."""

import contextlib
import os
import shlex
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

from supervisor.core.jobs.authorization import AccessRules, Caller
from supervisor.core.jobs.config import Config, UserLimits
from supervisor.core.jobs.managed.scheduling import CpuSlots
from supervisor.core.jobs.spec import NotifySpec
from supervisor.core.text.log_level import LogLevel
from supervisor.daemon.api_service import ApiService
from supervisor.daemon.daemon import Daemon
from supervisor.daemon.known_gpus import KnownGpus
from supervisor.daemon.launcher_factory import (
    LauncherFactory,
    MultiUserFactory,
    launcher_factory_of,
)
from supervisor.daemon.run_starter import RunStarter
from supervisor.daemon.scheduler import Scheduler
from supervisor.host.control.control_server import ControlServer, Mailbox
from supervisor.host.exporter.machine_monitor import MachineMonitor
from supervisor.host.launch import systemctl
from supervisor.host.ledger.ballast import Ballast
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.notifications.notification_sender import problem_of
from supervisor.host.process.process_tree import ProcessTree
from supervisor.host.service.clock import Clock
from supervisor.host.service.journal import Journal
from supervisor.host.service.lock import acquire
from supervisor.host.service.sd_notify import SdNotifier
from supervisor.host.service.user_name import user_name
from supervisor.runtime.alerts.disk_notifications import DiskNotifications
from supervisor.runtime.alerts.run_notifications import NotificationSenders
from supervisor.runtime.exporter_setup import observing
from supervisor.wire.paths import StatePaths

CLOCK = Clock()
PROBE = Path("/run/trainwarden-gpu/probe.sock")
"""Where ``trainwarden-gpu.service`` listens; the daemon's service has no devices."""
TAKE_UP_USEC = 300 * 10**6
"""Within which a job is taken up when the daemon begins. Of an attempt whose end nobody
saw, up to ``END_POLLS`` looks are made at what it told, each of half a second."""
LEAST_SLOTS = 4
"""Small jobs for trying things out are run on small machines."""


class DaemonError(Exception):
    """The daemon cannot start; the message is one sentence."""


@contextlib.contextmanager
def composed(
    config: Config,
    *,
    clock: Clock = CLOCK,
    launcher_factory: LauncherFactory | None = None,
) -> Generator[Daemon]:
    """A daemon, ready to run; what it held is given back at the end.

    ``launcher_factory``: None: what the configuration says.

    Raises:
        DaemonError, LedgerError, ServeError, OSError: it cannot start.
    """
    new = not os.path.lexists(config.state_dir)
    _private(Path(config.state_dir))
    paths = StatePaths(Path(config.state_dir).resolve())
    place = _place_of(config)
    journal, notifier = Journal(place=place), SdNotifier.of(os.environ)
    with contextlib.ExitStack() as held:
        held.enter_context(_alone(paths.root))
        ledger = held.enter_context(contextlib.closing(Ledger(paths.ledger)))
        systemd = _is_service()
        population = ProcessTree()
        launcher_factory = launcher_factory or launcher_factory_of(
            config.launcher,
            paths.root,
            systemd=systemd,
            environments=population.environments,
        )
        made = " (made just now; state_dir of the configuration names another)"
        where = f"state in {paths.root}{made if new else ''}"
        journal.say(f"{where}; {launcher_factory.about}")
        known_gpus = KnownGpus(JobBook(ledger))
        observer = held.enter_context(
            observing(
                config.metrics,
                paths.root,
                memory="/dev/shm",  # noqa: S108  # the memory tier's
                gpus=config.gpus.use,
                link=_probe_of(config, launcher_factory),
                kernel_log=os.geteuid() == 0,  # nobody else can be expected to
                population=population,
                say=partial(journal.say, level=LogLevel.WARNING),
                known=known_gpus.recall(),
            )
        )
        senders = NotificationSenders(spec=config.notify, directory=paths.root)
        starter = RunStarter(
            paths=paths,
            ledger=ledger,
            clock=clock,
            launcher_factory=launcher_factory,
            say=journal.say_of,
            observer=observer,
            senders=senders,
            place=place,
            disks=DiskNotifications(senders=senders, clock=clock, say=journal.say),
        )
        _check_notifications(config.notify, journal)
        scheduler = _scheduler_of(config, starter, journal)
        api = _api_of(config, scheduler, launcher_factory)
        mailbox = held.enter_context(contextlib.closing(Mailbox()))
        more_time = partial(notifier.send, EXTEND_TIMEOUT_USEC=str(TAKE_UP_USEC))
        scheduler.load(before_each=more_time)
        control = ControlServer(Path(config.control), mailbox.ask)
        held.callback(control.close)
        yield Daemon(
            scheduler=scheduler,
            api=api,
            mailbox=mailbox,
            observer=observer,
            known_gpus=known_gpus,
            jobs=Path(config.jobs),
            caller=Caller(uid=os.geteuid(), name=user_name(os.geteuid())),
            notifier=notifier,
            journal=journal,
        )


def _scheduler_of(config: Config, starter: RunStarter, journal: Journal) -> Scheduler:
    """All jobs of the ledger of ``starter``, and what there is to run them on."""
    shared = isinstance(starter.launcher_factory, MultiUserFactory)
    return Scheduler(
        book=JobBook(starter.ledger),
        starter=starter,
        gpus=_gpus_of(starter.observer, config.gpus.use),
        quota=config.gpus.quota,
        cpu=_slots(config.limits, shared=shared),
        say=journal.say,
        ballast=Ballast(starter.paths.root / "ballast"),
    )


def _api_of(
    config: Config, scheduler: Scheduler, launcher_factory: LauncherFactory
) -> ApiService:
    """What users may ask of ``scheduler``."""
    return ApiService(
        scheduler=scheduler,
        rules=_rules(config, launcher_factory),
        jobs=Path(config.jobs),
        limits=config.limits,
    )


def _place_of(config: Config) -> str:
    """The option by which commands find this daemon; empty where they do without."""
    usual = Config.model_fields["state_dir"].default
    if config.socket is not None or config.state_dir == usual:
        return ""
    return f"--state-dir {shlex.quote(str(Path(config.state_dir).absolute()))}"


@contextlib.contextmanager
def _alone(root: Path) -> Generator[None]:
    """The only daemon of the state directory ``root``, for as long as it lasts.

    Raises:
        DaemonError: there is another.
    """
    lock = acquire(root / "daemon.lock")
    if lock is None:
        message = f"another daemon has the state directory {root}"
        raise DaemonError(message)
    try:
        yield
    finally:
        lock.release()


def _check_notifications(notify: NotifySpec, journal: Journal) -> None:
    """Jobs run all the same."""
    problem = problem_of(notify.addresses, notify.command) if notify.wanted else None
    if problem is not None:
        journal.say(problem, level=LogLevel.WARNING)


def _gpus_of(
    observer: MachineMonitor, use: tuple[str, ...] | None
) -> Callable[[], tuple[str, ...]]:
    """The GPUs to hand out: those of the configuration, or all that the driver names."""
    if use is not None:
        return lambda: use
    return lambda: tuple(reading.uuid for reading in observer.readings())


def _probe_of(config: Config, launcher_factory: LauncherFactory) -> Path | None:
    """Who asks the GPU driver: a service, or (None) a child of ours."""
    if config.gpus.probe is not None:
        return Path(config.gpus.probe)
    return PROBE if isinstance(launcher_factory, MultiUserFactory) else None


def _rules(config: Config, launcher_factory: LauncherFactory) -> AccessRules:
    return AccessRules(
        members=config.group,
        admins=config.admin_group,
        own_uid=os.geteuid(),
        trusts_itself=not isinstance(launcher_factory, MultiUserFactory),
    )


def _slots(limits: UserLimits, *, shared: bool) -> CpuSlots:
    cores = max(os.cpu_count() or 1, LEAST_SLOTS)
    slots = cores if limits.cpu_slots is None else limits.cpu_slots
    of_a_user = limits.cpu_jobs
    if of_a_user is None and shared:
        of_a_user = max(slots - 1, 1)
    return CpuSlots(slots=slots, of_a_user=of_a_user)


def _private(root: Path) -> None:
    """The state directory: ours, and written by nobody else.

    Raises:
        DaemonError: it is not, or a link leads elsewhere.
    """
    root.mkdir(parents=True, exist_ok=True, mode=0o711)
    found = root.lstat()
    if root.is_symlink() or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        message = (
            f"the state directory {root} has to be a directory of "
            f"{user_name(os.geteuid())} that nobody else may write to"
        )
        raise DaemonError(message)


def _is_service() -> bool:
    """Whether systemd started us as a service of this machine."""
    return systemctl.booted() and "INVOCATION_ID" in os.environ
