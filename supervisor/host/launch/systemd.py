"""The systemd launcher: each attempt is a unit of its own, with the shim as main process.

The unit's template belongs to root and names the user (``trainwarden enable-user``); a
polkit rule lets the daemon start, limit, signal and forget such units, and nothing else.
"""

import pwd
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import override

from supervisor.core.diagnosis.systemd_result import PROPERTIES, UnitEnd, unit_end
from supervisor.core.jobs.spec import Spec
from supervisor.core.jobs.unit_names import (
    attempt_number,
    attempt_unit,
    attempt_units,
    template,
)
from supervisor.core.text.units import format_duration, parse_timespan
from supervisor.host.launch import systemctl
from supervisor.host.launch.launcher import (
    HAD_ENDED,
    NOT_STARTED,
    LaunchedAttempt,
    Launcher,
    LaunchError,
    Name,
    NotYetError,
    environment,
    read_shimmed,
    same_process,
    sendable,
    shim_command,
    shim_of,
    standby_command,
    standby_plan,
)
from supervisor.host.launch.standby_process import StandbyProcess
from supervisor.host.launch.systemctl import NoAnswerError, SystemdError
from supervisor.host.launch.unit_main import CHANNEL, DIRECTORY
from supervisor.host.launch.unit_standby import (
    UnitStandby,
    listening,
    meeting_point,
)
from supervisor.host.memory.main_memory import room
from supervisor.host.process.cgroup import is_in_group, kills_between, oom_kills
from supervisor.host.process.child_process import Process
from supervisor.wire.files import read_json, write_json
from supervisor.wire.messages.directive import Directive
from supervisor.wire.messages.standby_messages import (
    HandOver,
    difference,
)
from supervisor.wire.paths import AttemptPaths, RunPaths
from supervisor.wire.records.end_records import Shimmed

IDENTITY = ("ActiveState", "Job", "MainPID", "ExecMainPID", "ControlGroup")
"""Properties that tell who belongs to a unit, and whether it runs."""
LOOK_SECONDS = 0.25
"""How often systemd is asked about a unit that has not told anything yet."""
SLICE = "trainwarden.slice"
"""All units of attempts are in it (their template)."""
NOBODY = -1
"""The id of no user: where a name is not known (any more)."""
SILENT_SECONDS = 120.0
"""A unit that tells nothing for so long from its start, or its hand-over, never will: its
import hangs, or its interpreter is none. With a busy disk both may take a minute."""
TOLD_SECONDS = 10.0
"""Where the shim died without a record systemd is awaited, at most so long: it says what
befell it a moment after we see that it is gone."""


@dataclass(kw_only=True)
class SystemdAttempt(LaunchedAttempt):
    """An attempt in a unit of its own."""

    unit: str
    shim: Process | None = None
    oom_kills_before: int | None = None
    oom_kills_seen: int | None = None
    look_at: float = 0.0
    gone_since: float | None = None
    """When the shim was first seen to be gone, in monotonic seconds."""
    refused: Shimmed | None = None
    """What the files last said of who watches whom, where it is not what systemd says:
    the user may write there."""
    told: bool = False
    """Whether somebody has said then how it ended, or nobody ever will."""
    kill_at: float = field(default_factory=lambda: time.monotonic() + SILENT_SECONDS)
    """When it is killed, where it has told nothing."""

    @property
    @override
    def descriptor(self) -> int | None:
        gone = self.gone_since is not None  # it would be ready for ever
        return None if self.shim is None or gone else self.shim.descriptor

    @override
    def started(self) -> bool:
        if self.training is not None:
            return True
        now = time.monotonic()
        shimmed = read_shimmed(self.paths)
        if now < self.look_at and (shimmed is None or shimmed == self.refused):
            return False
        self.look_at = now + LOOK_SECONDS
        try:
            found = systemctl.show(self.unit, *IDENTITY)
        except SystemdError as error:
            if now > self.give_up_at:
                message = f"{NOT_STARTED}: {error}"
                raise LaunchError(message) from error
            return False
        if shimmed is not None and is_of_unit(shimmed, found):
            self._meet(shimmed)
        elif systemctl.at_rest(found) and shimmed == read_shimmed(self.paths):
            if shimmed is None or found.get("ExecMainPID") not in {"0", "", None}:
                raise self._why_not()
            self.training = shimmed  # systemd has forgotten it: it came and went
        elif now > self.kill_at:
            self._signal("SIGKILL")  # why it did not start is told when it is gone
        self.refused = shimmed
        return self.training is not None

    def _meet(self, shimmed: Shimmed) -> None:
        self.training = shimmed
        self.oom_kills_before = oom_kills(shimmed.shim_pid)
        self.shim = shim_of(shimmed)

    def _why_not(self) -> LaunchError:
        try:
            found = systemctl.show(self.unit, "Result", "LoadState", "ExecMainStatus")
        except SystemdError as error:
            return LaunchError(f"{NOT_STARTED}: {error}")
        if found.get("LoadState") != "loaded":
            message = f"there is no unit {self.unit}: enable its user first"
            return LaunchError(message, lasting=True)
        if time.monotonic() > self.kill_at:
            late = f"it told nothing for {SILENT_SECONDS:.0f} s, and was killed"
            return LaunchError(f"{NOT_STARTED}: {late}")
        code = found.get("ExecMainStatus", "")
        return LaunchError(
            f"{NOT_STARTED}: {self.unit} ended with {found.get('Result')} ({code}); "
            f"see journalctl -u {self.unit}"
        )

    @override
    def ended(self) -> bool:
        if self.training is None:
            return False
        if self.shim is None or self.shim.ended():
            self.told = self.told or self._told(self.training)
            return self.told
        seen = oom_kills(self.training.shim_pid)
        self.oom_kills_seen = self.oom_kills_seen if seen is None else seen
        return False

    def _told(self, shimmed: Shimmed) -> bool:
        """Whether shim or systemd has said how it ended, or nobody ever will."""
        now = time.monotonic()
        if self.gone_since is None:
            self.gone_since = now
        late = now > self.gone_since + TOLD_SECONDS
        if late or read_json(self.paths.exit) is not None:
            return True
        if now < self.look_at:
            return False
        self.look_at = now + LOOK_SECONDS
        return _end_of(self.unit, shimmed) is not None

    @override
    def ask_drain(self) -> None:
        self._signal("SIGTERM")

    @override
    def ask_stacks(self) -> bool:
        return self._signal("SIGUSR2")

    @override
    def kill(self) -> None:
        self._signal("SIGUSR1")

    def _signal(self, name: str) -> bool:
        """To the shim, which knows what is meant (``shim.forward_signals``)."""
        try:
            systemctl.signal_main(self.unit, name)
        except SystemdError:
            return False  # it ended a moment ago; if not, the next deadline asks again
        return True

    @override
    def oom_kills(self) -> int | None:
        return kills_between(self.oom_kills_before, self.oom_kills_seen)

    @override
    def close(self) -> None:
        if self.shim is not None:
            self.shim.close()
            self.shim = None


@dataclass(frozen=True, kw_only=True)
class SystemdLauncher(Launcher):
    """Starts the units of one user."""

    user: str
    requests: Path
    """Where that user's units look for what to do; only we write there."""
    _spared: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Runs and numbers of attempts whose units only stand by."""

    @property
    @override
    def user_id(self) -> int:
        try:
            return pwd.getpwnam(self.user).pw_uid
        except KeyError:
            return NOBODY

    @override
    def launch(
        self, spec: Spec, directive: Directive, *, paths: AttemptPaths
    ) -> SystemdAttempt:
        unit = attempt_unit(self.user, directive.job, directive.attempt)
        try:
            # What an earlier daemon left, if it ended before its standby had connected.
            meeting_point(self.requests, directive.job).unlink(missing_ok=True)
            self._begin(unit, spec, directive, self._request(spec, directive, paths))
        except OSError as error:
            message = f"cannot start the attempt: {error.strerror}: {error.filename}"
            raise LaunchError(message) from error
        except SystemdError as error:
            message = f"systemd did not start {unit}: {error}"
            raise LaunchError(message) from error
        return SystemdAttempt(unit=unit, paths=paths)

    def _begin(
        self,
        unit: str,
        spec: Spec,
        directive: Directive,
        request: dict[str, object],
    ) -> None:
        """Raises OSError and SystemdError."""
        self._tidy(directive.job)
        write_json(self.request(directive), request)
        # Always: names of units come again, and a limit of before would still hold.
        most = "infinity" if spec.memory.host is None else str(spec.memory.host)
        systemctl.limit(unit, {"MemoryMax": most})
        try:
            systemctl.start(unit)
        except NoAnswerError:
            return  # it may come all the same: whether it does, is found out

    @override
    def room_bytes(self) -> int | None:
        """In the slice of all attempts, in either version of cgroups."""
        try:
            return room(f"0::/{SLICE}\n1:memory:/{SLICE}\n")
        except OSError:
            return None

    @override
    def spare(self, run_id: str, number: int, *, spared: bool) -> None:
        (self._spared.add if spared else self._spared.discard)((run_id, number))

    @override
    def stand_by(
        self, spec: Spec, directive: Directive, *, paths: RunPaths, imports: Path
    ) -> UnitStandby:
        """In the unit of that attempt, and a directory that the user's process makes."""
        unit = attempt_unit(self.user, directive.job, directive.attempt)
        _clear_the_way(unit)
        given = environment(spec, directive, paths.attempt(directive.attempt), {})
        plan = standby_plan(directive, imports)
        point = meeting_point(self.requests, directive.job)
        request: dict[str, object] = {
            "directory": spec.working_directory or "/",
            "command": standby_command(
                spec, channel=CHANNEL, directory=DIRECTORY, detached=True
            ),
            "environment": given,
            "standby": {"socket": str(point), "place": str(paths.standby)},
        }
        try:
            listener = listening(point)
        except OSError as error:
            message = f"it cannot be started: {error.strerror or error}"
            raise LaunchError(message) from error
        made = UnitStandby(
            expected=directive,
            environment=given,
            unit=unit,
            user_id=self.user_id,
            plan=plan,
            request=self.request(directive),
            listener=listener,
            point=point,
        )
        try:
            self._begin(unit, spec, directive, request)
        except (OSError, SystemdError) as error:
            made.hang_up()
            self.request(directive).unlink(missing_ok=True)
            message = f"it cannot be started: {error}"
            raise LaunchError(message) from error
        return made

    @override
    def hand_over(
        self,
        standby: StandbyProcess,
        spec: Spec,
        directive: Directive,
        *,
        paths: AttemptPaths,
    ) -> SystemdAttempt:
        """It is told all of it, and moves its directory to where the attempt's is."""
        if not isinstance(standby, UnitStandby):
            raise LaunchError(HAD_ENDED)
        given = environment(spec, directive, paths, {})
        changes = difference(standby.environment, given)
        message = sendable(
            HandOver(
                directive=str(paths.directive),
                environment=changes,
                working_directory=spec.working_directory,
                content=directive.to_json(),
            )
        )
        try:
            standby.send(message)
        except OSError as error:
            said = f"it could not be told what to do: {error.strerror}"
            raise LaunchError(said) from error
        standby.hang_up()
        return SystemdAttempt(unit=standby.unit, paths=paths)

    def request(self, directive: Directive) -> Path:
        """The file that tells the unit of an attempt what to do."""
        return self.requests / f"{directive.job}-{directive.attempt}.json"

    def _tidy(self, job: str) -> None:
        """Requests of earlier attempts have been read."""
        for path in self.requests.glob(f"{job}-*.json"):
            if path.stem.removeprefix(f"{job}-").isdigit():
                path.unlink(missing_ok=True)

    def _request(
        self, spec: Spec, directive: Directive, paths: AttemptPaths
    ) -> dict[str, object]:
        return {
            "directory": spec.working_directory or "/",
            "command": shim_command(spec, paths, detached=True),
            "environment": environment(spec, directive, paths, {}),
            "directive": directive.to_json(),
        }

    @override
    def objection(self, spec: Spec) -> str | None:
        """A grace that systemd would cut short when the machine is shut down."""
        try:
            found = systemctl.show(
                attempt_unit(self.user, "any", 0), "LoadState", "TimeoutStopUSec"
            )
        except SystemdError:
            return None  # nothing is known: what cannot be asked is not refused
        most = parse_timespan(found.get("TimeoutStopUSec", ""))
        grace = spec.drain.grace
        if found.get("LoadState") != "loaded" or most is None or grace <= most:
            return None
        unit = template(self.user)
        return (
            f"drain.grace is {format_duration(grace)}, and systemd ends what has not "
            f"stopped after {format_duration(most)} (TimeoutStopSec of {unit}): ask "
            f"for less, or have root raise that with: systemctl edit {unit}"
        )

    @override
    def adopt(self, name: Name, *, paths: AttemptPaths) -> SystemdAttempt | None:
        unit = attempt_unit(self.user, name.job, name.number)
        attempt = SystemdAttempt(unit=unit, paths=paths)
        try:
            rests: bool | None = _rests(unit)
        except SystemdError:
            rests = None
        if rests:
            return None
        try:
            attempt.started()
        except LaunchError:
            return None
        shimmed = attempt.training
        if shimmed is not None and attempt.shim is None and rests is None:
            return None
        return attempt

    @override
    def told(self, name: Name, *, paths: AttemptPaths) -> UnitEnd | None:
        shimmed = read_shimmed(paths)
        if shimmed is None or read_json(paths.exit) is not None:
            return None
        return _end_of(attempt_unit(self.user, name.job, name.number), shimmed)

    @override
    def left(self, run_id: str, *, job: str) -> str | None:
        try:
            found = systemctl.units(attempt_units(self.user, job))
        except SystemdError as error:
            return f"what systemd keeps to itself ({error})"
        for unit, active in found.items():
            number = attempt_number(unit, self.user, job)
            if number is not None and (run_id, number) not in self._spared:
                if active not in systemctl.OVER:
                    return f"{unit} ({active})"
                self._forget(unit)
        return None

    @override
    def release(
        self, memory: Path, snapshots: Path, *, job: str, finished: bool
    ) -> str | None:
        """By a unit of the user's: what is theirs is not ours to touch."""
        unit = attempt_unit(self.user, job, 0)
        words = ["--discard"] if finished else []
        command = [sys.executable, "-I", "-m", "supervisor.host.snapshots.memory_tier"]
        request: dict[str, object] = {
            "directory": "/",
            "command": [*command, *words, str(memory), str(snapshots)],
            "environment": dict[str, str](),
        }
        try:
            write_json(self.requests / f"{job}-0.json", request)
            systemctl.start(unit)
        except (OSError, SystemdError) as error:
            return f"{memory} could not be given back: {error}"
        return None

    def _forget(self, unit: str) -> None:
        name = unit.partition("@")[2].removesuffix(".service")
        (self.requests / f"{name}.json").unlink(missing_ok=True)
        try:
            systemctl.forget(unit)
        except SystemdError:
            return  # it was forgotten before


def _rests(unit: str) -> bool:
    """``at_rest``, asked now. Raises SystemdError: systemd does not say."""
    return systemctl.at_rest(systemctl.show(unit, *IDENTITY))


def is_of_unit(shimmed: Shimmed, found: Mapping[str, str]) -> bool:
    """Whether the shim is the main process of the unit, as systemd says, and training one
    of its processes, as the kernel does (it may have ended by now)."""
    if str(shimmed.shim_pid) not in {found.get("MainPID"), found.get("ExecMainPID")}:
        return False
    if not same_process(shimmed):
        return True
    group = found.get("ControlGroup", "")
    return bool(group) and is_in_group(shimmed.pid, group)


def _end_of(unit: str, shimmed: Shimmed) -> UnitEnd | None:
    """What systemd says of how ``unit`` ended; None: nothing, or not yet."""
    try:
        return unit_end(systemctl.show(unit, *PROPERTIES), main_pid=shimmed.shim_pid)
    except SystemdError:
        return None


def _clear_the_way(unit: str) -> None:
    """One that stood by for another daemon may still import, and has not seen its end.

    Raises NotYetError where it has to end first, and LaunchError.
    """
    try:
        if not _rests(unit):
            systemctl.signal_main(unit, "SIGTERM")
            message = f"{unit} has not ended yet"
            raise NotYetError(message)
    except SystemdError as error:
        message = f"it cannot be started: {error}"
        raise LaunchError(message) from error
