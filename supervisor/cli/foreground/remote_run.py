"""The remote tier of a foreground run: looked into before it begins, told of and closed
after it. Ends the command, with a sentence, where the run must not start."""

from dataclasses import dataclass, field

import click

from supervisor.cli.options import fail
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.exit_handling import EXIT_DRAINED, EXIT_FINISHED
from supervisor.core.text.log_level import LogLevel, Notifier
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.remote.remote_store import MissingExtraError, missing_extra
from supervisor.host.service.clock import Clock
from supervisor.runtime.attempts.remote_uploads import RemoteUploads
from supervisor.runtime.remote_resume import (
    RemoteArrival,
    RemoteUnreachableError,
    arrive,
    upload_request,
)
from supervisor.runtime.run_setup import Begun, Job, ResumeOptions
from supervisor.runtime.supervisor import Supervisor
from supervisor.wire.paths import StatePaths


def check_remote(spec: Spec) -> None:
    """Ends the command where the spec's remote tier lacks something; asks no store."""
    address = spec.snapshots.remote
    if address is None:
        return
    if spec.name is None:
        fail(
            "snapshots.remote needs a name for the run, by which another machine finds"
            " it: give one with --name"
        )
    missing = missing_extra(address)
    if missing is not None:
        fail(missing)


@dataclass(kw_only=True)
class RemotePart:
    """Of one run; without a remote tier in its spec it does nothing."""

    choice: ResumeOptions
    arrival: RemoteArrival | None
    uploads: RemoteUploads | None = None
    _clock: Clock = field(default_factory=Clock)

    @classmethod
    def look(
        cls,
        job: Job,
        paths: StatePaths,
        ledger: Ledger,
        clock: Clock,
        choice: ResumeOptions,
    ) -> "RemotePart":
        """Before the run begins: what another machine left is brought here."""
        if job.spec.snapshots.remote is None:
            return cls(choice=choice, arrival=None)
        try:
            arrival = arrive(job, paths, ledger, clock, choice)
        except (MissingExtraError, StartRefusedError) as error:
            fail(str(error))
        except RemoteUnreachableError as error:
            fail(str(error), exit_code=_come_again(choice))
        if arrival.host is not None and not choice.person:
            click.echo(
                f"{job.name}: has finished before, on {arrival.host}; a new run needs"
                " another name",
                err=True,
            )
            raise SystemExit(EXIT_FINISHED)
        return cls(choice=choice, arrival=arrival)

    def begin(self, begun: Begun, say: Notifier) -> None:
        """It begins: claim it, where it is not ours yet."""
        if self.arrival is None:
            return
        if self.arrival.sentence is not None:
            quiet = self.arrival.remote is not None
            level = LogLevel.INFO if quiet else LogLevel.WARNING
            say(self.arrival.sentence, level=level)
        try:
            request = upload_request(begun, self.arrival)
        except StartRefusedError as error:
            fail(str(error))
        except RemoteUnreachableError as error:
            fail(str(error), exit_code=_come_again(self.choice))
        self.uploads = RemoteUploads(request=request, paths=begun.paths, say=say)

    def see(self, supervisor: Supervisor) -> None:
        """After each turn of the run."""
        if self.uploads is not None:
            run = supervisor.run
            self.uploads.look(run.state, run.overrides, now=self._clock.now())

    def finish(self, supervisor: Supervisor) -> None:
        """The run has ended: wait for what is newest to be sent."""
        if self.uploads is not None:
            run = supervisor.run
            self.uploads.finish(
                run.state,
                run.overrides,
                seconds=supervisor.spec.snapshots.remote_wait,
                now=self._clock.now(),
            )

    def close(self) -> None:
        """Whatever happened: leave no process behind."""
        if self.uploads is not None:
            self.uploads.close()


def _come_again(choice: ResumeOptions) -> int:
    return 1 if choice.person else EXIT_DRAINED
