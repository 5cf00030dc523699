"""A file system of some kilobytes, and how it gets full."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(directory: Path, size: str, *, alone: bool = False) -> Generator[Path]:
    """A file system of its own at ``directory``; ``alone``: while no other test has one,
    which may be full."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None or os.geteuid() != 0:
        pytest.skip("mounting needs root")
    with (Path(tempfile.gettempdir()) / "trainwarden-test-disks.lock").open(
        "w"
    ) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        with _mounted(directory, size, mount, unmount):
            yield directory


@contextmanager
def _mounted(directory: Path, size: str, mount: str, unmount: str) -> Generator[None]:
    directory.mkdir(parents=True, mode=0o700)
    made = [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    if subprocess.run(made, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run([unmount, "-l", str(directory)], check=True)


def fill(path: Path) -> None:
    """Write until there is no space left."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
