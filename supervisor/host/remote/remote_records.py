"""The records of the remote tier: claims, seals, and how far an upload has come."""

import json
from dataclasses import dataclass, replace
from typing import Any, cast

from supervisor.core.jobs.remote.remote_tier import (
    RemoteName,
    SealedSnapshot,
    SnapshotFacts,
    digest_of,
)
from supervisor.wire.json_record import JsonRecord
from supervisor.wire.snapshots.manifest import Manifest
from supervisor.wire.snapshots.seal import has_hash, hash_of

FORMAT = 1
"""Records of another version are refused, not guessed at."""
_HASH = "hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord(JsonRecord):
    """A supervisor that took the run over, and what another one needs of the run.

    Neither the spec nor arguments nor variables: there may be secrets in them.
    """

    format: int
    job: str
    run_id: str
    seed: int
    script_hash: str
    state: str
    """``JobState``, as of the last word from there."""
    host: str
    """For people only, as the version and the times."""
    version: str
    claimed_at: float
    told_at: float
    overrides: dict[str, Any] | None = None
    """What remedies put in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealRecord(JsonRecord):
    """What a snapshot consists of. Written last: without it there is none."""

    format: int
    job: str
    run_id: str
    serial: int
    step: int
    fit: int
    fit_done: bool
    tensors_hash: str
    wall_time: float
    """When it was taken: for people only."""
    files: dict[str, Any]
    """By their names the parts in order: name and size in bytes of each."""

    @property
    def parts(self) -> dict[str, int]:
        """All parts and their sizes."""
        found = cast("dict[str, list[list[Any]]]", self.files).values()
        return {str(name): int(size) for parts in found for name, size in parts}

    def sealed(self, name: RemoteName) -> SealedSnapshot:
        """Under that name in the remote tier."""
        facts = SnapshotFacts(
            serial=self.serial,
            step=self.step,
            fit=self.fit,
            fit_done=self.fit_done,
            tensors_hash=self.tensors_hash,
        )
        return SealedSnapshot(name=name, facts=facts)


def facts_of(manifest: Manifest) -> SnapshotFacts:
    """Of a snapshot on disk."""
    return SnapshotFacts(
        serial=manifest.serial,
        step=manifest.step,
        fit=manifest.fit,
        fit_done=manifest.fit_done,
        tensors_hash=manifest.tensors_hash,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadProgress(JsonRecord):
    """How far the uploads of a run have come, in a file beside its snapshots."""

    address: str
    claim: str
    host: str = ""
    step: int | None = None
    """Of the newest whole snapshot in the remote tier."""
    snapshots: int = 0
    """Completed by this supervisor's uploads."""
    failures: int = 0
    sent_bytes: int = 0
    kept_bytes: int = 0
    """Of parts that were there already, and not sent again."""
    whole_ns: int | None = None
    """When the newest was completed, in monotonic nanoseconds of ``boot_id``."""
    boot_id: str = ""
    sending: str | None = None
    problem: str | None = None
    """Why the last upload failed; None: it did not."""
    taken_by: str | None = None
    """The machine that took the run over; None: it is ours."""

    def after(self, **changes: Any) -> "UploadProgress":
        """The same with these changes."""
        return replace(self, **changes)


def encoded(record: ClaimRecord | SealRecord) -> bytes:
    """``record`` as JSON with its own hash."""
    value = record.to_json()
    return json.dumps({**value, _HASH: hash_of(_content(value))}).encode()


def claim_record(content: bytes | None) -> ClaimRecord | None:
    """The record in ``content``; None: there is none that is whole."""
    value = _decoded(content)
    return None if value is None else ClaimRecord.from_json(value)


def seal_record(content: bytes | None) -> SealRecord | None:
    """The record in ``content``; None: there is none that is whole."""
    value = _decoded(content)
    seal = None if value is None else SealRecord.from_json(value)
    if seal is None or not _are_parts(seal.files):
        return None
    return seal


def _are_parts(files: dict[str, Any]) -> bool:
    try:
        return all(
            digest_of(name) is not None and type(size) is int
            for parts in files.values()
            for name, size in parts
        )
    except (TypeError, ValueError):
        return False


def _decoded(content: bytes | None) -> dict[str, Any] | None:
    try:
        value = json.loads(content or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    known = cast("dict[str, Any]", value)
    recorded = known.pop(_HASH, None)
    whole = has_hash(_content(known), recorded) and known.get("format") == FORMAT
    return known if whole else None


def _content(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
