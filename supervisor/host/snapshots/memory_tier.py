"""The memory tier from outside: what a run leaves in a tmpfs, and who cleans it up.

Training makes and fills it (``trainers.snapshots.memory_store``). It survives the process, so
nobody but a supervisor can give the memory back: when the run ends, and, for runs whose
supervisor died, when the next run begins on this machine. What is newer than the disk's
newest snapshot is written there first.
"""

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from supervisor.host.service.lock import is_locked, is_record_locked
from supervisor.host.snapshots.snapshot_catalog import age, snapshot_directories, verify
from supervisor.wire.files import fsync_directory, read_json, write_atomically
from supervisor.wire.paths import MEMORY_PREFIX, OWNER, STORE_LOCK
from supervisor.wire.snapshots.manifest import MANIFEST, TENSORS

_CHUNK = 16 * 1024 * 1024


def release(memory: Path, durable: Path) -> str | None:
    """Give back the memory of a run that ended, of which no process is left.

    Its newest snapshot is written to ``durable`` first if that has none as new. Returns
    why nothing was given back, or None.
    """
    if not _ours(memory):
        return None
    try:
        preserve(memory, durable)
    except OSError as error:
        return (
            f"the newest snapshot stays in {memory}, because it cannot be written to"
            f" {durable}: {error.strerror}"
        )
    discard(memory)
    return None


def discard(memory: Path) -> None:
    """Remove the memory tier of a run, whatever is in it."""
    if _ours(memory):
        shutil.rmtree(memory, ignore_errors=True)


def preserve(memory: Path, durable: Path) -> Path | None:
    """Write the newest snapshot in ``memory`` to ``durable``, if it is newer.

    Returns where it is now; None: there was nothing to preserve. Damaged ones are
    passed over. Raises OSError.
    """
    on_disk = {age(path) for path in snapshot_directories(durable) or ()}
    for path in snapshot_directories(memory) or ():
        if on_disk and age(path)[1] <= max(serial for _, serial in on_disk):
            return None
        if verify(path) is None:
            return _copy(path, durable)
    return None


def sweep(parent: Path, *, but: Path) -> list[str]:
    """Release what dead runs left in ``parent``; ``but`` belongs to the one that begins.

    Returns a sentence for each that could not be. A run is dead when nobody holds its
    job and no training its snapshots (it outlives its supervisor by the drain); where
    even its durable tier is gone, there is nothing to preserve.
    """
    problems: list[str] = []
    for memory in _tiers(parent):
        durable = _durable_of(memory)
        if memory == but or durable is None:
            continue
        if not durable.is_dir():
            discard(memory)
        elif not is_locked(_job_lock(durable)) and not is_record_locked(
            durable / STORE_LOCK
        ):
            problem = release(memory, durable)
            problems += [] if problem is None else [problem]
    return problems


def _tiers(parent: Path) -> Iterator[Path]:
    try:
        found = sorted(parent.glob(f"{MEMORY_PREFIX}*"))
    except OSError:
        return
    yield from (path for path in found if _ours(path))


def _ours(memory: Path) -> bool:
    """A directory of this user, not a link to one: anybody may write to /dev/shm."""
    try:
        found = memory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _durable_of(memory: Path) -> Path | None:
    owner = read_json(memory / OWNER)
    place = None if owner is None else owner.get("snapshots")
    return Path(place) if isinstance(place, str) else None


def _job_lock(durable: Path) -> Path:
    """``JOB/lock`` beside ``JOB/run-N/snapshots`` (``wire.paths``)."""
    return durable.parent.parent / "lock"


def _copy(snapshot: Path, durable: Path) -> Path:
    partial = durable / f"{snapshot.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(mode=0o700)
        _copy_file(snapshot / TENSORS, partial / TENSORS)
        write_atomically(partial / MANIFEST, (snapshot / MANIFEST).read_bytes())
        final = partial.rename(durable / snapshot.name)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    fsync_directory(durable)
    return final


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("xb") as writer:
        shutil.copyfileobj(reader, writer, _CHUNK)
        writer.flush()
        os.fsync(writer.fileno())


def main(arguments: list[str]) -> None:
    """``[--discard] MEMORY SNAPSHOTS``: for a daemon that may not touch them itself."""
    *words, memory, snapshots = arguments
    if words == ["--discard"]:
        discard(Path(memory))
        return
    problem = release(Path(memory), Path(snapshots))
    if problem is not None:
        sys.exit(f"trainwarden: {problem}")


if __name__ == "__main__":
    main(sys.argv[1:])
