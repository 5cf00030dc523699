"""The snapshots of a run, as the supervisor sees them: names, manifests and hashes.

Training writes and restores them; here they are listed and verified, in either tier.
"""

import mmap
import re
from pathlib import Path

from supervisor.wire.files import read_json
from supervisor.wire.snapshots.manifest import FORMAT, MANIFEST, TENSORS, Manifest
from supervisor.wire.snapshots.seal import has_hash, is_sealed

_NAME = re.compile(r"[0-9]{1,18}-[0-9]{1,18}")
"""STEP-SERIAL; anything else (temporary, quarantined) is no whole snapshot."""


def snapshot_directories(directory: Path) -> list[Path] | None:
    """Whole snapshots, newest first; None: the directory cannot be read."""
    try:
        found = [path for path in directory.iterdir() if _NAME.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    except OSError:
        return None
    return sorted(found, key=age, reverse=True)


def age(path: Path) -> tuple[int, int]:
    """Step and serial of the snapshot in ``path``, by its name."""
    step, _, serial = path.name.partition("-")
    return int(step), int(serial)


def newest_step(*tiers: Path | None) -> int | None:
    """Step of the newest snapshot; 0: there is none; None: it cannot be told."""
    newest = 0
    for directory in tiers:
        found = [] if directory is None else snapshot_directories(directory)
        if found is None:
            return None
        newest = max([newest, *(age(path)[0] for path in found[:1])])
    return newest


def read_manifest(path: Path) -> Manifest | None:
    """The manifest of the snapshot in ``path``; None: it cannot be read."""
    value = read_json(path / MANIFEST)
    return None if value is None else Manifest.from_json(value)


def verify(path: Path) -> str | None:
    """What is wrong with the snapshot in ``path``; None: every byte is as written.

    Its tensors are read whole: about a second a gigabyte.
    """
    manifest = read_manifest(path)
    if manifest is None or type(manifest.state) is not dict:
        return f"{MANIFEST} is missing or cannot be read"
    if manifest.format != FORMAT:
        return f"format {manifest.format} is not {FORMAT}"
    if not is_sealed(manifest):
        return f"{MANIFEST} does not have the recorded hash"
    if (manifest.step, manifest.serial) != age(path):
        return f"{MANIFEST} belongs to another snapshot"
    return _verify_tensors(path / TENSORS, manifest)


def _verify_tensors(path: Path, manifest: Manifest) -> str | None:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size != manifest.tensors_bytes:
                return f"{TENSORS} has {size} bytes, {manifest.tensors_bytes} recorded"
            with (
                mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content,
                memoryview(content) as view,
            ):
                whole = has_hash(view, manifest.tensors_hash)
    except (OSError, ValueError) as error:
        return f"{TENSORS} cannot be read: {error}"
    return None if whole else f"{TENSORS} does not have the recorded hash"
