"""Local disks by where they are mounted, as a training process may name them."""

import shutil
from pathlib import Path

from supervisor.wire.local_mounts import writable_local

MOUNTS = Path("/proc/self/mounts")


def free_bytes(mount_point: str) -> int | None:
    """Free there; None: no local disk is mounted there, as far as we see, or it cannot be
    seen. Nothing else is asked: ``mount_point`` may come from anybody, and what a user's
    program serves may never answer."""
    try:
        if mount_point not in writable_local(MOUNTS.read_text(errors="replace")):
            return None
        return shutil.disk_usage(mount_point).free
    except OSError:
        return None
