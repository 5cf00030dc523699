"""What rows need of the machine: cgroups, small file systems, libraries to preload.

Each is given back, and that it can be given back is part of the check: a cgroup with a
process in it cannot be removed, a file system in use cannot be unmounted.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import pytest

from tests.chaos.rows import ChaosRow, MachineNeed
from tests.support.fake_nvml import FakeNvml, build

CGROUPS = Path("/sys/fs/cgroup")
SHARED = Path("/dev/shm")  # noqa: S108  # where memory tiers lie
COPIED = "termcolor"
GIVE_BACK_SECONDS = 40.0
MIB = 1 << 20


class CannotError(Exception):
    """This machine cannot do what the row needs; the text says what."""


@dataclass
class ChaosMachine:
    """What was set up for a row."""

    memory: Path
    """The tmpfs directory of its memory tier."""
    path: Path | None = None
    """The cgroup or file system of the row."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    join: Path | None = None
    """The cgroup that the supervisor, and so all of the run, is put into."""
    nvml: FakeNvml | None = None
    problems: list[str] = field(default_factory=list[str])
    """What could not be given back."""


@contextmanager
def prepared(row: ChaosRow, directory: Path) -> Generator[ChaosMachine]:
    """The machine as ``row`` needs it. Raises CannotError."""
    memory = SHARED / f"chaos-{os.getpid()}-{row.name}"
    memory.mkdir(mode=0o700)
    machine = ChaosMachine(memory=memory)
    try:
        with _need(row, directory, machine):
            yield machine
    finally:
        left = sorted(path.name for path in memory.iterdir())
        if left:
            machine.problems.append(f"left in shared memory: {', '.join(left)}")
        shutil.rmtree(memory, ignore_errors=True)


@contextmanager
def _need(row: ChaosRow, directory: Path, machine: ChaosMachine) -> Generator[None]:
    needs = row.needs
    if needs is MachineNeed.MEMORY_CGROUP:
        with _cgroup("memory", machine) as path:
            _limit(path, row.limit_mib * MIB)
            machine.join = path
            yield
    elif needs is MachineNeed.FREEZER:
        with _cgroup("freezer", machine) as machine.path:
            yield
    elif needs is MachineNeed.MOUNT:
        with mounted(directory / "small", row.limit_mib, machine) as machine.path:
            yield
    else:
        if needs is MachineNeed.COMPILER:
            library = clock_library(directory)
            machine.environment |= {
                "LD_PRELOAD": str(library),
                "CLOCK_JUMP": str(directory / "jump"),
            }
        if needs is MachineNeed.ROOT and os.geteuid() != 0:
            message = "only root can give a file to another user"
            raise CannotError(message)
        if needs is MachineNeed.PACKAGE:
            machine.path = _copied_package(directory / "packages")
            machine.environment["PYTHONPATH"] = str(machine.path)
        if needs is MachineNeed.NVML:
            _fake_gpus(row, directory, machine)
        yield


# --- cgroups --------------------------------------------------------------------------


@contextmanager
def _cgroup(controller: str, machine: ChaosMachine) -> Generator[Path]:
    base = CGROUPS / controller
    if controller == "memory" and not base.is_dir():
        base = CGROUPS  # version 2
    try:
        path = Path(
            tempfile.mkdtemp(prefix="chaos-", dir=base)
        )  # rows run side by side
        if not (path / "cgroup.procs").exists():
            message = f"{base} is no cgroup"
            raise CannotError(message)
    except OSError as error:
        message = f"no {controller} cgroup can be made: {error.strerror}"
        raise CannotError(message) from error
    try:
        yield path
    finally:
        _thaw(path)
        problem = _gone(path.rmdir)
        if problem:
            machine.problems.append(f"the cgroup cannot be removed: {problem}")


def _limit(path: Path, limit: int) -> None:
    for name in ("memory.limit_in_bytes", "memory.max"):
        if (path / name).exists():
            (path / name).write_text(str(limit))
            return
    path.rmdir()
    message = "the cgroup has no memory limit"
    raise CannotError(message)


def _thaw(path: Path) -> None:
    if (path / "freezer.state").exists():
        (path / "freezer.state").write_text("THAWED")


def thaw(machine: ChaosMachine) -> None:
    """Let what is frozen for ``machine`` go on (to its end, where it was killed)."""
    if machine.path is not None:
        _thaw(machine.path)


def _gone(remove: object) -> str:
    """Why it cannot be removed, tried for a while; empty: it is gone."""
    assert callable(remove)
    deadline = time.monotonic() + GIVE_BACK_SECONDS
    while True:
        try:
            remove()
        except OSError as error:
            if time.monotonic() > deadline:
                return str(error.strerror)
            time.sleep(0.2)
        else:
            return ""


# --- file systems ---------------------------------------------------------------------


@contextmanager
def mounted(directory: Path, size: int, machine: ChaosMachine) -> Generator[Path]:
    """A file system of ``size`` MiB at ``directory``. Raises CannotError."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None or os.geteuid() != 0:
        message = "mounting needs root"
        raise CannotError(message)
    directory.mkdir(mode=0o700)
    options = f"size={size}m,mode=700"
    command = [mount, "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        message = "mounting is not allowed here"
        raise CannotError(message)
    try:
        yield directory
    finally:

        def unmounted() -> None:
            done = subprocess.run(
                [unmount, str(directory)], check=False, capture_output=True, text=True
            )
            if done.returncode:
                raise OSError(1, done.stderr.strip())

        problem = _gone(unmounted)
        if problem:
            machine.problems.append(f"the file system stays in use: {problem}")
            subprocess.run([unmount, "-l", str(directory)], check=False)


# --- libraries ------------------------------------------------------------------------


def clock_library(directory: Path) -> Path:
    """What is preloaded so that the wall clock jumps. Raises CannotError."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        message = "no C compiler"
        raise CannotError(message)
    source = Path(__file__).with_name("clock_jump.c")
    library = directory / "clock_jump.so"
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")
    command = [compiler, *flags, "-o", str(library), str(source)]
    subprocess.run(command, check=True, timeout=60)
    return library


def _copied_package(directory: Path) -> Path:
    """A package that Keras and TensorFlow import, installed into ``directory`` as well."""
    for name in metadata.files(COPIED) or ():
        place = directory / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(name.locate()), place)
    return directory


def _fake_gpus(row: ChaosRow, directory: Path, machine: ChaosMachine) -> None:
    try:
        library = build(directory)
    except pytest.skip.Exception as reason:
        raise CannotError(str(reason)) from None
    fake = FakeNvml(library, directory / "nvml.txt")
    fake.gpus(row.gpus)
    fake.set(living=1)
    machine.nvml = fake
    machine.environment |= {
        "LD_LIBRARY_PATH": str(library),
        "FAKE_NVML": str(fake.script),
    }
