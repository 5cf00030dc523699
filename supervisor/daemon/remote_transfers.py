"""The remote tiers of a daemon's jobs: looked into before they begin, sent to as they run.

The loop waits for none of it. A look is a process (``remote_arrival``), of which a few go on
at a time; a run's uploads are another, as in the foreground. What is newest when a run ends is
sent after its end, for as long as the daemon lives, and by the next daemon where it did not.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from supervisor.core.jobs.remote.remote_tier import Claim
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.spec import Spec
from supervisor.core.remediation.overrides import NOTHING
from supervisor.core.text.log_level import JobNotifier, LogLevel
from supervisor.host.ledger.ledger import RunRow
from supervisor.host.process.child_process import Piped
from supervisor.host.remote.snapshot_uploader import UploadRequest
from supervisor.host.service.clock import Clock
from supervisor.runtime.attempts.remote_uploads import REQUEST, RemoteUploads
from supervisor.runtime.remote_resume import (
    RemoteUnreachableError,
    own_claim,
    request_of,
)
from supervisor.runtime.run_setup import Begun
from supervisor.runtime.status_builder import paths_of
from supervisor.runtime.supervisor import Supervisor
from supervisor.wire.files import read_json
from supervisor.wire.json_record import JsonRecord
from supervisor.wire.paths import StatePaths

MOST_LOOKS = 4
"""At a time: each is a process of some 40 MB that fetches a snapshot."""
HOLDS_SECONDS = 60.0
"""So old an outcome may be when its job begins."""
END_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalOutcome(JsonRecord):
    """What came of a look: the job may begin with a claim, or must not begin."""

    claim: str | None = None
    """With which it begins; None: it must not."""
    sentence: str | None = None
    """For a person: what was fetched, or could not be."""
    answered: bool = True
    """The store did; else the run goes on from what is here."""
    refused: str | None = None
    """Why a person has to decide first."""
    later: str | None = None
    """Why it is to be tried again."""

    @classmethod
    def of(cls, said: bytes) -> "ArrivalOutcome":
        """What the process printed; it may have ended before."""
        try:
            value: Any = json.loads(said)
        except ValueError:
            value = None
        if isinstance(value, dict):
            found = cls.from_json(cast("dict[str, Any]", value))
            if found is not None:
                return found
        return cls(later="the look into its remote tier failed")


@dataclass(slots=True)
class _ArrivalLook:
    """A look that goes on, or is over; ``about``: what it was begun for."""

    process: Piped | None
    about: object
    said: bytes = b""
    outcome: ArrivalOutcome | None = None
    over_at: float = 0.0

    def go_on(self, now: float) -> bool:
        """Read what is there; whether it is over. Never waits."""
        if self.process is None:
            return True
        read, last = self.process.read()
        self.said += read
        if not last or self.process.status() is None:
            return False
        self.close()
        self.outcome, self.over_at = ArrivalOutcome.of(self.said), now
        return True

    def close(self) -> None:
        """End it, whatever it does: the next one asks again."""
        if self.process is not None:
            self.process.close(wait_seconds=END_SECONDS)
            self.process = None


@dataclass(kw_only=True)
class RemoteTransfers:
    """Of all jobs of a daemon; one without a remote tier in its spec costs nothing."""

    paths: StatePaths
    clock: Clock
    say: JobNotifier
    _looks: dict[str, _ArrivalLook] = field(default_factory=dict[str, _ArrivalLook])
    _uploads: dict[str, RemoteUploads] = field(default_factory=dict[str, RemoteUploads])
    _ending: dict[str, RemoteUploads] = field(default_factory=dict[str, RemoteUploads])

    def awaited(self, name: str, spec: Spec, *, fresh: bool) -> str | None:
        """What the start of a job waits for, and is begun by this; None: for nothing."""
        address, now = spec.snapshots.remote, self.clock.now()
        if address is None:
            return None
        about = address, fresh
        look = self._looks.get(name)
        if look is not None and look.about != about:
            self._looks.pop(name).close()
            look = None
        if look is not None and look.go_on(now):
            if now - look.over_at <= HOLDS_SECONDS:
                return None
            del self._looks[name]
            look = None
        if look is None:
            going_on = [one for one in self._looks.values() if one.process is not None]
            if len(going_on) >= MOST_LOOKS:
                return f"is about to ask {address} how far it has come"
            self._looks[name] = _ArrivalLook(self._begun_look(name), about)
        return f"asks {address} how far it has come, and fetches what is newer there"

    def _begun_look(self, name: str) -> Piped:
        module = "supervisor.daemon.remote_arrival"
        return Piped([sys.executable, "-I", "-m", module, str(self.paths.root), name])

    def keep_looks(self, names: Iterable[str]) -> None:
        """Looks for other jobs are of no more use: they do not wait any more."""
        if self._looks:
            for name in self._looks.keys() - set(names):
                self._looks.pop(name).close()

    def may_begin(self, name: str, spec: Spec) -> ArrivalOutcome | None:
        """The outcome with which a job begins that waits for nothing; None: it has no
        remote tier.

        Raises:
            StartRefusedError: a person has to decide first.
            RemoteUnreachableError: it is to be tried again.
        """
        if spec.snapshots.remote is None:
            return None
        outcome = self._looks.pop(name).outcome
        assert outcome is not None  # noqa: S101  # it is over
        if outcome.refused is not None:
            raise StartRefusedError(outcome.refused)
        if outcome.claim is None:
            raise RemoteUnreachableError(outcome.later or "")
        return outcome

    def begin(self, begun: Begun, outcome: ArrivalOutcome | None) -> None:
        """Send the snapshots of a run that begins. Raises OSError."""
        address = begun.job.spec.snapshots.remote
        claim = None if outcome is None else Claim.of(outcome.claim or "")
        if address is None or outcome is None or claim is None:
            return
        if outcome.sentence is not None:
            level = LogLevel.INFO if outcome.answered else LogLevel.WARNING
            self.say(begun.job.name, outcome.sentence, level=level)
        self._send(begun, address, claim)

    def go_on(self, begun: Begun) -> None:
        """... or of one that an earlier daemon began. Raises OSError."""
        address = begun.job.spec.snapshots.remote
        claim = None if address is None else own_claim(begun.paths, address)
        if address is not None and claim is not None:
            self._send(begun, address, claim)

    def _send(self, begun: Begun, address: str, claim: Claim) -> None:
        name = begun.job.name
        self._let_go(name)
        self._uploads[name] = RemoteUploads(
            request=request_of(begun, address, claim),
            paths=begun.paths,
            say=partial(self.say, name),
        )

    def see(self, name: str, supervisor: Supervisor) -> None:
        """After each turn of a run."""
        uploads = self._uploads.get(name)
        if uploads is not None:
            run = supervisor.run
            uploads.look(run.state, run.overrides, now=self.clock.now())

    def ended(self, name: str, supervisor: Supervisor) -> None:
        """A run has ended, and its newest snapshot is on disk."""
        uploads = self._uploads.pop(name, None)
        if uploads is not None:
            uploads.wind_up(supervisor.run.state, supervisor.run.overrides)
            self._ending[name] = uploads

    def recall(self, run: RunRow) -> None:
        """Send what a daemon before left of a run that has ended."""
        paths = paths_of(run, self.paths)
        value = read_json(paths.root / REQUEST) if run.place is None else None
        request = None if value is None else UploadRequest.from_json(value)
        if request is None:
            return
        uploads = RemoteUploads(
            request=request, paths=paths, say=partial(self.say, run.job)
        )
        uploads.wind_up(run.state, run.overrides or NOTHING)
        self._ending[run.job] = uploads

    def turn(self) -> None:
        """Go on with what runs left that have ended; never waits."""
        now = self.clock.now()
        for name, uploads in list(self._ending.items()):
            if uploads.is_wound_up(now=now):
                del self._ending[name]

    def _let_go(self, name: str) -> None:
        """Two uploaders of one claim would each take the other's parts for old ones."""
        for kept in (self._uploads, self._ending):
            if name in kept:
                kept.pop(name).close()

    def close(self) -> None:
        """Leave no process behind: the next daemon goes on with it."""
        self.keep_looks(())
        for name in [*self._uploads, *self._ending]:
            self._let_go(name)
