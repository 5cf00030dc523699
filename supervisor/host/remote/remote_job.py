"""The remote tier of one job: its claims and snapshots in a store, sent and fetched.

A snapshot is sent in parts whose names hold their hashes: what is there under its name, in
its size, is not sent again. Its seal, which lists them, is written last.
"""

import base64
import binascii
import hashlib
import json
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeVar, cast

from supervisor.core.jobs.remote.pacing import SendingPace
from supervisor.core.jobs.remote.remote_tier import (
    CLAIMS,
    SEAL,
    SNAPSHOTS,
    Claim,
    RemoteName,
    SealedSnapshot,
    Standing,
    digest_of,
    part_name,
    standing_of,
)
from supervisor.host.remote.remote_records import (
    FORMAT,
    ClaimRecord,
    SealRecord,
    claim_record,
    encoded,
    facts_of,
    seal_record,
)
from supervisor.host.remote.remote_store import RemoteStore, RemoteStoreError
from supervisor.host.snapshots.snapshot_catalog import read_manifest
from supervisor.wire.files import fsync_directory, write_atomically
from supervisor.wire.snapshots.manifest import MANIFEST, TENSORS, Manifest
from supervisor.wire.snapshots.seal import is_sealed

PART_BYTES = 16 << 20
AT_ONCE = 4
"""Requests at a time; so many parts are in memory, and one more."""
RUN_FILES = "run_files.json"
"""Among a snapshot's files: the script and its modules as the run began with them."""
MOST_RUN_FILES = 64 << 20
_OWN = re.compile(r"script|modules/[0-9a-f]{24}-[0-9a-f]{24}")

Item = TypeVar("Item")
Result = TypeVar("Result")


class DamagedRemoteError(Exception):
    """A snapshot in the remote tier that must not be used; the text says why."""


class SourceGoneError(Exception):
    """A snapshot on disk was removed, or is damaged: there is nothing to send."""


@dataclass(slots=True)
class Sent:
    """What became of the parts of one snapshot."""

    sent_bytes: int = 0
    kept_bytes: int = 0
    files: dict[str, list[list[str | int]]] = field(
        default_factory=dict[str, list[list[str | int]]]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How parts are sent."""

    part_bytes: int = PART_BYTES
    pace: SendingPace = field(default_factory=SendingPace)
    wait: Callable[[float], None] = time.sleep


class RemoteJob:
    """The remote tier of the job ``name``; raises RemoteStoreError."""

    def __init__(self, store: RemoteStore, name: str) -> None:
        """``store``: opened below the job's name."""
        self.store = store
        self.name = name
        self._seals: dict[RemoteName, SealRecord | None] = {}
        self._pace_lock = Lock()

    def standing(self) -> Standing:
        """What is there now."""
        return standing_of(self.store.sizes(""))

    def record(self, claim: Claim) -> ClaimRecord | None:
        """Of a claim; None: it is gone or damaged."""
        found = claim_record(self.store.get(_claim_path(claim)))
        return found if found is not None and found.job == self.name else None

    def put_record(self, claim: Claim, record: ClaimRecord) -> None:
        """Say who holds ``claim``, and how things are; only its holder does."""
        self.store.put(_claim_path(claim), encoded(record))

    def seal(self, name: RemoteName) -> SealRecord | None:
        """Of a snapshot; None: it is damaged, of another one, or gone. A seal never
        changes, so it is read once."""
        if name not in self._seals:
            found = seal_record(self.store.get(f"{_directory(name)}/{SEAL}"))
            whole = found is not None and found.job == self.name
            same = whole and (found.serial, found.step) == (name.serial, name.step)  # type: ignore[union-attr]  # whole
            self._seals[name] = found if same else None
        return self._seals[name]

    def sealed(self, standing: Standing, *, run_id: str) -> list[SealedSnapshot]:
        """The snapshots of a run that are whole by their seals, and by the names and sizes
        of their parts; what is in them is looked at when they are fetched."""
        found: list[SealedSnapshot] = []
        for name in standing.sealed:
            seal = self.seal(name)
            if seal is None or seal.run_id != run_id:
                continue
            there = standing.parts[name]
            if all(there.get(part) == size for part, size in seal.parts.items()):
                found.append(seal.sealed(name))
        return found

    def send(
        self,
        source: Path,
        *,
        run_id: str,
        claim: Claim,
        there: dict[RemoteName, dict[str, int]],
        terms: Terms,
        run_files: bytes,
        may_seal: Callable[[], bool],
    ) -> Sent | None:
        """Send the snapshot in ``source``; whole when this returns. None: it must not be
        sealed any more, as ``may_seal`` says at the end.

        Raises:
            RemoteStoreError: the store failed; what was sent is not sent again.
            SourceGoneError: there is nothing to send.
        """
        manifest = read_manifest(source)
        if manifest is None or not is_sealed(manifest):
            message = f"{source.name} is gone, or its manifest is damaged"
            raise SourceGoneError(message)
        name = RemoteName(claim, manifest.serial, manifest.step)
        content = _Content(source, manifest, run_files, terms.part_bytes)
        sent = self._send_parts(content, name, there.get(name, {}), terms)
        if not may_seal():
            return None
        seal = SealRecord(
            format=FORMAT,
            job=self.name,
            run_id=run_id,
            serial=manifest.serial,
            step=manifest.step,
            fit=manifest.fit,
            fit_done=manifest.fit_done,
            tensors_hash=manifest.tensors_hash,
            wall_time=manifest.wall_time,
            files=dict(sent.files),
        )
        self.store.put(f"{_directory(name)}/{SEAL}", encoded(seal))
        self._seals[name] = seal
        return sent

    def _send_parts(
        self,
        content: "_Content",
        name: RemoteName,
        there: dict[str, int],
        terms: Terms,
    ) -> Sent:
        sent = Sent()

        def send(part: tuple[str, int, bytes]) -> tuple[str, str, int, bool]:
            file, number, chunk = part
            own = part_name(number, hashlib.sha256(chunk).hexdigest())
            fresh = there.get(own) != len(chunk)
            if fresh:
                self._pace(len(chunk), terms)
                self.store.put(f"{_directory(name)}/{own}", chunk)
            return file, own, len(chunk), fresh

        for file, own, size, fresh in _at_once(send, content.parts()):
            sent.files.setdefault(file, []).append([own, size])
            sent.sent_bytes += size if fresh else 0
            sent.kept_bytes += 0 if fresh else size
        return sent

    def _pace(self, nbytes: int, terms: Terms) -> None:
        with self._pace_lock:
            seconds = terms.pace.begin(nbytes, now=time.monotonic())
        if seconds > 0.0:
            terms.wait(seconds)

    def remove(self, standing: Standing, names: Iterable[RemoteName]) -> None:
        """Remove snapshots: first the seal, so that none looks whole that is not."""
        for name in names:
            parts = sorted(standing.parts[name], key=lambda part: part != SEAL)
            self.store.delete(f"{_directory(name)}/{part}" for part in parts)
            self._seals.pop(name, None)

    def remove_claims(self, claims: Iterable[Claim]) -> None:
        """Remove claims that nobody needs any more."""
        self.store.delete(_claim_path(claim) for claim in claims)

    def fetch(self, snapshot: SealedSnapshot, durable: Path) -> Path:
        """Write ``snapshot`` into the durable tier, whole or not at all, and what belongs
        to the run beside it; where it lies now.

        Raises:
            DamagedRemoteError: parts are gone, or not what they were.
            OSError: it cannot be written here.
        """
        seal = self.seal(snapshot.name)
        if seal is None:
            message = f"{snapshot.name.name} is gone"
            raise DamagedRemoteError(message)
        final = durable / snapshot.name.local
        partial = durable / f"{final.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700, parents=True)
        try:
            for file in (TENSORS, MANIFEST):
                with (partial / file).open("xb") as target:
                    self._fetch_file(snapshot.name, seal, file, target)
            self._check(partial, snapshot.name, seal)
            unpack(self._whole(snapshot.name, seal, RUN_FILES), durable.parent)
            fsync_directory(partial)
            shutil.rmtree(final, ignore_errors=True)
            partial.rename(final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        fsync_directory(durable)
        return final

    def _check(self, partial: Path, name: RemoteName, seal: SealRecord) -> None:
        manifest = read_manifest(partial)
        if (
            manifest is None
            or not is_sealed(manifest)
            or facts_of(manifest) != seal.sealed(name).facts
            or (partial / TENSORS).stat().st_size != manifest.tensors_bytes
        ):
            message = "its manifest is not the one that was sealed"
            raise DamagedRemoteError(message)

    def _fetch_file(
        self, name: RemoteName, seal: SealRecord, file: str, target: BinaryIO
    ) -> None:
        target.writelines(
            _at_once(lambda part: self._part(name, part), seal.files.get(file, ()))
        )
        target.flush()
        os.fsync(target.fileno())

    def _whole(self, name: RemoteName, seal: SealRecord, file: str) -> bytes:
        parts = (self._part(name, part) for part in seal.files.get(file, ()))
        return b"".join(parts)

    def _part(self, name: RemoteName, part: list[str | int]) -> bytes:
        own = str(part[0])
        content = self.store.get(f"{_directory(name)}/{own}")
        if content is None:
            message = f"{own} is gone"
            raise DamagedRemoteError(message)
        if hashlib.sha256(content).hexdigest() != digest_of(own):
            message = f"{own} does not have the hash in its name"
            raise DamagedRemoteError(message)
        return content


class _Content:
    """The files of a snapshot, part by part; their hash is checked at the end."""

    def __init__(
        self, source: Path, manifest: Manifest, run_files: bytes, part_bytes: int
    ) -> None:
        self._source, self._manifest = source, manifest
        self._run_files, self._part_bytes = run_files, part_bytes

    def parts(self) -> Iterator[tuple[str, int, bytes]]:
        """File, number and content of each. Raises SourceGoneError."""
        try:
            manifest = (self._source / MANIFEST).read_bytes()
            with (self._source / TENSORS).open("rb", buffering=0) as file:
                yield MANIFEST, 0, manifest
                yield RUN_FILES, 1, self._run_files
                yield from self._of_tensors(file)
        except OSError as error:
            message = f"{self._source.name} cannot be read: {error.strerror}"
            raise SourceGoneError(message) from error

    def _of_tensors(self, file: BinaryIO) -> Iterator[tuple[str, int, bytes]]:
        whole, number = hashlib.sha256(), 2
        while chunk := file.read(self._part_bytes):
            whole.update(chunk)
            yield TENSORS, number, chunk
            number += 1
        recorded = self._manifest.tensors_hash
        if recorded.startswith("sha256:") and recorded[7:] != whole.hexdigest():
            message = f"{self._source.name} does not have the recorded hash"
            raise SourceGoneError(message)


def _at_once(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The results in order, a few at a time; the first error ends it."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(threads.submit(work, item))
                if len(waiting) >= AT_ONCE:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()


def _claim_path(claim: Claim) -> str:
    return f"{CLAIMS}/{claim.name}.json"


def _directory(name: RemoteName) -> str:
    return f"{SNAPSHOTS}/{name.name}"


def packed(run: Path) -> bytes:
    """The script and the modules that the run of this directory keeps; what is too much
    for a snapshot's companion is left out, modules first."""
    names = ["script", *sorted(f"modules/{p.name}" for p in run.glob("modules/*-*"))]
    content: dict[str, str] = {}
    left = MOST_RUN_FILES
    for name in names:
        try:
            read = (run / name).read_bytes()
        except OSError:
            continue
        if len(read) <= left:
            left -= len(read)
            content[name] = base64.b64encode(read).decode()
    return json.dumps(content, sort_keys=True).encode()


def unpack(content: bytes, run: Path) -> None:
    """Put back what ``packed``, and nothing of another name.

    Raises:
        DamagedRemoteError: it is none of ours.
        OSError: it cannot be written.
    """
    try:
        files = cast("dict[str, str]", json.loads(content or b"{}"))
        known = {
            name: base64.b64decode(text, validate=True)
            for name, text in files.items()
            if _OWN.fullmatch(name)
        }
    except (
        ValueError, AttributeError, TypeError, RecursionError, binascii.Error
    ) as error:  # fmt: skip
        message = f"{RUN_FILES} cannot be read"
        raise DamagedRemoteError(message) from error
    for name, read in known.items():
        path = run / name
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        write_atomically(path, read)


__all__ = [
    "DamagedRemoteError",
    "RemoteJob",
    "RemoteStoreError",
    "Sent",
    "SourceGoneError",
    "Terms",
    "packed",
    "unpack",
]
