"""The resume from the remote tier: a run that another machine left goes on here.

Before anything runs: the newest claim says which run it is; ours is put above it; then its
snapshots are listed and the best of them fetched into the durable tier, from which training
goes on as after any restart. Claimed first, listed then: whoever wrote before sees the
claim, and writes nothing that we do not know of.
"""

import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from supervisor import __version__
from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.remote.foreign_run import (
    ForeignRunError,
    check_foreign_run,
)
from supervisor.core.jobs.remote.remote_tier import (
    Chain,
    Claim,
    RemoteName,
    Standing,
    chains,
    next_claim,
)
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.remediation.escalation import Allow
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.ledger.ledger import Ledger, RunRow
from supervisor.host.remote.remote_job import (
    DamagedRemoteError,
    RemoteJob,
    RemoteStoreError,
)
from supervisor.host.remote.remote_records import FORMAT, ClaimRecord
from supervisor.host.remote.remote_store import open_store
from supervisor.host.remote.snapshot_uploader import ABANDONED, UploadRequest
from supervisor.host.service.clock import Clock
from supervisor.host.snapshots.memory_tier import discard
from supervisor.host.snapshots.snapshot_catalog import age, snapshot_directories
from supervisor.runtime.attempts.directive_builder import memory_of
from supervisor.runtime.attempts.remote_uploads import told_overrides
from supervisor.runtime.run_setup import Begun, Job, ResumeOptions
from supervisor.runtime.status_builder import paths_of
from supervisor.wire.files import fsync_directory, read_json, write_json
from supervisor.wire.paths import RunPaths, StatePaths

SUPERSEDED = "superseded"
"""In the run's directory: snapshots from before another machine took the run over."""
PICKS = 8
"""How often another snapshot is tried where one is damaged, or pruned meanwhile."""


class RemoteUnreachableError(Exception):
    """The tier cannot be asked, and nothing here tells how far the run has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteArrival:
    """What the remote tier means for a run that is about to begin."""

    address: str
    remote: RemoteJob | None
    """None: the store does not answer."""
    claim: Claim | None = None
    """Ours, for the newest run in the ledger; None: it is to be made."""
    sentence: str | None = None
    """For a person: what was fetched, or could not be."""
    host: str | None = None
    """The machine on which the run has finished; None: it has not."""


def arrive(
    job: Job, paths: StatePaths, ledger: Ledger, clock: Clock, choice: ResumeOptions
) -> RemoteArrival:
    """Look into the remote tier, and bring here what is newer there.

    Raises:
        StartRefusedError: a person has to decide first.
        RemoteUnreachableError: the store does not answer.
        LedgerError, OSError: it cannot be written down here.
    """
    address = job.spec.snapshots.remote
    assert address is not None  # noqa: S101  # who calls has looked
    latest = ledger.latest_run(job.name)
    own = None if latest is None else own_claim(paths_of(latest, paths), address)
    try:
        remote = RemoteJob(open_store(address, below=job.name), job.name)
        standing = remote.standing()
        return _TierContents(
            job=job,
            paths=paths,
            ledger=ledger,
            clock=clock,
            address=address,
            remote=remote,
            standing=standing,
            latest=latest,
            own=own,
        ).decide(newest_record(remote, standing), fresh=choice.fresh)
    except RemoteStoreError as error:
        if own is None or choice.fresh:
            message = f"{address} cannot be asked how far {job.name} has come: {error}"
            raise RemoteUnreachableError(message) from error
        sentence = (
            f"{address} does not answer, and the run goes on from what is here: {error}"
        )
        return RemoteArrival(address=address, remote=None, claim=own, sentence=sentence)


def newest_record(remote: RemoteJob, standing: Standing) -> ClaimRecord | None:
    """Of the highest claim whose record is whole."""
    found = (remote.record(claim) for claim in reversed(standing.claims))
    return next((one for one in found if one is not None), None)


def own_claim(paths: RunPaths, address: str) -> Claim | None:
    """The claim that this run holds, or held, at ``address``."""
    value = read_json(paths.remote_claim)
    if value is None or value.get("address") != address:
        return None
    return Claim.of(str(value.get("claim")))


@dataclass(frozen=True, slots=True, kw_only=True)
class _TierContents:
    """What lies in the tier, and what here."""

    job: Job
    paths: StatePaths
    ledger: Ledger
    clock: Clock
    address: str
    remote: RemoteJob
    standing: Standing
    latest: RunRow | None
    own: Claim | None

    def decide(self, record: ClaimRecord | None, *, fresh: bool) -> RemoteArrival:
        """What follows from the ``record`` of the highest claim."""
        latest = self.latest
        if fresh:
            return self._arrival()
        if record is None:
            self._check_unread()
            return self._arrival()
        same = None if latest is None or latest.run_id != record.run_id else latest
        if same is None and self.ledger.knows_run(record.run_id):
            # Given up here, or forgotten: it is not gone on with.
            return self._arrival()
        ours = same is not None and self.own == self.standing.highest
        finished = record.state == JobState.FINISHED
        if finished or not ours:
            self._check(record, finished=finished)
        if finished:
            return self._finished(record, same)
        if (
            same is None
            and latest is not None
            and latest.state is not JobState.FINISHED
        ):
            message = (
                f"{self.address} holds a run of {self.job.name!r} that began elsewhere"
                f" ({record.host}), and there is another one here: choose another name"
                " with --name, or give both up with --fresh"
            )
            raise StartRefusedError(message)
        if same is not None and ours:
            sentence = self._complete(same)
            return self._arrival(claim=self.own, sentence=sentence)
        return self._take_over(record, same)

    def _check_unread(self) -> None:
        """Whether a run may begin here although no claim there can be read."""
        unfinished = (
            self.latest is not None and self.latest.state is not JobState.FINISHED
        )
        if self.standing.claims and not unfinished:
            message = (
                f"{self.address} holds a run of {self.job.name!r}, and none of its claims"
                " can be read: they are damaged, or of another version of Trainwarden;"
                " --fresh begins a new run"
            )
            raise StartRefusedError(message)

    def _check(self, record: ClaimRecord, *, finished: bool) -> None:
        """Before anything of it is kept; of a run that is over nothing is computed."""
        allowed = frozenset(Allow) if finished else self.job.spec.remedies.allowed
        try:
            check_foreign_run(record.to_json(), allowed=allowed)
        except ForeignRunError as error:
            message = (
                f"what {self.address} says of the run of {self.job.name!r} is not gone on"
                f" by: {error}; --fresh begins a new run"
            )
            raise StartRefusedError(message) from error

    def _arrival(
        self,
        *,
        claim: Claim | None = None,
        sentence: str | None = None,
        host: str | None = None,
    ) -> RemoteArrival:
        return RemoteArrival(
            address=self.address,
            remote=self.remote,
            claim=claim,
            sentence=sentence,
            host=host,
        )

    def _finished(self, record: ClaimRecord, same: RunRow | None) -> RemoteArrival:
        if same is not None:
            self.ledger.set_state(
                same.id,
                state=JobState.FINISHED,
                message=f"finished on {record.host}",
                overrides=record.overrides,
                ended_at=self.clock.wall(),
            )
        latest = self.latest
        over = same is not None or latest is None or latest.state is JobState.FINISHED
        return self._arrival(host=record.host if over else None)

    def _complete(self, row: RunRow) -> str | None:
        """Our own tier may hold what the disk has lost: fetch that."""
        run = paths_of(row, self.paths)
        here = self._newest_serial(row, run)
        chain = _fetched(
            self.remote,
            row.run_id,
            run,
            newer=lambda chain: chain.newest.facts.serial > here,
        )
        if chain is None:
            return None
        step = chain.newest.facts.step
        return f"the snapshot at step {step} was fetched: it was not here"

    def _newest_serial(self, row: RunRow, run: RunPaths) -> int:
        """Of the snapshots here, in memory or turned away from included; 0: none."""
        memory = memory_of(row, self.job.spec)
        places = [run.snapshots, run.snapshots / ABANDONED]
        places += [] if memory is None else [memory]
        found = [path for place in places for path in snapshot_directories(place) or ()]
        return max((age(path)[1] for path in found), default=0)

    def _take_over(self, record: ClaimRecord, same: RunRow | None) -> RemoteArrival:
        """Claim the run of the record, and go on with it here."""
        claim = make_claim(self.remote, self.standing, record, clock=self.clock)
        row = same or self._begun(record)
        run = paths_of(row, self.paths)
        run.snapshots.mkdir(parents=True, exist_ok=True, mode=0o700)
        own, here = self.own, self._newest_serial(row, run)

        def newer(chain: Chain) -> bool:
            name = chain.newest.name
            return name.serial > here if own is None else name.claim > own

        chain = _fetched(self.remote, record.run_id, run, newer=newer)
        memory = memory_of(row, self.job.spec)
        if chain is not None and memory is not None:
            discard(memory)  # what lies in it is of before
        self.ledger.set_state(
            row.id,
            state=JobState.DRAINED,
            message=f"taken over from {record.host}",
            overrides=record.overrides,
            ended_at=None,
        )
        keep_claim(run, claim, self.address)
        sentence = f"{self.address} has no newer snapshot of the run of {record.host}"
        if chain is not None:
            step = chain.newest.facts.step
            sentence = f"the snapshot at step {step} of {record.host} is here now"
        return self._arrival(claim=claim, sentence=sentence)

    def _begun(self, record: ClaimRecord) -> RunRow:
        return self.ledger.begin_run(
            run_id=record.run_id,
            job=self.job.name,
            script=str(self.job.script),
            script_hash=record.script_hash,
            seed=record.seed,
            spec=self.job.spec.model_dump(mode="json"),
            now=self.clock.wall(),
        )


def _fetched(
    remote: RemoteJob, run_id: str, run: RunPaths, *, newer: Callable[[Chain], bool]
) -> Chain | None:
    """The best chain, now in the durable tier and alone there; None: there is none that
    is whole and ``newer`` than what is here."""
    damaged: set[RemoteName] = set()
    for _ in range(PICKS):
        sealed = remote.sealed(remote.standing(), run_id=run_id)
        best = next(
            iter(chains(one for one in sealed if one.name not in damaged)), None
        )
        if best is None or not newer(best):
            return None
        incoming = RunPaths(run.root / "incoming")
        shutil.rmtree(incoming.root, ignore_errors=True)
        bad = _first_damaged(remote, best, incoming)
        if bad is None:
            _put_in_place(incoming, run)
            return best
        damaged.add(bad)
    return None


def _first_damaged(
    remote: RemoteJob, chain: Chain, incoming: RunPaths
) -> RemoteName | None:
    """Fetch all of it; the one that cannot be used, or None."""
    for one in chain.all:
        try:
            remote.fetch(one, incoming.snapshots)
        except DamagedRemoteError:
            return one.name
    return None


def _put_in_place(incoming: RunPaths, run: RunPaths) -> None:
    """What was fetched becomes the durable tier; what was there is of before."""
    aside = run.root / SUPERSEDED
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for path in snapshot_directories(run.snapshots) or []:
        path.rename(aside / path.name)
    # The oldest first: cut short, no newest one stands there without its ends.
    for path in reversed(snapshot_directories(incoming.snapshots) or []):
        path.rename(run.snapshots / path.name)
    for name in ("script", "modules"):
        _replace(incoming.root / name, run.root / name)
    fsync_directory(run.snapshots)
    shutil.rmtree(incoming.root, ignore_errors=True)
    shutil.rmtree(aside, ignore_errors=True)


def _replace(source: Path, target: Path) -> None:
    if not source.exists():
        return
    if target.is_dir():
        shutil.rmtree(target)
    source.replace(target)


def make_claim(
    remote: RemoteJob, standing: Standing, record: ClaimRecord, *, clock: Clock
) -> Claim:
    """A claim above all others for the run of ``record``, written there.

    Raises:
        StartRefusedError: another machine claims the run at the same time.
    """
    claim = next_claim(standing.claims, uuid4().hex[:16])
    now, host = clock.wall(), socket.gethostname()
    ours = ClaimRecord.from_json(
        {
            **record.to_json(),
            "host": host,
            "version": __version__,
            "claimed_at": now,
            "told_at": now,
        }
    )
    assert ours is not None  # noqa: S101  # it was one
    remote.put_record(claim, ours)
    above = remote.standing().fenced(claim)
    if above is not None:
        other = remote.record(above)
        where = "another machine" if other is None else other.host
        message = f"{where} has begun to run {record.job!r} at the same moment"
        raise StartRefusedError(message)
    return claim


def keep_claim(run: RunPaths, claim: Claim, address: str) -> None:
    """Remember that it is ours. Raises OSError."""
    run.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_json(run.remote_claim, {"address": address, "claim": claim.name})


def upload_request(begun: Begun, arrival: RemoteArrival) -> UploadRequest:
    """What the uploader of this run is to do; claims the run if it is not ours yet.

    Raises:
        StartRefusedError: another machine claims it at the same time.
        RemoteUnreachableError: the store does not answer any more.
        OSError: the claim cannot be kept.
    """
    row, spec = begun.row, begun.job.spec.snapshots
    now = begun.clock.wall()
    record = ClaimRecord(
        format=FORMAT,
        job=begun.job.name,
        run_id=row.run_id,
        seed=row.seed,
        script_hash=row.script_hash,
        state=JobState.WAITING,
        host=socket.gethostname(),
        version=__version__,
        claimed_at=now,
        told_at=now,
        overrides=None if row.overrides is None else told_overrides(row.overrides),
    )
    claim = arrival.claim
    if claim is None:
        claim = _claimed(arrival, record, begun.clock)
    keep_claim(begun.paths, claim, arrival.address)
    return UploadRequest(
        address=arrival.address,
        claim=claim.name,
        run=str(begun.paths.root),
        record=record.to_json(),
        keep=spec.remote_keep,
        bytes_per_second=spec.remote_bandwidth,
        boot_id=boot_id(),
    )


def _claimed(arrival: RemoteArrival, record: ClaimRecord, clock: Clock) -> Claim:
    assert arrival.remote is not None  # noqa: S101  # only a claim of before does without
    try:
        standing = arrival.remote.standing()
        return make_claim(arrival.remote, standing, record, clock=clock)
    except RemoteStoreError as error:
        message = f"{arrival.address} does not answer any more: {error}"
        raise RemoteUnreachableError(message) from error
