"""The interface of launchers, and what all of them share.

A launcher starts attempts, finds those again that outlived their supervisor, and says
what is left of dead ones. None of its calls waits: ``started`` and ``ended`` are asked
again and again by the loop.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from supervisor.core.diagnosis.systemd_result import UnitEnd
from supervisor.core.jobs.spec import Spec
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.launch.standby_process import StandbyProcess
from supervisor.host.process.child_process import Process
from supervisor.host.process.proc_files import stat
from supervisor.host.telemetry.log_retention import LogRetention
from supervisor.wire.files import read_json
from supervisor.wire.json_record import JsonRecord
from supervisor.wire.messages.directive import (
    BATCH_ENVIRONMENT,
    ENVIRONMENT,
    MARKER,
    Directive,
)
from supervisor.wire.messages.standby_messages import (
    MOST_BYTES,
    WORD,
    StandbyPlan,
    line,
)
from supervisor.wire.paths import AttemptPaths, RunPaths
from supervisor.wire.records.end_records import Shimmed

ROOT = Path(__file__).resolve().parents[3]
"""Where the packages ``supervisor`` and ``trainers`` lie."""
LAUNCH = ROOT / "trainers" / "launch.py"
"""What the job's interpreter runs."""

SHIM = Path(__file__).with_name("attempt_shim.py")
_SHIM = (sys.executable, "-I", "-S", str(SHIM))

XLA_FLAGS = "XLA_FLAGS"
"""A list of flags, the last of a name counts: ours are appended to the job's."""

START_SECONDS = 20.0
"""A shim that has not started training by then never will."""

NOT_STARTED = "the process that watches over training did not start"
HAD_ENDED = "it had ended"
TOO_MUCH = "what it would be told takes more than 64 KiB"


class LaunchError(Exception):
    """No attempt could be started; the message is for a person."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        """``lasting``: the same again cannot help before somebody has done something."""
        super().__init__(message)
        self.lasting = lasting


class NotYetError(LaunchError):
    """What is in the way goes by itself: the same again may help in a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """Which attempt."""

    run_id: str
    job: str
    number: int


@dataclass(kw_only=True)
class LaunchedAttempt(ABC):
    """An attempt that was launched."""

    paths: AttemptPaths
    """Its files."""
    training: Shimmed | None = None
    """Who watches whom; None before ``started``."""
    give_up_at: float = field(default_factory=lambda: time.monotonic() + START_SECONDS)

    @property
    def pid(self) -> int | None:
        """The training process; None before ``started``."""
        return None if self.training is None else self.training.pid

    @property
    @abstractmethod
    def descriptor(self) -> int | None:
        """Becomes readable when the shim has ended; None: look now and then."""

    @abstractmethod
    def started(self) -> bool:
        """Whether training exists by now.

        Raises:
            LaunchError: it never will; nothing of it is left.
        """

    @abstractmethod
    def ended(self) -> bool:
        """Whether training and its shim are gone."""

    @abstractmethod
    def ask_drain(self) -> None:
        """Ask training, through the shim, to save its state and end."""

    @abstractmethod
    def ask_stacks(self) -> bool:
        """Ask training to write down the stacks of its threads; False: it is gone."""

    @abstractmethod
    def kill(self) -> None:
        """End training at once; the shim sweeps up what it leaves."""

    @abstractmethod
    def oom_kills(self) -> int | None:
        """OOM kills that the kernel counted in its cgroup; None: not known."""

    def shim_end(self) -> UnitEnd | None:
        """How the shim itself ended, if we saw that; None: we did not."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Give back what was held to watch it."""


class Launcher(Protocol):
    """One way to start attempts."""

    @property
    def user_id(self) -> int | None:
        """The user as whom its attempts run; None: as we do, or become themselves."""
        return None

    def launch(
        self, spec: Spec, directive: Directive, *, paths: AttemptPaths
    ) -> LaunchedAttempt:
        """Begin to start an attempt.

        Raises:
            LaunchError: nothing was started; the message says why.
        """
        ...

    def room_bytes(self) -> int | None:
        """Main memory that is left for a process which is started now; None: not known."""
        ...

    def spare(self, run_id: str, number: int, *, spared: bool) -> None:
        """Whether the process of attempt ``number`` only stands by: then it is nothing
        that is left."""
        ...

    def stand_by(
        self, spec: Spec, directive: Directive, *, paths: RunPaths, imports: Path
    ) -> StandbyProcess:
        """Start the process of the attempt that ``directive`` is for, which waits for it;
        ``imports``: what the attempt before it has written of its imports.

        Raises:
            NotYetError: one of before has not ended yet, and was asked to.
            LaunchError: nothing was started; the message says why.
        """
        ...

    def hand_over(
        self,
        standby: StandbyProcess,
        spec: Spec,
        directive: Directive,
        *,
        paths: AttemptPaths,
    ) -> LaunchedAttempt:
        """Let a process of ``stand_by`` be the attempt.

        Raises:
            LaunchError: it cannot be any more; the message says why.
        """
        ...

    def objection(self, spec: Spec) -> str | None:
        """Why attempts could not be as ``spec`` says, in a sentence; None: they can."""
        ...

    def adopt(self, name: Name, *, paths: AttemptPaths) -> LaunchedAttempt | None:
        """The attempt again that an earlier supervisor started; None: it is over."""
        ...

    def told(self, name: Name, *, paths: AttemptPaths) -> UnitEnd | None:
        """What somebody else says of the end of an attempt whose shim could not tell it;
        None: nobody does."""
        ...

    def left(self, run_id: str, *, job: str) -> str | None:
        """What is still there of earlier attempts, named; None: nothing."""
        ...

    def release(
        self, memory: Path, snapshots: Path, *, job: str, finished: bool
    ) -> str | None:
        """A run has ended: give back its memory tier. What is newer there than on disk
        goes to ``snapshots`` first, unless it ``finished``. A sentence if it could not.
        """
        ...


def shim_command(
    spec: Spec, paths: AttemptPaths, *, detached: bool, stdin: bool = False
) -> list[str]:
    """The command that starts the shim, which starts the training; ``detached``: it may
    be without a supervisor for a while. ``stdin``: training gets that of the shim."""
    options: list[str] = ["--stdin"] if stdin else []
    shim = [*_SHIM, *options, *_alone(spec, detached=detached), str(paths.root), "--"]
    return [*shim, spec.python or sys.executable, str(LAUNCH), str(paths.directive)]


def standby_plan(directive: Directive, imports: Path) -> bytes:
    """What the process is told first, that waits to be the attempt of ``directive``.

    Raises LaunchError: it is more than can be told.
    """
    plan = StandbyPlan(
        imports=str(imports),
        seed=directive.seed,
        arguments=(directive.script, *directive.args),
    )
    return sendable(plan)


def sendable(message: JsonRecord) -> bytes:
    """``message`` to be sent. Raises LaunchError: it is more than can be told."""
    text = line(message)
    if len(text) > MOST_BYTES:
        raise LaunchError(TOO_MUCH)
    return text


def standby_command(
    spec: Spec, *, channel: int, directory: int, detached: bool
) -> list[str]:
    """The same for a process that waits to be an attempt. Its directory is known to the
    shim by a descriptor: its name is another one later."""
    options = _alone(spec, detached=detached)
    shim = [*_SHIM, *options, f"/proc/self/fd/{directory}", "--"]
    words = [str(LAUNCH), WORD, f"{channel},{directory}"]
    return [*shim, spec.python or sys.executable, *words]


def _alone(spec: Spec, *, detached: bool) -> list[str]:
    """Options of a shim that may be without a supervisor for a while."""
    if not detached:
        return []
    cap = LogRetention.of(head=spec.logs.head, tail=spec.logs.tail)
    return ["--detached", f"--log={cap.head},{cap.tail},{cap.slack}"]


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
    if directive.visible_gpus is not None:
        values["CUDA_VISIBLE_DEVICES"] = ",".join(directive.visible_gpus)
    for name, value in directive.variables.items():
        before = values.get(name, "") if name == XLA_FLAGS else ""
        values[name] = f"{before} {value}".strip()
    if directive.slice_size is not None:
        values[BATCH_ENVIRONMENT] = str(directive.slice_size)
    return values


def read_shimmed(paths: AttemptPaths) -> Shimmed | None:
    """Who watches whom, as the shim wrote it; None: not yet."""
    value = read_json(paths.root / "shimmed.json")
    return None if value is None else Shimmed.from_json(value)


def same_process(shimmed: Shimmed) -> bool:
    """Whether the pid still belongs to the process that the shim started."""
    return _is(shimmed.pid, shimmed.started_ticks, shimmed.boot_id)


def shim_of(shimmed: Shimmed) -> Process | None:
    """The shim; None: it has ended, and its pid may be another's now."""
    try:
        shim = Process.of(shimmed.shim_pid)
    except ProcessLookupError:
        return None
    if _is(shimmed.shim_pid, shimmed.shim_started_ticks, shimmed.boot_id):
        return shim
    shim.close()
    return None


def has_other_clock(paths: AttemptPaths) -> bool:
    """Whether the monotonic times of the attempt are of another boot, or machine."""
    shimmed = read_shimmed(paths)
    return shimmed is not None and not has_our_clock(shimmed.boot_id)


def has_our_clock(boot: str) -> bool:
    """Whether monotonic times of ``boot`` (``boot_id``) can be compared with ours: the
    kernel's part of it tells, as a container that begins anew keeps the clock."""
    return boot.partition("/")[0] == boot_id().partition("/")[0]


def _is(pid: int, started_ticks: int, boot: str) -> bool:
    """Whether ``pid`` is alive and began then: a zombie has ended."""
    known = stat(pid)
    if known is None or known.started_ticks != started_ticks or known.state in "ZX":
        return False
    return boot == boot_id()
