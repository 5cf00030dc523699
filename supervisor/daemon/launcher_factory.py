"""How and where the jobs of a user run."""

import os
import pwd
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from supervisor.core.jobs.unit_names import is_user_name
from supervisor.daemon.managed_job import BoxError
from supervisor.host.launch.direct import DirectLauncher
from supervisor.host.launch.launcher import Launcher
from supervisor.host.launch.systemd import SystemdLauncher
from supervisor.host.process.marker_scan import Environments


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarters:
    """What starts the attempts of a user, and the state directory of their own."""

    launcher: Launcher
    place: str | None
    """None: ours."""


class House(Protocol):
    """All quarters of this box."""

    @property
    def about(self) -> str:
        """How attempts are started here, in a few words."""
        ...

    def quarters(self, user: str) -> Quarters:
        """Those of ``user``. Raises BoxError: there are none, and why."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone(House):
    """Without systemd: attempts are our own children, and run as we do."""

    user: str
    environments: Environments = field(default_factory=Environments)

    @property
    @override
    def about(self) -> str:
        return f"no systemd here: attempts run as {self.user}, as children of ours"

    @override
    def quarters(self, user: str) -> Quarters:
        if user != self.user:
            message = (
                f"without systemd, jobs run as {self.user}, the user of the daemon, "
                f"and nobody else: {user} cannot have any"
            )
            raise BoxError(message)
        launcher = DirectLauncher(detached=True, environments=self.environments)
        return Quarters(launcher=launcher, place=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(House):
    """With systemd: each attempt is a unit of its own, as the user of the job."""

    state: Path

    @property
    @override
    def about(self) -> str:
        return "each attempt is a systemd unit of its own"

    @override
    def quarters(self, user: str) -> Quarters:
        requests = self.state / "requests" / user
        if not (is_user_name(user) and requests.is_dir()):
            message = (
                f"{user} has no quarters on this box: as root, "
                f"trainwarden enable-user {user}"
            )
            raise BoxError(message)
        return Quarters(
            launcher=SystemdLauncher(user=user, requests=requests),
            place=str(self.state / "users" / user),
        )


def user_name(uid: int) -> str:
    """The name of a user; the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def house_of(
    launcher: str, state: Path, *, systemd: bool, environments: Environments
) -> House:
    """What ``launcher`` of the configuration means here; ``systemd``: it runs us;
    ``environments``: of the machine's processes, where others ask for them, too."""
    if launcher == "systemd" or (launcher == "auto" and systemd):
        return Shared(state=state)
    return Alone(user=user_name(os.geteuid()), environments=environments)
