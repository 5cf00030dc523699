"""systemd, asked through its own command: matched to the running version, no library.

Each call is a process of some 10 ms, with an argument list and a time limit, so that a
PID 1 that does not answer holds nobody for long.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from supervisor.host.process.child_process import TimeUpError, run_to_end

CALL_SECONDS = 10.0
RUNTIME = Path("/run/systemd/system")
"""There where systemd runs the machine."""
ACTIVE = frozenset({"activating", "active", "deactivating", "reloading"})
OVER = frozenset({"inactive", "failed"})


class SystemdError(Exception):
    """systemd did not do what was asked; the message is what it said."""


class NoAnswerError(SystemdError):
    """systemd did not answer in time; it may do what was asked all the same."""


def booted() -> bool:
    """Whether systemd runs this machine (sd_booted(3))."""
    return RUNTIME.is_dir() and shutil.which("systemctl") is not None


def start(unit: str) -> None:
    """Begin to start ``unit``. Raises SystemdError."""
    _call("start", "--no-block", "--", unit)


def limit(unit: str, limits: Mapping[str, str]) -> None:
    """Set properties such as ``MemoryMax`` until the next boot. Raises SystemdError."""
    pairs = [f"{name}={value}" for name, value in limits.items()]
    _call("set-property", "--runtime", "--", unit, *pairs)


def signal_main(unit: str, name: str) -> None:
    """Send a signal such as ``SIGTERM`` to the main process. Raises SystemdError."""
    _call("kill", "--kill-whom=main", f"--signal={name}", "--", unit)


def forget(unit: str) -> None:
    """Let systemd forget that ``unit`` failed. Raises SystemdError."""
    _call("reset-failed", "--", unit)


def show(unit: str, *properties: str) -> dict[str, str]:
    """Properties of ``unit`` by name. Raises SystemdError."""
    return parse_show(_call("show", f"--property={','.join(properties)}", "--", unit))


def units(pattern: str) -> dict[str, str]:
    """How each unit is that is loaded and matches ``pattern``, by its name: ``active``,
    ``activating``, ``deactivating``, ``failed``, ``inactive``… Raises SystemdError."""
    return parse_units(
        _call("list-units", "--all", "--plain", "--no-legend", "--", pattern)
    )


def is_active(unit: str) -> bool:
    """Whether ``unit`` runs, as far as systemd tells."""
    try:
        return show(unit, "ActiveState").get("ActiveState") in ACTIVE
    except SystemdError:
        return False


def at_rest(found: Mapping[str, str]) -> bool:
    """Whether a unit with these properties (ActiveState, Job) has ended, or was never
    begun, and nothing waits to begin it."""
    queued = found.get("Job", "0") not in {"", "0"}
    return found.get("ActiveState") in OVER and not queued


def parse_show(text: str) -> dict[str, str]:
    """What ``systemctl show`` prints: ``Name=value`` a line."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, equals, value in pairs if equals}


def parse_units(text: str) -> dict[str, str]:
    """What ``systemctl list-units --plain`` prints: name, load, active, sub, text."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: row[2] for row in rows if len(row) >= 4}


def _call(*arguments: str) -> str:
    command = ["systemctl", "--no-ask-password", "--no-pager", *arguments]
    try:
        done = run_to_end(command, seconds=CALL_SECONDS)
    except OSError as error:
        message = f"systemctl cannot be run: {error.strerror}"
        raise SystemdError(message) from error
    except TimeUpError:
        message = f"systemd did not answer within {CALL_SECONDS:.0f} s"
        raise NoAnswerError(message) from None
    if done.returncode:
        ended = f"systemctl ended with {done.returncode}"
        raise SystemdError((done.stderr.strip() or ended).splitlines()[0])
    return done.stdout
