"""The direct launcher: the shim as our own child (a terminal, Slurm, a container)."""

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from supervisor.core.spec import Spec
from supervisor.host.process import Child, start
from supervisor.wire.directive import BATCH_ENVIRONMENT, ENVIRONMENT, MARKER, Directive
from supervisor.wire.files import read_json, write_json
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records import ExitRecord, Shimmed

ROOT = Path(__file__).resolve().parents[2]
"""Where the packages ``supervisor`` and ``trainers`` lie."""

START_SECONDS = 20.0
"""A shim that has not started training by then never will."""


class LaunchError(Exception):
    """No attempt could be started; the message is for a person."""


@dataclass(slots=True)
class Attempt:
    """A running attempt."""

    number: int
    paths: AttemptPaths
    pid: int
    """The training process."""
    shim: Child

    def ask_drain(self) -> None:
        """SIGTERM to the shim, which passes it on to training."""
        self.shim.send(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to training; the shim sweeps up what it leaves."""
        shimmed = read_shimmed(self.paths)
        if shimmed is not None and same_process(shimmed):
            try:
                os.kill(shimmed.pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def exit_record(self) -> ExitRecord | None:
        """How it ended; None: nobody wrote it down (the shim died too)."""
        value = read_json(self.paths.exit)
        return None if value is None else ExitRecord.from_json(value)


def launch(spec: Spec, directive: Directive, *, paths: AttemptPaths) -> Attempt:
    """Start one attempt and wait until training exists.

    Raises:
        LaunchError: there is no process; the message says why.
    """
    try:
        paths.dumps.mkdir(parents=True, mode=0o700)
        write_json(paths.directive, directive.to_json())
        directory = Path(spec.working_directory or Path.cwd())
        shim = start(
            shim_command(spec, paths),
            environment=environment(spec, directive, paths, os.environ),
            directory=directory,
        )
    except OSError as error:
        message = f"cannot start the attempt: {error.strerror}: {error.filename}"
        raise LaunchError(message) from error
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        shimmed = read_shimmed(paths)
        if shimmed is not None:
            return Attempt(directive.attempt, paths, shimmed.pid, shim)
        if shim.wait(timeout_seconds=0.01):
            break
    message = "the process that watches over training did not start"
    raise LaunchError(message)


def shim_command(spec: Spec, paths: AttemptPaths) -> list[str]:
    """The command that starts the shim, which starts the training."""
    shim = str(ROOT / "supervisor" / "host" / "shim.py")
    launch_file = str(ROOT / "trainers" / "launch.py")
    python = spec.python or sys.executable
    training = [python, launch_file, str(paths.directive)]
    return [sys.executable, "-I", "-S", shim, str(paths.root), "--", *training]


def environment(
    spec: Spec, directive: Directive, paths: AttemptPaths, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The environment of training: inherited, the spec's, and what supervision needs.

    The ``TF_CPU_*`` variables put CPU tensors into the best-fit allocator that GPUs
    use, under a limit (tensorflow/core/common_runtime/process_state.cc).
    """
    values = {
        # Sets and dicts keep their order from attempt to attempt: 32 bits of the seed.
        "PYTHONHASHSEED": str(directive.seed & 0xFFFFFFFF),
        **inherited,
        **spec.environment,
        ENVIRONMENT: str(paths.directive),
        MARKER: f"{directive.run_id}/{directive.attempt}",
        "PYTHONUNBUFFERED": "1",
        "TF_BFC_MEMORY_DUMP": str(paths.dumps / "bfc"),
    }
    if spec.memory.cpu is not None:
        values["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
        values["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = str(max(spec.memory.cpu >> 20, 1))
    if spec.gpus is not None:
        values["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in spec.gpus)
    if directive.slice_size is not None:
        values[BATCH_ENVIRONMENT] = str(directive.slice_size)
    return values


def read_shimmed(paths: AttemptPaths) -> Shimmed | None:
    """Who watches whom, as the shim wrote it; None: not yet."""
    value = read_json(paths.root / "shimmed.json")
    return None if value is None else Shimmed.from_json(value)


def same_process(shimmed: Shimmed) -> bool:
    """Whether the pid still belongs to the process that the shim started."""
    try:
        stat = Path(f"/proc/{shimmed.pid}/stat").read_bytes()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return False
    ticks = int(stat.rpartition(b")")[2].split()[19])  # field 22 of proc(5)
    return boot == shimmed.boot_id and ticks == shimmed.started_ticks


def marked_processes(run_id: str) -> dict[int, str]:
    """Processes that carry a run's marker: {pid: command name}.

    The second opinion of the gate: the shim sweeps what it can see, this finds what
    outlived the shim itself. Processes that may not be read are not ours.
    """
    marker = f"{MARKER}={run_id}/".encode()
    found: dict[int, str] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and int(directory.name) != os.getpid():
            try:
                if marker in (directory / "environ").read_bytes():
                    name = (directory / "comm").read_text().strip()
                    found[int(directory.name)] = name
            except OSError:
                continue
    return found
