"""The snapshots of a run, as the supervisor sees them: names and manifests.

Training writes, verifies and restores them; here they are only listed.
"""

import re
from pathlib import Path

from supervisor.wire.files import read_json
from supervisor.wire.manifest import MANIFEST, Manifest

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
    return sorted(found, key=_age, reverse=True)


def _age(path: Path) -> tuple[int, int]:
    step, _, serial = path.name.partition("-")
    return int(step), int(serial)


def newest_step(directory: Path) -> int | None:
    """Step of the newest snapshot; 0: there is none; None: it cannot be told."""
    found = snapshot_directories(directory)
    if found is None:
        return None
    return _age(found[0])[0] if found else 0


def read_manifests(directory: Path) -> list[Manifest]:
    """The readable manifests, newest first."""
    values = [
        read_json(path / MANIFEST) for path in snapshot_directories(directory) or ()
    ]
    manifests = [Manifest.from_json(value) for value in values if value is not None]
    return [manifest for manifest in manifests if manifest is not None]
