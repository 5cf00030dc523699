"""How and where the jobs of a user run."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from supervisor.core.jobs.unit_names import is_user_name
from supervisor.daemon.managed_job import SchedulerError
from supervisor.host.launch.direct import DirectLauncher
from supervisor.host.launch.launcher import Launcher
from supervisor.host.launch.systemd import SystemdLauncher
from supervisor.host.process.marker_scan import MarkerScan
from supervisor.host.service.user_name import user_name


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRuntime:
    """What starts the attempts of a user, and the state directory of their own."""

    launcher: Launcher
    place: str | None
    """None: ours."""


class LauncherFactory(Protocol):
    """What starts the jobs of each user of this box."""

    @property
    def about(self) -> str:
        """How attempts are started here, in a few words."""
        ...

    def runtime_of(self, user: str) -> UserRuntime:
        """Those of ``user``. Raises SchedulerError: there are none, and why."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleUserFactory(LauncherFactory):
    """Without systemd: attempts are our own children, and run as we do."""

    user: str
    environments: MarkerScan = field(default_factory=MarkerScan)

    @property
    @override
    def about(self) -> str:
        return f"no systemd here: attempts run as {self.user}, as children of ours"

    @override
    def runtime_of(self, user: str) -> UserRuntime:
        if user != self.user:
            message = (
                f"without systemd, jobs run as {self.user}, the user of the daemon, "
                f"and nobody else: {user} cannot have any"
            )
            raise SchedulerError(message)
        launcher = DirectLauncher(detached=True, environments=self.environments)
        return UserRuntime(launcher=launcher, place=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiUserFactory(LauncherFactory):
    """With systemd: each attempt is a unit of its own, as the user of the job."""

    state: Path

    @property
    @override
    def about(self) -> str:
        return "each attempt is a systemd unit of its own"

    @override
    def runtime_of(self, user: str) -> UserRuntime:
        requests = self.state / "requests" / user
        if not (is_user_name(user) and requests.is_dir()):
            message = (
                f"{user} has no place for jobs on this box: as root, "
                f"trainwarden enable-user {user}"
            )
            raise SchedulerError(message)
        return UserRuntime(
            launcher=SystemdLauncher(user=user, requests=requests),
            place=str(self.state / "users" / user),
        )


def launcher_factory_of(
    launcher: str, state: Path, *, systemd: bool, environments: MarkerScan
) -> LauncherFactory:
    """What ``launcher`` of the configuration means here; ``systemd``: it runs us;
    ``environments``: of the machine's processes, where others ask for them, too."""
    if launcher == "systemd" or (launcher == "auto" and systemd):
        return MultiUserFactory(state=state)
    return SingleUserFactory(user=user_name(os.geteuid()), environments=environments)
