"""Everything that is measured beside the runs' own telemetry, put together.

One for a process, whether it drives one run or many. ``show`` is what the loop calls:
it takes in where the runs are, and puts up what a scrape will be told. Nothing here
waits for a driver, a file system or a reader.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import override

from supervisor.core.diagnosis.driver_wait import DriverWait
from supervisor.core.diagnosis.kernel.driver_errors import MPS, DriverErrors, faults_of
from supervisor.core.gpu.assignment import boards, named
from supervisor.core.gpu.gpu_readings import Gpu, GpuProcess, GpuSample
from supervisor.core.gpu.probe_supervision import REBOOT
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.metrics.gpu_time import clocked
from supervisor.core.metrics.machine_state import (
    KEPT_OUT,
    Collector,
    GpuTimes,
    JobsView,
    Machine,
)
from supervisor.host.exporter.exposition_cache import ExpositionCache
from supervisor.host.exporter.host_collector import HostCollector, HostView
from supervisor.host.gpu.gpu_access import DriverReporter, GpuAccess
from supervisor.host.gpu.gpu_monitor import GpuMonitor, GpuView
from supervisor.host.gpu.probe_sources import DRIVER
from supervisor.host.process.proc_files import name_of
from supervisor.host.process.process_tree import ProcessTree
from supervisor.host.service.clock import Clock

NEWS = 100
"""Sentences kept until somebody asks."""
UNKNOWN = (
    "the GPU driver has not said which GPUs there are, so these, which must be left out, "
    "cannot be told from the others; waiting for it"
)
FIRST_NAMESPACE = 4026531836
"""Inode of the machine's own pid namespace (linux/proc_ns.h: PROC_PID_INIT_INO). In any
other the driver's pids are not ours."""

KEPT_OUT_SECONDS = 5.0
"""How often the ledger is asked which GPUs are given to nobody, which seldom changes."""
KeptOut = Callable[[], Mapping[str, Collection[str]]]
"""GPUs by one of ``core.metrics.machine_state.KEPT_OUT``."""


def _none_out() -> Mapping[str, Collection[str]]:
    """Nobody says."""
    return {}


def gpu_expected(
    gpus: Sequence[int | str] | None,
    *,
    devices: Path = Path("/dev"),
    driver: Path = DRIVER,
) -> bool:
    """Whether this machine should have NVML: a GPU is asked for, or a driver is there
    (its devices may be hidden from us)."""
    return bool(gpus) or (devices / "nvidiactl").exists() or driver.exists()


def pids_are_ours() -> bool:
    """Whether the driver's pids are those that we see."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino == FIRST_NAMESPACE
    except OSError:
        return False


def readings_of(sample: GpuSample | None) -> tuple[Gpu, ...]:
    """The GPUs of the box, for remedies and gates, with the names of their processes;
    one that is lost is among them. Empty: nothing is known now."""
    return tuple(
        replace(gpu, processes=tuple(map(_with_name, gpu.processes or ())))
        for gpu in (() if sample is None else sample.gpus)
    )


def _with_name(process: GpuProcess) -> GpuProcess:
    return replace(process, name=name_of(process.pid))


def machine_of(
    gpu: GpuView,
    host: HostView,
    *,
    now: float,
    expected: bool,
    kernel_log: bool = False,
) -> Machine:
    """What the exporter shows of the machine. ``expected``: it should have GPUs.
    ``kernel_log``: it should be read; else it is told of only where it is."""
    sample = gpu.fresh(now)
    collectors = {"host": host.collector(now)}
    if expected or gpu.sample is not None or not gpu.absent:
        seconds = None if gpu.sample is None else gpu.sample.seconds
        collectors["nvml"] = Collector(success=sample is not None, seconds=seconds)
        if kernel_log or gpu.kernel_readable:
            collectors["kernel_log"] = Collector(success=gpu.kernel_readable)
    return Machine(
        driver="" if sample is None else sample.driver,
        gpus=() if sample is None else sample.gpus,
        xids=gpu.xids,
        owners=host.owners,
        trees=host.trees,
        spaces=host.spaces,
        collectors=collectors,
    )


@dataclass(slots=True)
class FaultsOf(DriverReporter):
    """What befell one run since it was last asked for: of one attempt after another."""

    watch: GpuMonitor
    clock: Clock
    gpus: Sequence[int | str] | None
    """As the spec names them."""
    since: float
    lost: frozenset[str]
    """GPUs that were lost before: no news of this attempt."""

    @override
    def word(self, pids: Collection[int]) -> DriverWait:
        view = self.watch.latest()
        sample = view.sample
        return DriverWait(
            used=bool(self._used(view, pids)),
            answers=not (view.absent or view.reboot),
            begun=None if sample is None else sample.taken - sample.seconds,
        )

    @override
    def __call__(self, pids: Collection[int]) -> DriverErrors:
        since, self.since = self.since, self.clock.now()
        before, view = self.lost, self.watch.refresh()
        self.lost = _lost(view)
        return faults_of(
            view.xids.since(since),
            lines=[line.text for line in view.kernel if line.at >= since],
            gpus=[gpu for gpu in _known(view) if gpu.uuid not in before],
            used=self._used(view, pids),
            # Others may have the same numbers in the namespace that is meant.
            pids=pids if pids_are_ours() else (),
            others=strangers(view, pids),
        )

    def _used(self, view: GpuView, pids: Collection[int]) -> frozenset[str]:
        """The GPUs of the run by UUID: those that ``pids`` were seen on, and those that a
        spec gives it. Where the driver does not list processes, or lists those of another
        namespace, each of ``gpus`` (None: of the box) may be one of them."""
        known = _known(view)
        seen = {uuid for uuid, users in view.users.items() if users & set(pids)}
        if self.gpus is not None or not pids_are_ours():
            return boards(seen.union(named(self.gpus, known)), known)
        return frozenset(seen.union(g.uuid for g in known if g.uuid not in view.users))


def strangers(view: GpuView, pids: Collection[int]) -> Mapping[str, Collection[int]]:
    """Processes that the driver listed on a GPU beside ``pids``, by its UUID. None is
    known where pids cannot be compared, nor where ours are not; and on a GPU of MPS a
    fault of others is ours, too."""
    if not (pids and pids_are_ours()):
        return {}
    return {
        gpu: users.difference(pids)
        for gpu, users in view.users.items()
        if not any(name_of(pid).startswith(MPS) for pid in users)
    }


def _known(view: GpuView) -> tuple[Gpu, ...]:
    return () if view.sample is None else view.sample.gpus


def _lost(view: GpuView) -> frozenset[str]:
    """The GPUs that have fallen off the bus, by UUID."""
    return frozenset(gpu.uuid for gpu in _known(view) if gpu.lost)


class MachineMonitor:
    """Observes from ``start`` to ``close``."""

    def __init__(
        self,
        *,
        places: Mapping[str, Path],
        gpus: Sequence[int | str] | None,
        board: ExpositionCache | None = None,
        clock: Clock | None = None,
        environment: Mapping[str, str] | None = None,
        link: Path | None = None,
        kernel_log: bool = False,
        population: ProcessTree | None = None,
        known: Iterable[Gpu] = (),
    ) -> None:
        """``gpus``: those that a spec asks for. ``known``: those that were there before, as
        ``GpuMonitor`` has it. ``board``: None: there is no exporter,
        and the host is not measured. ``environment``: of the GPU probe. ``link``: the
        socket of the service that keeps it; None: it is a child of ours.
        ``kernel_log``: that we cannot read it is a fault; it is one of the service's."""
        self.clock = clock or Clock()
        self._news: deque[str] = deque(maxlen=NEWS)
        self._watch = GpuMonitor(
            say=self._news.append,
            clock=self.clock,
            environment=environment,
            link=link,
            known=known,
        )
        self._expected = gpu_expected(gpus)
        self._kernel_log = kernel_log or link is not None
        self.board = board
        self.population = population or ProcessTree()
        """Of the machine: the runs' supervisors ask it, and so do we."""
        self._host = HostCollector(places, clock=self.clock, population=self.population)
        self._read: GpuSample | None = None
        self._readings: tuple[Gpu, ...] = ()
        """As ``_read`` tells them."""
        self._kept_out: Mapping[str, Collection[str]] = {}
        self._kept_out_at = -math.inf
        self._gpu_times = GpuTimes()
        self._started_at = self.clock.wall()

    def start(self) -> None:
        """Begin."""
        self._watch.start()
        if self.board is not None:
            self._host.start()

    def close(self) -> None:
        """Stop everything."""
        self._watch.close()
        if self.board is not None:
            self._host.close()

    def show(
        self,
        statuses: Iterable[JobStatus],
        *,
        jobs: JobsView | None = None,
        kept_out: KeptOut = _none_out,
    ) -> None:
        """Where the runs are now. One that is not among them is forgotten. ``jobs``: of
        whoever hands out the GPUs. ``kept_out``: the GPUs that are given to nobody, asked
        for only if there is an exporter."""
        if self.board is None:
            return
        now = self.clock.now()
        shown = tuple(statuses)
        self._host.watch({status.job: status.pid for status in shown})
        if now - self._kept_out_at >= KEPT_OUT_SECONDS:
            self._kept_out = kept_out()
            if self._kept_out.keys() >= set(KEPT_OUT):  # all of it could be told
                self._kept_out_at = now
        machine = replace(
            self.machine(),
            kept_out=self._kept_out,
            jobs=jobs or JobsView(),
            started_at=self._started_at,
        )
        runs = {status.job for status in shown}
        self._gpu_times = clocked(self._gpu_times, machine, runs=runs, now=now)
        self.board.publish(shown, replace(machine, gpu_times=self._gpu_times))

    def machine(self) -> Machine:
        """What is known of the machine now."""
        return machine_of(
            self._watch.latest(),
            self._host.latest(),
            now=self.clock.now(),
            expected=self._expected,
            kernel_log=self._kernel_log,
        )

    @property
    def whole(self) -> bool:
        """Whether the driver has said something since ``start``, or never will."""
        view = self._watch.latest()
        return view.sample is not None or view.absent or view.reboot

    def news(self) -> list[str]:
        """What a person should hear, once: told to the loop that speaks with people."""
        return [self._news.popleft() for _ in range(len(self._news))]

    def gpus(self) -> GpuView:
        """All that is known of the GPUs; never waits for the driver."""
        return self._watch.latest()

    def readings(self) -> tuple[Gpu, ...]:
        """The GPUs of the box as they are now; never waits for the driver."""
        sample = self._watch.latest().fresh(self.clock.now())
        if sample is not self._read:  # each run asks, at each look
            self._read, self._readings = sample, readings_of(sample)
        return self._readings

    def stuck(self) -> str | None:
        """Why the driver will not answer before a reboot; None: it does, or might."""
        return REBOOT if self._watch.latest().reboot else None

    def silent(self) -> str | None:
        """Why nothing is known of the GPUs now; None: something is, or there are none."""
        view = self._watch.latest()
        known = view.absent or view.fresh(self.clock.now()) is not None
        return None if known else UNKNOWN

    def devices_of(
        self, gpus: Sequence[int | str] | None, *, since: float | None = None
    ) -> GpuAccess:
        """What a run with these GPUs asks. ``since``: when its attempt that runs now
        began (monotonic seconds), whose end its faults are asked at; None: none runs."""
        begun = self.clock.now() if since is None else since
        lost = _lost(self._watch.latest())
        return GpuAccess(
            gpus=self.readings,
            faults=FaultsOf(self._watch, self.clock, gpus, begun, lost),
            stuck=self.stuck,
            silent=self.silent,
        )


def default_places(state: Path, memory: Path | None) -> dict[str, Path]:
    """File systems worth watching; ``memory``: of the memory tier, if there is one."""
    return {"state": state} | ({} if memory is None else {"memory": memory})
