"""Network file systems, on which two machines could use one ledger at once.

SQLite's locks are those of the file system, and on many of these they do not hold between
machines (sqlite.org/howtocorrupt.html, section 2.1).
"""

from pathlib import Path, PurePath

import psutil

NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs",
    "panfs", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "fuse.cephfs", "fuse.juicefs",
    "fuse.s3fs", "fuse.gcsfuse", "orangefs", "pvfs2", "wekafs", "ocfs2", "gfs2",
})  # fmt: skip
"""By the name in ``/proc/self/mounts``: what several machines may have mounted."""


def network_file_system(path: Path) -> str | None:
    """The type of the network file system that ``path`` lies on, or will; None: of none
    that we know, or mounts cannot be seen."""
    try:
        mounts = [
            (one.mountpoint, one.fstype) for one in psutil.disk_partitions(all=True)
        ]
    except OSError:
        return None
    return network_type(path.resolve(), mounts)


def network_type(path: PurePath, mounts: list[tuple[str, str]]) -> str | None:
    """The same, by mount points and types in the order of mounting: the last one of the
    longest that contain ``path`` counts."""
    found, depth = None, -1
    for point, kind in mounts:
        length = len(PurePath(point).parts)
        if path.is_relative_to(point) and length >= depth:
            found, depth = kind, length
    return found if found in NETWORK else None


def ledger_sentence(path: Path) -> str | None:
    """What to say of a state directory on one; None: nothing."""
    kind = network_file_system(path)
    if kind is None:
        return None
    return (
        f"the state directory {path} is on a network file system ({kind}): two machines "
        "must never use it at once, since its locks may not hold between them"
    )
