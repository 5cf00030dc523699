"""An attempt that measures something of a script and trains nothing: started, heard, ended.

It has the launcher and the training side that a run has, and a directory of its own, which
who asks for it removes.
"""

import contextlib
import time
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.result import Diagnosis
from supervisor.core.jobs.spec import Spec
from supervisor.core.memory.bfc_map import MemoryMap
from supervisor.host.launch.direct import DirectAttempt, DirectLauncher
from supervisor.host.launch.launcher import LaunchError
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.service.clock import Clock
from supervisor.host.telemetry.allocator_dump import read_first_map
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.host.telemetry.log_follower import LogFollower
from supervisor.runtime.attempts.directive_builder import log_cap_of, make_directive
from supervisor.runtime.attempts.evidence_collector import gather
from supervisor.runtime.run_setup import Job, ResumeOptions, begin
from supervisor.wire.event_file import EventReader, Record
from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import AttemptPaths, StatePaths

LOOK_SECONDS = 0.1
GRACE_SECONDS = 10.0
"""Between the end that was asked for and the one that is forced."""
BETWEEN_FAILURES_SECONDS = 86400.0
"""Nothing is saved: whatever the directive needs there."""


class TakesTooLongError(Exception):
    """It was not over in the time that it had, and was ended."""


def planned(job: Job, root: Path) -> tuple[AttemptPaths, Directive]:
    """The files of one attempt of ``job`` in the empty directory ``root``, and what it would
    be told in training. The seed of the run is 0: whoever measures twice has the same.

    Raises LedgerError, OSError.
    """
    paths = StatePaths(root)
    with closing(Ledger(paths.ledger)) as ledger:
        begun = begin(job, paths, ledger, Clock(), ResumeOptions(fresh=True), seed=0)
    directive = make_directive(
        begun.row,
        job.spec,
        begun.paths,
        1,
        None,
        between_failures=BETWEEN_FAILURES_SECONDS,
    )
    return begun.paths.attempt(1), directive


def hear(
    spec: Spec,
    directive: Directive,
    paths: AttemptPaths,
    *,
    patience_seconds: float,
    tell: Callable[[Record], None],
) -> None:
    """Start it, ``tell`` of each of its records, until it has ended. Nothing of it is left
    then, however this ends.

    Raises:
        LaunchError: it cannot be started.
        TakesTooLongError: it did not end in so many seconds.
    """
    until = time.monotonic() + patience_seconds
    attempt = DirectLauncher().launch(spec, directive, paths=paths)
    with _ended(attempt), closing(EventReader(paths.events)) as reader:
        while not (attempt.started() and attempt.ended()):
            _tell_all(reader, tell)
            if time.monotonic() > until:
                raise TakesTooLongError
            time.sleep(LOOK_SECONDS)
        _tell_all(reader, tell)


def _tell_all(reader: EventReader, tell: Callable[[Record], None]) -> None:
    for record in reader.poll():
        tell(record)


def diagnosis_of(spec: Spec, paths: AttemptPaths) -> Diagnosis:
    """Why it ended as it did."""
    exited = gather(
        paths,
        telemetry=Telemetry(paths),
        log=LogFollower(paths.output, cap=log_cap_of(spec)),
        cpu_limit=spec.memory.cpu,
        snapshots=(None, None),
    )
    return diagnose(exited.evidence)


def map_of(paths: AttemptPaths) -> MemoryMap | None:
    """Every chunk of the allocator as it ran out of memory; None: it did not, or wrote
    nothing that can be read."""
    return read_first_map(paths.dumps)


@contextlib.contextmanager
def _ended(attempt: DirectAttempt) -> Generator[None]:
    """Nothing of it is left, however it is come out of this."""
    try:
        yield
    finally:
        until = time.monotonic() + GRACE_SECONDS
        while not attempt.ended() and time.monotonic() < until:
            with contextlib.suppress(LaunchError):
                attempt.started()  # who is to be killed is known from then on
            attempt.kill()
            time.sleep(LOOK_SECONDS)
        attempt.close()
