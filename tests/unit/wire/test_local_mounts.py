"""Which mounts are local disks that may be written to."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.wire.local_mounts import local_mount_of, writable_local

MOUNTS = r"""
/dev/vda / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
/dev/loop0 /snap/core squashfs ro 0 0
/dev/vdb /data\040of\040mine xfs rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /run tmpfs ro,nosuid 0 0
tmpfs /covered tmpfs rw 0 0
sshfs /covered fuse.sshfs rw 0 0
short line
"""


def test_local_disks_alone() -> None:
    """None that is read-only, that another machine serves, or that is covered by one."""
    assert writable_local(MOUNTS) == ["/", "/data of mine"]


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("/a/file", "/"),
        ("/data of mine/x", "/data of mine"),
        ("/home/me/model.keras", None),
        ("/covered/x", None),
        ("/run/x", None),
    ],
)
def test_what_is_elsewhere_lies_on_no_local_disk(path: str, point: str | None) -> None:
    """Not on the one below it."""
    assert local_mount_of(PurePosixPath(path), MOUNTS) == point


@given(st.text())
def test_any_text(text: str) -> None:
    """The kernel writes it; whatever it says is no error."""
    assert len(writable_local(text)) <= len(text.splitlines())
