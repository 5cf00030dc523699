"""The direct launcher: the shim as our own child (a terminal, Slurm, a container).

Tied, as in the foreground: training is drained when its supervisor dies. Detached, as
under a daemon: training does not notice.
"""

import contextlib
import errno
import os
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import override

from supervisor.core.diagnosis.systemd_result import REBOOTED, VANISHED, UnitEnd
from supervisor.core.jobs.spec import Spec
from supervisor.core.text.units import format_size
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.launch.input_relay import InputRelay
from supervisor.host.launch.launcher import (
    HAD_ENDED,
    NOT_STARTED,
    LaunchedAttempt,
    Launcher,
    LaunchError,
    Name,
    environment,
    read_shimmed,
    same_process,
    sendable,
    shim_command,
    shim_of,
    standby_command,
    standby_plan,
)
from supervisor.host.launch.standby_process import DirectStandby, StandbyProcess
from supervisor.host.memory.main_memory import room
from supervisor.host.process.cgroup import kills_between, oom_kills
from supervisor.host.process.child_process import Child, Process, start
from supervisor.host.process.marker_scan import MarkerScan, marker_of
from supervisor.host.process.proc_files import doomed, read_kernel
from supervisor.host.snapshots.memory_tier import discard, release
from supervisor.wire.files import read_json, write_json
from supervisor.wire.messages.directive import Directive
from supervisor.wire.messages.standby_messages import (
    HandOver,
    difference,
)
from supervisor.wire.paths import AttemptPaths, RunPaths


def _send(channel: socket.socket, message: bytes, descriptors: list[int]) -> None:
    """Raises OSError where less than all of it was taken."""
    if socket.send_fds(channel, [message], descriptors) < len(message):
        raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))


@contextlib.contextmanager
def _given(relay: InputRelay | None) -> Generator[int]:
    """What an attempt is given to read, for as long as it is started."""
    if relay is None:
        yield subprocess.DEVNULL
        return
    given = relay.attach()
    try:
        yield given
    finally:
        os.close(given)


_MISSING = (FileNotFoundError, NotADirectoryError, PermissionError)
"""The directory to work in, say: a full disk passes by, this does not."""


NOT_OURS = "its place, {}, is not a directory of ours alone"


def _only_ours(directory: Path) -> None:
    """Make ``directory``. Raises OSError, and LaunchError where somebody else could change
    what lies in it: the directive of an attempt, say."""
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or others:
        raise LaunchError(NOT_OURS.format(directory))


@dataclass(kw_only=True)
class DirectAttempt(LaunchedAttempt):
    """An attempt whose shim is our child, or was the child of a supervisor before us."""

    shim: Process
    relay: InputRelay | None = None
    """Of its standard input."""
    oom_kills_before: int | None = field(default_factory=oom_kills)
    """A direct launch shares our cgroup."""

    @property
    @override
    def descriptor(self) -> int | None:
        return self.shim.descriptor

    @override
    def started(self) -> bool:
        over = self.shim.ended()  # asked first: what it wrote before is there then
        self.training = self.training or read_shimmed(self.paths)
        if self.training is not None:
            if self.relay is not None:
                self.relay.reader = self.training.pid
            return True
        late = time.monotonic() > self.give_up_at
        if late:
            self.shim.send(signal.SIGKILL)
        if over or late:
            self.close()
            raise LaunchError(NOT_STARTED)
        return False

    @override
    def ended(self) -> bool:
        return self.shim.ended()

    @override
    def ask_drain(self) -> None:
        self.shim.send(signal.SIGTERM)

    @override
    def ask_stacks(self) -> bool:
        return self._send(signal.SIGUSR1)

    @override
    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> bool:
        """To training itself; False: it is gone."""
        if self.training is None or not same_process(self.training):
            return False
        try:
            os.kill(self.training.pid, number)
        except ProcessLookupError:
            return False
        return True

    @override
    def oom_kills(self) -> int | None:
        return kills_between(self.oom_kills_before, oom_kills())

    @override
    def shim_end(self) -> UnitEnd | None:
        status = self.shim.status if isinstance(self.shim, Child) else None
        if status is None:
            return None
        return UnitEnd(
            result="signal" if status < 0 else "exit-code",
            signal=-status if status < 0 else None,
            exit_code=status if status >= 0 else None,
            of_unit=False,
        )

    @override
    def close(self) -> None:
        self.shim.close()


def _started_early(
    spec: Spec, given: dict[str, str], *, plan: bytes, directory: Path, detached: bool
) -> tuple[Child, socket.socket]:
    """A shim whose process waits and was told its ``plan``, and what we speak to that by.
    Raises OSError."""
    channel, theirs = socket.socketpair()
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        shim = start(
            standby_command(
                spec,
                channel=theirs.fileno(),
                directory=descriptor,
                detached=detached,
            ),
            environment=given,
            directory=Path(spec.working_directory or Path.cwd()),
            complaints=directory / "shim.log",
            descriptors=(theirs.fileno(), descriptor),
        )
    except OSError:
        channel.close()
        raise
    finally:
        os.close(descriptor)
        theirs.close()
    channel.settimeout(0.0)
    try:
        channel.sendall(plan)
    except OSError:
        channel.close()
        shim.send(signal.SIGKILL)
        shim.close()
        raise
    return shim, channel


@dataclass(frozen=True, kw_only=True)
class DirectLauncher(Launcher):
    """Starts shims as our own children."""

    detached: bool = False
    """Whether training goes on when we end."""
    environments: MarkerScan = field(default_factory=MarkerScan)
    """Of the machine's processes, for what outlived a shim."""
    relay: InputRelay | None = None
    """Gives attempts something to read; None: there is nothing."""

    @override
    def launch(
        self, spec: Spec, directive: Directive, *, paths: AttemptPaths
    ) -> DirectAttempt:
        try:
            paths.dumps.mkdir(parents=True, mode=0o700)
            write_json(paths.directive, directive.to_json())
            with _given(self.relay) as stdin:
                shim = start(
                    shim_command(
                        spec,
                        paths,
                        detached=self.detached,
                        stdin=self.relay is not None,
                    ),
                    environment=environment(spec, directive, paths, os.environ),
                    directory=Path(spec.working_directory or Path.cwd()),
                    complaints=paths.root / "shim.log" if self.detached else None,
                    stdin=stdin,
                )
        except OSError as error:
            message = f"cannot start the attempt: {error.strerror}: {error.filename}"
            raise LaunchError(message, lasting=isinstance(error, _MISSING)) from error
        return DirectAttempt(paths=paths, shim=shim, relay=self.relay)

    @override
    def room_bytes(self) -> int | None:
        try:
            return room(read_kernel("/proc/self/cgroup"))
        except OSError:
            return None

    @override
    def spare(self, run_id: str, number: int, *, spared: bool) -> None:
        self.environments.spare(marker_of(run_id, number), spared=spared)

    @override
    def stand_by(
        self, spec: Spec, directive: Directive, *, paths: RunPaths, imports: Path
    ) -> DirectStandby:
        """In a directory of its own, which is the attempt's later."""
        attempt = paths.attempt(directive.attempt)
        given = environment(spec, directive, attempt, os.environ)
        plan = standby_plan(directive, imports)
        try:
            _only_ours(paths.standby)
            directory = Path(tempfile.mkdtemp(dir=paths.standby))
            (directory / "dumps").mkdir(mode=0o700)
            shim, channel = _started_early(
                spec,
                given,
                plan=plan,
                directory=directory,
                detached=self.detached,
            )
        except OSError as error:
            message = f"it cannot be started: {error.strerror}"
            raise LaunchError(message) from error
        return DirectStandby(
            expected=directive,
            directory=directory,
            shim=shim,
            channel=channel,
            environment=given,
        )

    @override
    def hand_over(
        self,
        standby: StandbyProcess,
        spec: Spec,
        directive: Directive,
        *,
        paths: AttemptPaths,
    ) -> DirectAttempt:
        """Its directory gets the attempt's name; then it is told."""
        if not isinstance(standby, DirectStandby) or standby.ended():
            raise LaunchError(HAD_ENDED)
        given = environment(spec, directive, paths, os.environ)
        changes = difference(standby.environment, given)
        message = sendable(
            HandOver(
                directive=str(paths.directive),
                environment=changes,
                working_directory=spec.working_directory,
            )
        )
        try:
            write_json(standby.directory / paths.directive.name, directive.to_json())
            standby.directory.rename(paths.root)
            self._tell(standby, message, root=paths.root)
        except OSError as error:
            said = f"it could not be told what to do: {error.strerror}"
            raise LaunchError(said) from error
        standby.channel.close()
        return DirectAttempt(paths=paths, shim=standby.shim, relay=self.relay)

    def _tell(self, standby: DirectStandby, message: bytes, *, root: Path) -> None:
        """It has moved to ``root``, or is back where it was where this raises OSError."""
        try:
            with _given(self.relay) as stdin:
                stdins = [] if self.relay is None else [stdin]
                _send(standby.channel, message, stdins)
        except OSError:
            root.rename(standby.directory)
            raise

    @override
    def objection(self, spec: Spec) -> str | None:
        """A limit that nobody would keep: better no job than one without its limit."""
        if spec.memory.host is None:
            return None
        return (
            f"memory.host is {format_size(spec.memory.host)}, and only systemd keeps such "
            "a limit, which starts no attempts here: leave memory.host out"
        )

    @override
    def adopt(self, name: Name, *, paths: AttemptPaths) -> DirectAttempt | None:
        shimmed = read_shimmed(paths)
        shim = self._newborn(name) if shimmed is None else shim_of(shimmed)
        if shim is None:
            return None
        return DirectAttempt(paths=paths, shim=shim, training=shimmed)

    @override
    def told(self, name: Name, *, paths: AttemptPaths) -> UnitEnd | None:
        shimmed = read_shimmed(paths)
        if shimmed is None or read_json(paths.exit) is not None:
            return None
        shim = shim_of(shimmed)
        if shim is not None:
            shim.close()
            return None
        same_boot = shimmed.boot_id == boot_id()
        return UnitEnd(result=VANISHED if same_boot else REBOOTED, of_unit=False)

    @override
    def left(self, run_id: str, *, job: str) -> str | None:
        try:
            found = self.environments.wait_for(marker_of(run_id))
        except OSError as error:
            return f"what cannot be looked for ({error})"
        for pid, one in found.items():
            if not doomed(pid):
                return (
                    f"process {pid} ({one.name}) of the attempt before is still there"
                )
        return None

    @override
    def release(
        self, memory: Path, snapshots: Path, *, job: str, finished: bool
    ) -> str | None:
        if finished:
            discard(memory)
            return None
        return release(memory, snapshots)

    def _newborn(self, name: Name) -> Process | None:
        """A shim that was started a moment ago and has written nothing yet."""
        found = self.environments.wait_for(marker_of(name.run_id, name.number))
        try:
            return Process.of(min(found)) if found else None
        except ProcessLookupError:
            return None
