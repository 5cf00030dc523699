"""A file system of some kilobytes, and how it gets full."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(directory: Path, size: str) -> Generator[Path]:
    """A file system of its own at ``directory``."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None or os.geteuid() != 0:
        pytest.skip("mounting needs root")
    directory.mkdir(parents=True, mode=0o700)
    made = [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    if subprocess.run(made, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        yield directory
    finally:
        subprocess.run([unmount, "-l", str(directory)], check=True)


def fill(path: Path) -> None:
    """Write until there is no space left."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
