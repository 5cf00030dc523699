"""The uploader: a process beside a run that sends its durable snapshots to the remote tier.

``python -I -m supervisor.host.remote.snapshot_uploader REQUEST.json``, started by ``run``.
A process of its own: hashing and TLS take no turn of the supervisor's loop and no time of
training's interpreter; it is nice; it may hang, be killed or run out of memory, and the
run does not notice. It knows training only by the directories that appear on disk.

It ends when its standard input does: then its supervisor is gone. A line on it is JSON: the
state of the run, and what remedies put in force (``RunNews``). Of a run that has ended what is
newest is sent, the state written down, and that is all.
"""

import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from supervisor.core.backoff import BackOff
from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.remote.pacing import SendingPace
from supervisor.core.jobs.remote.remote_tier import (
    Claim,
    SealedSnapshot,
    SnapshotFacts,
    Standing,
    doomed,
    to_send,
    useless_claims,
)
from supervisor.host.process.child_process import wait_for
from supervisor.host.remote.remote_job import (
    PART_BYTES,
    RemoteJob,
    RemoteStoreError,
    Sent,
    SourceGoneError,
    Terms,
    packed,
)
from supervisor.host.remote.remote_records import (
    ClaimRecord,
    UploadProgress,
    facts_of,
)
from supervisor.host.remote.remote_store import MissingExtraError, open_store
from supervisor.host.service.clock import Clock
from supervisor.host.snapshots.snapshot_catalog import (
    read_manifest,
    snapshot_directories,
)
from supervisor.wire.files import read_json, write_json
from supervisor.wire.json_record import JsonRecord
from supervisor.wire.paths import RunPaths

LOOK_SECONDS = 1.0
"""How often the durable tier is looked at."""
STANDING_SECONDS = 60.0
"""How often it is asked whether another machine took the run over, at least."""
FAILED = BackOff(first_seconds=2.0, most_seconds=120.0)
NICE = 10
_MOST_NEWS = 65536
"""A pipe holds no more (pipe(7)); a line is far shorter, and written at once."""
ABANDONED = "abandoned"
"""In the durable tier (``trainers.snapshots.durable_store``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadRequest(JsonRecord):
    """What an uploader is to do."""

    address: str
    claim: str
    run: str
    """The run's directory."""
    record: dict[str, Any]
    """``ClaimRecord`` of the claim, as it was made."""
    keep: int = 2
    bytes_per_second: int | None = None
    part_bytes: int = PART_BYTES
    boot_id: str = ""
    """Of the machine, as now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNews(JsonRecord):
    """What the supervisor tells the uploader, in a line."""

    state: str
    ended: bool
    overrides: dict[str, Any] | None = None


class Fenced(Exception):  # noqa: N818  # no error: another one's turn
    """Another machine has taken the run over."""


@dataclass(slots=True)
class SnapshotUploader:
    """The remote tier of one run, kept up to date."""

    request: UploadRequest
    job: RemoteJob
    claim: Claim
    record: ClaimRecord
    paths: RunPaths
    progress: UploadProgress
    clock: Clock = field(default_factory=Clock)
    ended: bool = False
    """The run has: there is nothing to come."""
    _pace: SendingPace = field(init=False)
    _facts: dict[Path, SnapshotFacts] = field(default_factory=dict[Path, SnapshotFacts])
    _asked_at: float | None = None
    _abandoned: frozenset[str] = frozenset()
    _seen: frozenset[Path] = frozenset()
    _untold: bool = True
    """The record is not as it should be."""

    def __post_init__(self) -> None:
        self._pace = SendingPace(self.request.bytes_per_second)

    def turn(self) -> None:
        """Send what is newest, and remove what is old. Raises RemoteStoreError, Fenced."""
        local = self._local()
        now = self.clock.now()
        recent = self._asked_at is not None and now - self._asked_at < STANDING_SECONDS
        abandoned = self._names_abandoned()
        same = frozenset(local) == self._seen and abandoned == self._abandoned
        if recent and same and not self.ended and not self._untold:
            return
        standing = self._standing()
        if self._untold and not self.ended:
            self._put_record()
        sealed = self.job.sealed(standing, run_id=self.record.run_id)
        for facts in to_send(local.values(), sealed):
            (source,) = (path for path, one in local.items() if one == facts)
            with contextlib.suppress(SourceGoneError):  # training has pruned it
                self._send(source, standing, facts)
        standing = self._standing()
        sealed = self.job.sealed(standing, run_id=self.record.run_id)
        self._prune(standing, sealed, abandoned)
        self._abandoned, self._seen = abandoned, frozenset(local)
        newest = max((one for one in sealed), key=lambda one: one.name, default=None)
        self._tell(step=None if newest is None else newest.facts.step, problem=None)

    def _local(self) -> dict[Path, SnapshotFacts]:
        found: dict[Path, SnapshotFacts] = {}
        for path in snapshot_directories(self.paths.snapshots) or ():
            known = self._facts.get(path)
            if known is None:
                manifest = read_manifest(path)
                known = None if manifest is None else facts_of(manifest)
            if known is not None:
                found[path] = known
        self._facts = found
        return found

    def _names_abandoned(self) -> frozenset[str]:
        try:
            found = list((self.paths.snapshots / ABANDONED).iterdir())
        except OSError:
            return frozenset()
        return frozenset(path.name for path in found)

    def _standing(self) -> Standing:
        """What is there. Raises Fenced where it is another one's to write."""
        standing = self.job.standing()
        self._asked_at = self.clock.now()
        above = standing.fenced(self.claim)
        if above is not None:
            record = self.job.record(above)
            raise Fenced("another machine" if record is None else record.host)
        return standing

    def _may_seal(self) -> bool:
        self._standing()
        return True

    def _send(self, source: Path, standing: Standing, facts: SnapshotFacts) -> None:
        self._tell(sending=source.name)
        sent = self.job.send(
            source,
            run_id=self.record.run_id,
            claim=self.claim,
            there=standing.parts,
            terms=Terms(part_bytes=self.request.part_bytes, pace=self._pace),
            run_files=packed(self.paths.root),
            may_seal=self._may_seal,
        )
        if sent is not None:
            self._sent(sent, facts)

    def _sent(self, sent: Sent, facts: SnapshotFacts) -> None:
        self._tell(
            sending=None,
            problem=None,
            step=facts.step,
            snapshots=self.progress.snapshots + 1,
            sent_bytes=self.progress.sent_bytes + sent.sent_bytes,
            kept_bytes=self.progress.kept_bytes + sent.kept_bytes,
            whole_ns=time.monotonic_ns(),
        )
        self._put_record()

    def _prune(
        self,
        standing: Standing,
        sealed: list[SealedSnapshot],
        abandoned: frozenset[str],
    ) -> None:
        old = doomed(
            standing,
            sealed,
            claim=self.claim,
            keep=self.request.keep,
            abandoned=abandoned,
        )
        self.job.remove(standing, old)
        self.job.remove_claims(useless_claims(standing, claim=self.claim))

    def _put_record(self) -> None:
        self.record = replace(self.record, told_at=self.clock.wall())
        self.job.put_record(self.claim, self.record)
        self._untold = False

    def hear(self, news: RunNews) -> None:
        """The run is in another state, or remedies changed something."""
        self.ended = news.ended
        told = replace(self.record, state=news.state, overrides=news.overrides)
        self._untold = told != self.record
        self.record = told

    def end(self) -> None:
        """Write down in which state the run has ended. Raises RemoteStoreError, Fenced."""
        self._standing()
        self._put_record()

    def fail(self, because: str) -> None:
        """An upload failed; it is tried again."""
        failures = self.progress.failures + 1
        self._tell(sending=None, problem=because, failures=failures)

    def is_taken(self, host: str) -> None:
        """Another machine took the run over: nothing is written there any more."""
        self._tell(sending=None, problem=None, taken_by=host)

    def _tell(self, **changes: Any) -> None:
        told = self.progress.after(**changes)
        if told != self.progress:
            self.progress = told
            with contextlib.suppress(OSError):  # a full disk: told later
                write_json(self.paths.remote_progress, told.to_json())


def upload(uploader: SnapshotUploader, words: int) -> None:
    """Send until the run ends, or its supervisor does; ``words``: the descriptor that
    tells."""
    failed = 0
    while True:
        try:
            if uploader.record.state != JobState.FINISHED:
                uploader.turn()
            if uploader.ended:
                uploader.end()
                return
            failed, pause = 0, LOOK_SECONDS
        except RemoteStoreError as error:
            failed += 1
            uploader.fail(str(error))
            pause = FAILED.wait_seconds(failures=failed, key=uploader.request.claim)
            pause = LOOK_SECONDS if uploader.ended else pause
        except Fenced as fenced:
            uploader.is_taken(str(fenced))
            return
        if wait_for([words], seconds=pause):
            said = os.read(words, _MOST_NEWS)
            if not said:
                return
            news = news_in(said)
            if news is not None:
                uploader.hear(news)


def news_in(said: bytes) -> RunNews | None:
    """The last of the lines; None: it is none."""
    try:
        value = json.loads(said.splitlines()[-1])
    except (ValueError, IndexError):
        return None
    if not isinstance(value, dict):
        return None
    return RunNews.from_json(cast("dict[str, Any]", value))


def uploader_of(request: UploadRequest) -> SnapshotUploader | None:
    """What carries ``request`` out; None: it asks for nothing that could be.

    Raises:
        RemoteStoreError, MissingExtraError: the store cannot be opened.
    """
    claim = Claim.of(request.claim)
    record = ClaimRecord.from_json(request.record)
    if claim is None or record is None:
        return None
    store = open_store(request.address, below=record.job)
    return SnapshotUploader(
        request=request,
        job=RemoteJob(store, record.job),
        claim=claim,
        record=record,
        paths=RunPaths(Path(request.run)),
        progress=UploadProgress(
            address=request.address,
            claim=request.claim,
            host=record.host,
            boot_id=request.boot_id,
        ),
    )


def _step_aside() -> None:
    """Whoever trains comes first. A session of its own has a share of its own where the
    kernel groups by sessions: that is made smaller, too (sched(7), autogroup)."""
    os.nice(NICE)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICE))


def main(arguments: list[str]) -> None:
    """``REQUEST.json``."""
    value = read_json(Path(arguments[0])) if len(arguments) == 1 else None
    request = None if value is None else UploadRequest.from_json(value)
    if request is None:
        sys.exit("usage: snapshot_uploader REQUEST.json")
    _step_aside()
    try:
        uploader = uploader_of(request)
    except (RemoteStoreError, MissingExtraError) as error:
        sys.exit(f"trainwarden: {error}")
    if uploader is None:
        sys.exit("trainwarden: a request that cannot be read")
    upload(uploader, sys.stdin.fileno())


if __name__ == "__main__":
    main(sys.argv[1:])
