"""Network file systems, told from others."""

from pathlib import Path, PurePosixPath

import pytest

from supervisor.host.service.network_file_systems import (
    ledger_sentence,
    network_file_system,
    network_type,
)

MOUNTS = [
    ("/", "ext4"),
    ("/home", "nfs4"),
    ("/home/ada/scratch", "xfs"),
    ("/mnt", "autofs"),
    ("/mnt", "lustre"),
]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/state", None),
        ("/home/ada", "nfs4"),
        ("/homes/ada", None),
        ("/home/ada/scratch/x", None),
        ("/mnt/state", "lustre"),
    ],
)
def test_the_last_and_longest_mount_counts(path: str, kind: str | None) -> None:
    """By whole parts of the path."""
    assert network_type(PurePosixPath(path), MOUNTS) == kind


def test_a_local_directory_is_none(tmp_path: Path) -> None:
    """Nothing is said of it."""
    assert network_file_system(tmp_path) is None
    assert ledger_sentence(tmp_path) is None
