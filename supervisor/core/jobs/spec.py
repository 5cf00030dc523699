"""The spec of a job: what to run, within which limits, and what may be changed.

A spec file is TOML. Every problem in it is reported at once, each with its path and
what was expected there. Paths stay text here: the core does not touch files.
"""

import difflib
import tomllib
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from typing_extensions import override

from supervisor.core.jobs.notification import NotificationKind
from supervisor.core.jobs.spec_values import (
    WITH_TLS,
    WITHOUT_TLS,
    WORKING_DIRECTORY,
    AddressFile,
    Budget,
    Deadline,
    Directories,
    Duration,
    Gpu,
    Interval,
    JobName,
    Listen,
    ModuleName,
    Path,
    PemFile,
    Rate,
    RemoteAddress,
    Size,
    Text,
    Threshold,
    Tmpfs,
    VariableName,
)
from supervisor.core.liveness.hang_detection import Deadlines
from supervisor.core.remediation.escalation import Allow
from supervisor.core.remediation.proofs import ProofRule


class Table(BaseModel):
    """A table of a TOML file: unknown keys are problems."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, strict=True
    )


class MemorySpec(Table):
    """Limits of the framework's allocators, and of the attempt as a whole."""

    cpu: Size | None = None
    """Puts TensorFlow's CPU tensors under this limit, in bytes."""
    gpu: Size | None = None
    """Limit on each GPU, in bytes; without it memory grows as needed."""
    host: Size | None = None
    """Limit on the host memory of all processes of an attempt, in bytes; needs a daemon
    that systemd runs (``MemoryMax=`` of the attempt's unit): another refuses the job, and
    ``run`` says that nothing keeps it."""


class SnapshotsSpec(Table):
    """How often state is saved, and how much of it is kept."""

    every: Interval | None = None
    """Interval of those on disk. None: planned from cost and failures."""
    keep: Annotated[int, Field(ge=2, le=1000)] = 3
    quota: Size | None = None
    """What those on disk may take together, in bytes. The last good one stays."""
    memory: Tmpfs = "/dev/shm"  # noqa: S108  # no scratch file
    """A tmpfs for the snapshots that survive the process, not the machine. None
    (``off`` in the file): there are none."""
    memory_every: Interval | None = None
    """Interval of those in memory. None: planned from cost and budget."""
    budget: Budget = 0.01
    """Share of the training time that planned snapshots may take."""
    remote: RemoteAddress = None
    """Where those on disk are sent, so that another machine can go on. None (``off``):
    nowhere."""
    remote_keep: Annotated[int, Field(ge=1, le=1000)] = 2
    remote_bandwidth: Rate | None = None
    """The most that is sent, in bytes a second."""
    remote_wait: Duration = 60.0
    """How long the end of a run waits for the newest one to be sent."""


class CompilationSpec(Table):
    """What XLA compiled, of TensorFlow and of JAX: the next attempt need not again."""

    cache: bool = False
    """Keep it for later attempts of the job, in its state directory. Tried on CPUs only,
    not on a GPU yet."""
    quota: Size = 1 << 28
    """What is kept may take so much, in bytes; the oldest goes first."""


class FilesSpec(Table):
    """What is done about files that the script itself appends to."""

    rewind: Directories = WORKING_DIRECTORY
    """Below which of them a restart puts files back to where they were at the snapshot
    that it goes on from; from the working directory. In the file also ``true`` (the
    working directory) and ``false`` (none)."""


class MicrobatchSpec(Table):
    """What a reduced batch may do to the computation."""

    allow_inexact: bool = True
    """Go on in slices also where the result deviates by more than rounding; the
    incident says how. False: stop instead."""
    reduce: Literal["off", "keep", "sqrt", "linear"] = "off"
    """A model with a ``train_step`` of its own: do that step for several smaller
    batches instead of one, and keep the learning rate, divide it by the root of their
    number, or by their number. ``off``: such a run stops, and says what would fit."""


class ComputeSpec(Table):
    """How steps are computed, in the place of what the script says of it."""

    slice: Annotated[int, Field(ge=1, le=2**31)] | None = None
    """Samples a slice, from the first attempt on. None: the batch is whole until a step
    of it does not fit."""
    precision: Literal["mixed_bfloat16", "mixed_float16"] | None = None
    """Keras' global dtype policy. None: the script's. One that the script sets itself
    wins over it."""
    jit: bool | None = None
    """Compile steps by XLA, or not. None: as the script has it."""
    recompute: bool = False
    """Keep no activations for the backward pass, but compute them again: of all layers
    but those whose calls draw or change something."""


class RestartSpec(Table):
    """How often, and how soon, a crashed attempt is followed by another."""

    without_progress: Annotated[int, Field(ge=0, le=1000)] = 3
    """Restarts in a row for one cause that reached no newer snapshot; of kills from outside
    count those that came twice after the same step, or ten in a row before any."""
    proof: ProofRule = "first"
    """Which of them prove themselves: they begin with the older of two snapshots, train
    to the newer one, and compare all of it."""
    standby: bool = False
    """Start the process of the next attempt while this one trains: it imports TensorFlow and
    Keras and waits, some 300 MiB."""
    back_off: Duration = 1.0
    back_off_max: Duration = 300.0
    data_changed: Literal["go on", "stop"] = "go on"
    """Where the training data are not those of the snapshot at a restart. Who starts a
    run again by hand is asked in any case."""


class RemediesSpec(Table):
    """What remedies may do. The first three change the computation: only if allowed."""

    mixed_precision: bool = False
    """Out of memory: compute in bfloat16 where slices alone do not help."""
    skip_batches: bool = False
    """The loss was lost: leave the batches of that place out."""
    lower_rate: bool = False
    """The loss was lost: go on at half of the learning rate."""
    watch_loss: bool = True
    """End an attempt whose loss and weights are no numbers any more."""
    in_place: bool = False
    """Go on in the same process where a step failed and nothing in it is in doubt."""
    patience: Duration = 1800.0
    """How long to wait for a GPU that somebody else uses."""

    @property
    def allowed(self) -> frozenset[Allow]:
        """Those that change the computation."""
        return frozenset(allow for allow in Allow if getattr(self, allow.value))


class LivenessSpec(Table):
    """How long an attempt may show no progress, at least; ``off``: for ever.

    Deadlines grow with the usual time between two looks that saw progress; they never fall below these. Those of
    progress that are left at their defaults are doubled after hangs in vain
    (``Deadlines.doubles``).
    """

    silent: Deadline = Deadlines().silent
    """No heartbeat at all."""
    startup: Deadline = Deadlines().startup
    """The script's own code: before, between and after calls of ``fit``, and in
    callbacks between two epochs."""
    compile: Deadline = Deadlines().compile
    """Restoring, and the first step."""
    step: Deadline = Deadlines().step
    """One step of an epoch, with what callbacks do until the next."""
    validation: Deadline = Deadlines().validation
    snapshot: Deadline = Deadlines().snapshot
    factor: Annotated[float, Field(ge=1.0, le=1000.0)] = Deadlines().factor
    """Deadlines are at least this times that."""

    @property
    def deadlines(self) -> Deadlines:
        """For ``core.liveness.hang_detection``."""
        return Deadlines(**self.model_dump())


class ForecastSpec(Table):
    """What is done about memory that grows, before it runs out."""

    restart_below: Deadline = 20.0
    """A restart is planned when what is left lasts no longer, at the present trend, and
    nine tenths are used. None (``off`` in the file): never."""
    warn_at: Threshold = 0.9
    """Part of a limit from which on there is a warning. None (``off``): never."""


class DrainSpec(Table):
    """How an attempt is asked to end."""

    grace: Duration = 120.0
    """From SIGTERM to SIGKILL: a step and a snapshot must fit in."""
    unkillable: Duration = 20.0
    """From SIGKILL to the incident that says that a process in D state cannot die."""


class LogsSpec(Table):
    """What stays on disk of an attempt's log, in bytes; its middle is given up."""

    head: Size = 32 << 20
    """The beginning: how it was started, and the first failure."""
    tail: Size = 96 << 20


class MetricsSpec(Table):
    """Where the run serves ``/metrics``."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"anyOf": [WITH_TLS, WITHOUT_TLS]}
    )
    listen: Listen = None
    """``HOST:PORT``; None (``off`` in the file): not served. Of ``run`` alone: a daemon
    serves those of all jobs, by its own configuration."""
    certificate: PemFile = None
    """Serve with TLS: the certificate, with its chain. None (``off``): in the clear."""
    key: PemFile = None
    """Its private key."""
    client_ca: PemFile = None
    """Answer only readers whose certificate this authority vouches for."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            message = "certificate and key belong together: give both, or neither"
            raise ValueError(message)
        if self.client_ca is not None and self.certificate is None:
            message = "client_ca needs a certificate and a key"
            raise ValueError(message)
        return self


class NotifySpec(Table):
    """Who is told of a run without asking, and of what."""

    addresses: AddressFile = None
    """A file that only its owner may read, with an address of Apprise a line
    (``ntfy://…``, ``mailto://…``, ``slack://…``, ``json://…``): they hold secrets, so they
    stand in no spec. None (``off``): nobody."""
    command: tuple[Text, ...] = Field(default=(), strict=False)
    """The absolute path of a program, and its arguments: it reads the notification as
    JSON; no shell. Empty: none. The ledger keeps it, so that secrets are not for it."""
    on: tuple[Annotated[NotificationKind, Field(strict=False)], ...] = Field(
        default=tuple(NotificationKind), strict=False
    )

    @field_validator("command")
    @classmethod
    def _absolute(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if command and not command[0].startswith("/"):
            message = (
                f"expected the absolute path of a program first, got {command[0]!r}"
            )
            raise ValueError(message)
        return command

    @field_validator("on")
    @classmethod
    def _once(cls, on: tuple[NotificationKind, ...]) -> tuple[NotificationKind, ...]:
        return tuple(dict.fromkeys(on))

    @property
    def wanted(self) -> bool:
        """Whether anybody is told of anything."""
        return bool(self.on) and (self.addresses is not None or bool(self.command))


class Spec(Table):
    """One job. See ``deploy/README.md`` for a file with every key."""

    script: Path
    module: ModuleName | None = None
    """The script is this module, as ``python -m`` runs it: its package is imported
    first, and the working directory is searched for modules."""
    args: tuple[Text, ...] = Field(default=(), strict=False)
    name: JobName | None = None
    python: Path | None = None
    """Interpreter of the job; None: the one that runs trainwarden."""
    working_directory: Path | None = None
    environment: dict[VariableName, Text] = Field(
        default_factory=dict, json_schema_extra={"additionalProperties": False}
    )
    gpus: tuple[Gpu, ...] | None = Field(default=None, strict=False)
    """Indices or UUIDs; None: as many as ``gpu_count``, or else all that the environment
    shows; under a daemon, none."""
    gpu_count: Annotated[int, Field(ge=0, le=1024)] | None = None
    """How many GPUs the daemon chooses for it."""
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Whose turn it is on a box with a daemon: the highest first."""
    memory: MemorySpec = MemorySpec()
    snapshots: SnapshotsSpec = SnapshotsSpec()
    compilation: CompilationSpec = CompilationSpec()
    files: FilesSpec = FilesSpec()
    microbatch: MicrobatchSpec = MicrobatchSpec()
    compute: ComputeSpec = ComputeSpec()
    restart: RestartSpec = RestartSpec()
    remedies: RemediesSpec = RemediesSpec()
    liveness: LivenessSpec = LivenessSpec()
    drain: DrainSpec = DrainSpec()
    forecast: ForecastSpec = ForecastSpec()
    logs: LogsSpec = LogsSpec()
    metrics: MetricsSpec = MetricsSpec()
    notify: NotifySpec = NotifySpec()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a spec."""

    path: str
    """Such as ``memory.cpu``; empty for the file as a whole."""
    expected: str

    @override
    def __str__(self) -> str:
        return f"{self.path}: {self.expected}" if self.path else self.expected


class SpecError(ValueError):
    """A spec that cannot be used; ``problems`` names all that is wrong with it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


def merge(
    below: dict[str, Any],
    above: dict[str, Any],
) -> dict[str, Any]:
    """``below`` with the values of ``above`` in their places; tables are merged."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = merge(old, value) if both else value  # type: ignore[arg-type]  # both are tables
    return merged


def read_toml(text: str) -> dict[str, Any]:
    """The tables of a spec file. Raises SpecError where it is no TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError((Problem("", f"is not valid TOML: {error}"),)) from None


def build_spec(tables: dict[str, Any]) -> Spec:
    """The spec that ``tables`` describe. Raises SpecError with every problem."""
    return validated(Spec, tables)


def check_for_daemon(spec: Spec) -> None:
    """Raises SpecError: it asks for what only ``run`` does."""
    if spec.snapshots.remote is not None:
        expected = "only `run` sends snapshots elsewhere, no daemon does yet"
        raise SpecError((Problem("snapshots.remote", expected),))
    if spec.notify.wanted:
        expected = (
            "only `run` notifies by a spec; a daemon does by the [notify] of"
            " its own configuration"
        )
        raise SpecError((Problem("notify", expected),))
    if spec.metrics.listen is not None:
        expected = (
            "only `run` serves metrics by a spec; a daemon does, of all jobs,"
            " by the [metrics] of its own configuration"
        )
        raise SpecError((Problem("metrics.listen", expected),))


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], tables: dict[str, Any]) -> Model:
    """``tables`` as a ``model``. Raises SpecError with every problem."""
    try:
        return model.model_validate(tables)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=True)
        raise SpecError(tuple(_problem(model, item) for item in found)) from None


_EXPECTED = {
    "missing": "is required",
    "string_type": "expected text",
    "int_type": "expected a whole number",
    "bool_type": "expected true or false",
    "dict_type": "expected a table",
    "model_type": "expected a table",
    "tuple_type": "expected a list",
}
"""What to say instead of pydantic's own words, by its error type."""


def _problem(model: type[BaseModel], found: Any) -> Problem:
    path = _path(found["loc"])
    kind = found["type"]
    if kind == "extra_forbidden":
        return Problem(path, _unknown_key(model, found["loc"], found["input"]))
    if kind == "value_error":
        return Problem(path, str(found["ctx"]["error"]))
    if kind == "missing":
        return Problem(path, _EXPECTED[kind])
    expected = _EXPECTED.get(kind) or found["msg"].replace(
        "Input should be", "expected"
    )
    return Problem(path, f"{expected}, got {found['input']!r}"[:300])


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def _unknown_key(
    model: type[BaseModel], location: tuple[int | str, ...], given: object
) -> str:
    for part in location[:-1]:  # only tables forbid keys, so these are tables
        model = cast("type[BaseModel]", model.model_fields[str(part)].annotation)
    known = sorted(model.model_fields)
    if isinstance(given, dict) and cast("dict[str, Any]", given).keys() & set(known):
        return "is no table here; what stands in it belongs to the top of the file"
    close = difflib.get_close_matches(str(location[-1]), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
    return f"is not a key here; {hint}"
