"""The configuration of the daemon: one TOML file, every problem told at once."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from supervisor.core.jobs.spec import (
    MetricsSpec,
    NotifySpec,
    Table,
    read_toml,
    validated,
)
from supervisor.core.jobs.unit_names import USER_EXPECTED, is_user_name

LAUNCHERS = ("auto", "systemd", "direct")


def _absolute(value: object) -> str:
    if isinstance(value, str) and value.startswith("/"):
        return value
    message = f"expected an absolute path, got {value!r}"
    raise ValueError(message)


def _launcher(value: object) -> str:
    if value in LAUNCHERS:
        return str(value)
    message = f"expected one of {', '.join(LAUNCHERS)}, got {value!r}"
    raise ValueError(message)


def _group(value: object) -> str:
    if isinstance(value, str) and is_user_name(value):
        return value
    message = f"expected {USER_EXPECTED}, got {value!r}"
    raise ValueError(message)


Path = Annotated[str, BeforeValidator(_absolute)]
Group = Annotated[str, BeforeValidator(_group)]


class Gpus(Table):
    """The GPUs that are handed out."""

    use: tuple[str, ...] | None = Field(default=None, strict=False)
    """By UUID or index. None: all that the driver names."""
    quota: Annotated[int, Field(ge=0, le=1024)] | None = None
    """How many a user may hold at a time."""
    probe: Path | None = None
    """The socket of the service that keeps the GPU probe. None: where attempts are
    units of systemd, that of ``trainwarden-gpu.service``; else the daemon has its own
    probe."""


class UserLimits(Table):
    """What one user may take of a box that others use too. Whoever may do everything is
    not bound by the first two."""

    jobs: Annotated[int, Field(ge=1)] = 2000
    """On the list, those that have ended too."""
    spec_kib: Annotated[int, Field(ge=1, le=1024)] = 32
    """The size of a job's spec, in JSON."""
    cpu_jobs: Annotated[int, Field(ge=0)] | None = None
    """Jobs without GPUs that run at a time. None: on a box of several users all slots but
    one, so that nobody's jobs take the last of them."""
    cpu_slots: Annotated[int, Field(ge=0)] | None = None
    """... of all users together. None: as many as there are cores, and at least 4."""


class Config(Table):
    """One box."""

    state_dir: Path = "/var/lib/trainwarden"
    jobs_dir: Path | None = None
    """Where ``*.toml`` are jobs. None: ``jobs.d`` in the state directory."""
    socket: Path | None = None
    """The control socket. None: ``control.sock`` in the state directory."""
    launcher: Annotated[str, BeforeValidator(_launcher)] = "auto"
    """``auto``: systemd where it runs this machine and we are its service."""
    group: Group = "trainwarden"
    """Whose members may have jobs of their own."""
    admin_group: Group = "trainwarden-admin"
    metrics: MetricsSpec = MetricsSpec()
    """Where the daemon serves ``/metrics``, and how."""
    notify: NotifySpec = NotifySpec()
    """Who is told of the jobs of this box; the daemon reads the file and runs the command."""
    gpus: Gpus = Gpus()
    limits: UserLimits = UserLimits()

    @property
    def jobs(self) -> str:
        """Where job files lie."""
        return self.jobs_dir or f"{self.state_dir}/jobs.d"

    @property
    def control(self) -> str:
        """Where the control socket lies."""
        return self.socket or f"{self.state_dir}/control.sock"


def build_config(text: str, **given: Any) -> Config:
    """The configuration in ``text``; ``given`` wins. Raises SpecError."""
    return validated(Config, {**read_toml(text), **given})
