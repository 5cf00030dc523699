"""What may be sent with a request: bodies, and what stands behind the question mark."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from supervisor.core.jobs.spec import (
    MetricsSpec,
    NotifySpec,
    SnapshotsSpec,
    Spec,
    Table,
)
from supervisor.core.jobs.spec_values import JobName, OnlyOff, Text


def _table(value: object) -> object:
    """What is wrong in it is told by ``build_spec``."""
    return value


def _digits(value: object) -> object:
    """Numbers in a query are text."""
    plain = isinstance(value, str) and value.isascii() and value.isdigit()
    return int(str(value)) if plain and len(str(value)) < 20 else value


class LocalSnapshotsSpec(SnapshotsSpec):
    """Snapshots that stay on the machine: a daemon sends none elsewhere."""

    remote: OnlyOff = None  # type: ignore[mutable-override]  # frozen: nobody assigns to it


class QueuedNotifySpec(NotifySpec):
    """Nobody: whom a daemon tells stands in its own configuration."""

    addresses: OnlyOff = None  # type: ignore[mutable-override]  # frozen: nobody assigns to it
    command: tuple[Text, ...] = Field(default=(), max_length=0, strict=False)


class QueuedMetricsSpec(MetricsSpec):
    """Nowhere: a daemon serves those of all jobs, by its own configuration."""

    listen: OnlyOff = None  # type: ignore[mutable-override]  # frozen: nobody assigns to it


class QueuedSpec(Spec):
    """A spec as a daemon takes it: with a name, and without what only ``run`` does."""

    name: JobName  # type: ignore[mutable-override]  # frozen: nobody assigns to it
    snapshots: LocalSnapshotsSpec = LocalSnapshotsSpec()  # type: ignore[mutable-override]  # frozen: nobody assigns to it
    metrics: QueuedMetricsSpec = QueuedMetricsSpec()  # type: ignore[mutable-override]  # frozen: nobody assigns to it
    notify: QueuedNotifySpec = QueuedNotifySpec()  # type: ignore[mutable-override]  # frozen: nobody assigns to it


class BeginRequest(Table):
    """How a job should begin that ran before."""

    fresh: bool = False
    accept_changes: bool = False


class Submission(BeginRequest):
    """A job: the tables of a spec, with absolute paths."""

    spec: Annotated[
        dict[str, Any], BeforeValidator(_table, json_schema_input_type=QueuedSpec)
    ]
    user: str | None = None
    """As whom it runs; only root and admins may name somebody else."""


class EndRequest(Table):
    """How a job should end: with its state saved, or at once."""

    drain: bool = False


class Service(Table):
    """Whether a GPU is handed out."""

    in_service: bool


_attempt, _offset = Field(ge=1, le=10**9), Field(ge=0, le=2**62)
AttemptNumber = Annotated[
    int,
    _attempt,
    BeforeValidator(_digits, json_schema_input_type=Annotated[int, _attempt]),
]
Offset = Annotated[
    int,
    _offset,
    BeforeValidator(_digits, json_schema_input_type=Annotated[int, _offset]),
]


class LogsQuery(Table):
    """Which part of a log."""

    attempt: AttemptNumber | None = None
    """None: the newest."""
    offset: Offset | None = None
    """In bytes; None: the last 64 KiB."""


class Narrowed(Table):
    """Which incidents."""

    job: str | None = None
