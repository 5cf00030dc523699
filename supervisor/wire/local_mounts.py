"""Mount points of local disks, out of ``/proc/self/mounts`` (proc_mounts(5), fstab(5)).

Only these are asked for their room: a network file system, or one that a user's program
serves, may not answer for hours.
"""

from pathlib import PurePath

LOCAL = frozenset({
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "bcachefs", "tmpfs",
    "overlay", "vfat", "exfat", "ntfs3",
})  # fmt: skip
"""Types of file systems that the kernel itself keeps on disks, or in memory."""
_ESCAPED = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


def writable_local(mounts: str) -> list[str]:
    """Where such a file system is mounted and may be written to, in the order of mounting;
    of several at one place the last is there."""
    return [point for point, is_wanted in _points(mounts).items() if is_wanted]


def local_mount_of(path: PurePath, mounts: str) -> str | None:
    """Where what holds ``path``, absolute and without links, is mounted; None: that is none
    of these."""
    points = _points(mounts)
    holding = [point for point in points if path.is_relative_to(point)]
    deepest = max(holding, key=len, default=None)
    return deepest if deepest is not None and points[deepest] else None


def _points(mounts: str) -> dict[str, bool]:
    """All mount points, and whether such a disk is there."""
    found: dict[str, bool] = {}
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 4:
            continue
        point, kind, options = _plain(words[1]), words[2], words[3].split(",")
        found.pop(point, None)
        found[point] = kind in LOCAL and "ro" not in options
    return found


def _plain(point: str) -> str:
    for escape, character in _ESCAPED.items():
        point = point.replace(escape, character)
    return point
