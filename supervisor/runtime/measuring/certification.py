"""A script tried: left alone, then killed again and again, and what both leave compared.

Each run has a copy of the working directory, in the same place, so that paths which the
script keeps are the same; and the same seed, so that what it draws without one is, too.
"""

import json
import random
import secrets
import shutil
import subprocess
import sys
import time
import tokenize
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.core.causes import Cause
from supervisor.core.jobs.certificate import (
    FILE,
    Certificate,
    RunComparison,
    deaths_among,
    kills_among,
    said_before,
)
from supervisor.core.jobs.changing_lines import ChangingLine, changing_lines
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.jobs.spec_values import SnapshotInterval
from supervisor.core.lifecycle.events import DrainRequested
from supervisor.core.text.log_level import LogLevel, Notifier
from supervisor.host.exporter.machine_monitor import MachineMonitor
from supervisor.host.launch.direct import DirectLauncher
from supervisor.host.ledger.ledger import IncidentRow, Ledger
from supervisor.host.service.clock import Clock
from supervisor.host.snapshots.working_copy import WorkingCopy, copy_of, differing
from supervisor.host.telemetry.attempt_news import UNPROMISED
from supervisor.host.telemetry.withdrawn_promises import (
    unlike_others,
    withdrawn_promises,
)
from supervisor.runtime.attempts.directive_builder import PlannedEnds
from supervisor.runtime.run_setup import (
    Begun,
    Job,
    ResumeOptions,
    begin,
    supervisor_for,
)
from supervisor.runtime.supervisor import Supervisor
from supervisor.wire.paths import AttemptPaths, RunPaths, StatePaths

COMPARISON = "trainers.state.run_comparison"
SNAPSHOTS_A_KILL = 3
"""So many snapshots lie between two kills, where the spec gives no interval."""
BACK_OFF_SECONDS = 0.1


class CertifyError(Exception):
    """No certificate: the sentence says why."""

    def __init__(
        self,
        sentence: str,
        *,
        interrupted: bool = False,
        failed: AttemptPaths | None = None,
    ) -> None:
        self.interrupted = interrupted
        self.failed = failed
        """The attempt that failed by itself, if that is why."""
        super().__init__(sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a script is tried."""

    kills: int
    steps: int | None
    """Each run ends after so many; None: at its own end."""
    seed: int | None = None
    """Where kills come, and what the script draws without a seed; None: drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A run that is over."""

    copy: WorkingCopy
    paths: RunPaths
    status: JobStatus
    incidents: tuple[IncidentRow, ...]
    seconds: float

    @property
    def steps(self) -> int:
        """Done in the run."""
        return self.status.step or 0

    @property
    def events(self) -> list[Path]:
        """The event files of its attempts."""
        numbers = range(1, self.status.attempt + 1)
        return [self.paths.attempt(number).events for number in numbers]


class WithdrawnOnce:
    """Says in how far bits are not promised once, not in each attempt of all runs again;
    numbers alone make no other sentence. All else is said."""

    def __init__(self, say: Notifier) -> None:
        self._say = say
        self._known: set[str] = set()

    def __call__(self, text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:
        """As a ``Notifier``."""
        known = unlike_others(text) in self._known
        if text.startswith(UNPROMISED):
            self._known.add(unlike_others(text))
        if not known:
            self._say(text, level=level)


class Certification:
    """The runs of one script, in a directory of their own."""

    def __init__(
        self,
        job: Job,
        plan: Plan,
        root: Path,
        *,
        observer: MachineMonitor,
        say: Notifier,
        show: Callable[[JobStatus], None],
    ) -> None:
        self._job, self._plan, self._root = job, plan, root
        self._observer, self._say, self._show = observer, say, show
        self._said = WithdrawnOnce(say)
        self._seed = secrets.randbits(63) if plan.seed is None else plan.seed
        self._draw = random.Random(self._seed)  # noqa: S311  # nobody is to be surprised
        self._base = Path(job.spec.working_directory or Path.cwd()).resolve()

    def certificate(self) -> Certificate:
        """Run, kill and compare.

        Raises:
            CertifyError: a run failed by itself or was interrupted, or what they left
                cannot be compared.
            LedgerError, OSError: the directory cannot be used.
        """
        whole = self._run("undisturbed", PlannedEnds(stop_at_step=self._plan.steps))
        self._say_of(whole)
        draws = [self._draw.random() for _ in range(self._plan.kills)]
        kills = kills_among(whole.steps, draws)
        torn = self._torn(whole, kills)
        found, again = self._compared(whole, torn), None
        if found.differ:
            self._say("they differ: is that so without kills, too?")
            ends = PlannedEnds(stop_at_step=self._plan.steps)
            again = self._compared(whole, self._run("again", ends))
        said = withdrawn_promises([*torn.events, *whole.events])
        before = withdrawn_promises(torn.events[:1])
        deaths = [row for row in torn.incidents if row.cause == Cause.PREEMPTED]
        others = [row for row in torn.incidents if row.cause != Cause.PREEMPTED]
        return Certificate(
            steps=whole.steps,
            kills=len(kills),
            killed_at=deaths_among(kills, [row.failed_step for row in deaths]),
            seconds=whole.seconds + torn.seconds,
            comparison=found,
            undisturbed=again,
            unpromised=said,
            too_late=tuple(one for one in said if one not in before),
            failures=tuple(str(row.cause) for row in others),
            changing=self._changing() if found.differ else (),
        )

    def _changing(self) -> tuple[ChangingLine, ...]:
        try:
            with tokenize.open(self._job.script) as script:  # by its own encoding
                source = script.read()
        except (OSError, UnicodeDecodeError, SyntaxError):
            return ()  # It is a hint: what was found out holds without it.
        return changing_lines(source)

    def _say_of(self, whole: Trial) -> None:
        self._say(f"undisturbed: {whole.steps} steps; now it is killed")
        for name in whole.copy.linked:
            self._say(f"{name} is large: it was linked, not copied, for these runs")

    def _torn(self, whole: Trial, kills: tuple[int, ...]) -> Trial:
        latest = 2 * (whole.status.step_seconds or 0.0)
        ends = PlannedEnds(
            stop_at_step=self._plan.steps,
            kills=tuple((step, self._draw.uniform(0.0, latest)) for step in kills),
        )
        every = whole.steps // (SNAPSHOTS_A_KILL * (len(kills) + 1))
        return self._run("killed", ends, every=max(every, 1))

    def _run(self, name: str, ends: PlannedEnds, *, every: int | None = None) -> Trial:
        work = self._root / "work"
        copy = copy_of(self._base, work, without=self._root.parent)
        paths = StatePaths(self._root / name)
        paths.root.mkdir(mode=0o700)
        began = time.monotonic()
        with closing(Ledger(paths.ledger)) as ledger:
            begun = begin(
                self._job_in(work, every=every),
                paths,
                ledger,
                Clock(),
                ResumeOptions(fresh=True),
                seed=self._seed,
            )
            supervisor = self._supervisor(begun, ends)
            supervisor.supervise()
            trial = Trial(
                copy=copy.moved(self._root / f"work-{name}"),
                paths=begun.paths,
                status=supervisor.status(),
                incidents=tuple(ledger.incidents(run=begun.row.id)),
                seconds=time.monotonic() - began,
            )
        self._check(trial, ends)
        return trial

    def _supervisor(self, begun: Begun, ends: PlannedEnds) -> Supervisor:
        """It shows how it is going, and ends the run where its attempt came to its stop."""

        def show(status: JobStatus) -> None:
            self._show(status)
            saved = None if status.snapshot is None else status.snapshot.step
            stop = ends.stop_at_step
            if stop is not None and (saved or 0) >= stop and status.pid is None:
                supervisor.post(
                    DrainRequested("certify: it did all the steps asked for")
                )

        supervisor = supervisor_for(
            begun,
            launcher=DirectLauncher(
                environments=self._observer.population.environments
            ),
            say=self._said,
            show=show,
            observer=self._observer,
            planned=ends,
        )
        return supervisor

    def _job_in(self, work: Path, *, every: int | None) -> Job:
        spec, script = self._job.spec, self._job.script
        if script.is_relative_to(self._base):
            script = work / script.relative_to(self._base)
        snapshots, restart = spec.snapshots, spec.restart
        if every is not None and snapshots.every is None:
            snapshots = snapshots.model_copy(
                update={"every": SnapshotInterval(steps=every)}
            )
        restart = restart.model_copy(update={"back_off": BACK_OFF_SECONDS})
        here = {
            "script": str(script),
            "working_directory": str(work),
            "snapshots": snapshots,
            "restart": restart,
        }
        return replace(self._job, spec=spec.model_copy(update=here), script=script)

    def _check(self, trial: Trial, ends: PlannedEnds) -> None:
        status = trial.status
        stopped = ends.stop_at_step is not None and trial.steps >= ends.stop_at_step
        if status.state is JobState.GAVE_UP:
            told = [f"it did not come to its end: {status.message}"]
            told += said_before(withdrawn_promises(trial.events))
            failed = trial.paths.attempt(status.attempt)
            raise CertifyError("\n".join(told), failed=failed)
        if status.state is JobState.DRAINED and not stopped:
            message = "interrupted before it was done"
            raise CertifyError(message, interrupted=True)

    def _compared(self, one: Trial, other: Trial) -> RunComparison:
        command = [sys.executable, "-m", COMPARISON]
        places = [str(trial.paths.snapshots) for trial in (one, other)]
        done = subprocess.run(  # noqa: S603  # our own module, paths of ours
            [*command, *places], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            message = done.stderr.strip()[-500:]
            raise CertifyError(message)
        said = json.loads(done.stdout)
        files, names = differing(one.copy, other.copy)
        several = len(said["fits"]) + len(said["apart"]) > 1
        differ = [
            f"{name} (fit {fit})" if several else name
            for fit, found in said["fits"].items()
            for name in found["differ"]
        ]
        differ += [f"how many steps fit {fit} took" for fit in said["apart"]]
        differ += [f"{FILE}{name}" for name in names]
        tensors = sum(found["tensors"] for found in said["fits"].values())
        return RunComparison(tensors=tensors, files=files, differ=tuple(differ))


def forget(root: Path) -> None:
    """Remove what the runs left."""
    shutil.rmtree(root, ignore_errors=True)
