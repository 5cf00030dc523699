"""The end of the shim: how an attempt ended, where nobody else is left to tell.

The shim tells by its exit record how training ended. Where it was killed as well there is
no record, and what systemd says of the unit whose main process it was, or what we saw of it
as its parent, is all that is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from supervisor.core.diagnosis.exit_status import signal_name

PROPERTIES = ("Result", "ExecMainPID", "ExecMainCode", "ExecMainStatus")
"""Of ``systemctl show``; the manual of org.freedesktop.systemd1(5)."""
OOM_KILL = "oom-kill"
SUCCESS = "success"
EXITED, KILLED, DUMPED = 1, 2, 3
"""``ExecMainCode``: CLD_EXITED, CLD_KILLED and CLD_DUMPED of waitid(2)."""
VANISHED, REBOOTED = "vanished", "rebooted"
"""No word of systemd's: the shim was gone, or of another boot, when we came."""
MEANINGS = {
    OOM_KILL: "main memory ran out, and the OOM killer ended all of it",
    "timeout": "it did not end within the time that it has for that",
    "watchdog": "it did not answer its watchdog",
    "resources": "systemd could not give it what it needs",
    "protocol": "it did not keep systemd's protocol",
    "start-limit-hit": "it was started too often",
}
"""Results that say more than an exit status does: systemd.exec(5), $SERVICE_RESULT."""


WATCHER = "the process that watched over training"
NOBODY_LEFT = "Nobody is left to tell how training ended:"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitEnd:
    """The end of the unit of an attempt."""

    result: str
    """``oom-kill``, ``timeout``, ``watchdog``, ``signal``, ``core-dump``, ``exit-code``…"""
    signal: int | None = None
    """What ended its main process, the shim; None: no signal did."""
    exit_code: int | None = None
    of_unit: bool = True
    """Whether systemd says so; else we saw it, as the shim's parent or later."""

    @property
    def outside(self) -> bool:
        """Whether somebody else ended it: the shim has no reason of its own to die of a
        signal, and runs nothing that could crash."""
        seen = {"timeout", "watchdog", VANISHED, REBOOTED}
        return self.signal is not None or self.result in seen

    @property
    def sentence(self) -> str:
        """What it says, for a person."""
        how = f"ended with {self.exit_code}"
        if self.signal is not None:
            how = f"was ended by {signal_name(self.signal)}"
        if not self.of_unit:
            seen = {
                REBOOTED: "the machine was started anew before it ended",
                VANISHED: f"{WATCHER} is gone without a word, as after SIGKILL",
            }
            return f"{NOBODY_LEFT} {seen.get(self.result, f'{WATCHER} {how}')}."
        meaning = MEANINGS.get(self.result)
        because = (
            f"{self.result}, " if meaning is None else f"{self.result}: {meaning}; "
        )
        return (
            "Nobody is left to tell how training ended. systemd says of its unit: "
            f"{because}and {WATCHER} {how}."
        )


def unit_end(found: Mapping[str, str], *, main_pid: int) -> UnitEnd | None:
    """What ``PROPERTIES`` say; None: nothing, or of another process than ``main_pid``
    (names of units come again)."""
    if found.get("ExecMainPID") != str(main_pid):
        return None
    code, status = _number(found, "ExecMainCode"), _number(found, "ExecMainStatus")
    if code not in {EXITED, KILLED, DUMPED}:
        return None
    return UnitEnd(
        result=found.get("Result", SUCCESS),
        signal=None if code == EXITED else status,
        exit_code=status if code == EXITED else None,
    )


def _number(found: Mapping[str, str], name: str) -> int | None:
    text = found.get(name, "")
    return int(text) if text.isdigit() else None
