"""The self-test of an environment: a fit of two steps an epoch, interrupted and resumed.

Each part is a process of its own, by the interpreter that trains: the script alone, then
supervised and killed in its second epoch, then resumed from the snapshot of the step
before, then in slices. What is left of the fits is compared to the bit (slices: 1e-5).
What held is kept in the user's cache, by whatever it may depend on.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from supervisor.wire.event_file import EventReader, RecordKind
from supervisor.wire.files import read_json, write_json
from supervisor.wire.messages.directive import (
    BATCH_ENVIRONMENT,
    ENVIRONMENT,
    EXIT_REFUSED,
    Directive,
)
from supervisor.wire.paths import AttemptPaths
from trainers.process.environment.user_cache import cache_directory

TRAINERS = Path(__file__).parents[2]
SCRIPT = TRAINERS / "reference" / "two_steps.py"
LAUNCH = TRAINERS / "launch.py"
KILLED = 9
"""What the script ends with where it dies."""
SECONDS = 300.0
"""What no part takes, on a slow file system either."""
DIES_AFTER, RESUMES_AT = 4, 3
"""The step it is killed after, and that of the newest snapshot then."""
BATCH, SLICES = 8, 2
"""Samples of a step of the script."""
ROUNDING = 1e-5
SLICED = ("tensorflow", "jax", "torch")
"""Backends on which a batch can be worked through in slices."""
ENVIRONMENT_OF_TEST = {
    "CUDA_VISIBLE_DEVICES": "",
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
NOT_OF_TEST = (
    ENVIRONMENT, BATCH_ENVIRONMENT, "TF_BFC_MEMORY_DUMP", "TF_CPU_ALLOCATOR_USE_BFC",
    "TF_CPU_BFC_MEM_LIMIT_IN_MB", "TF_USE_LEGACY_KERAS",
)  # fmt: skip
"""What the attempt that asks was given for itself."""


class _FailedError(Exception):
    """What does not hold, in a few words."""


def wrong_with(
    versions: Sequence[str | None], *, backend: str = "tensorflow"
) -> str | None:
    """What does not hold with ``versions``, those of this interpreter; None: all does.
    ``backend``: what Keras computes with.

    Not run again where the same of ours held in the same environment.
    """
    known = kept("fit" if backend == "tensorflow" else f"fit on {backend}", versions)
    if known is not None and known.exists():
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="trainwarden-self-test-") as room:
            _Parts(Path(room).resolve(), backend).hold()
    except _FailedError as failed:
        return str(failed)
    except OSError as error:
        return f"it cannot be run: {error}"
    keep(known, versions)
    return None


def kept(what: str, versions: Sequence[str | None]) -> Path | None:
    """The file that says that ``what`` held; None: this user has no cache."""
    digest = hashlib.sha256(json.dumps([what, sys.prefix, *versions]).encode())
    for path in sorted(_ours()):
        digest.update(path.read_bytes())
    try:
        directory = cache_directory(os.environ)
    except RuntimeError:
        return None
    return directory / f"self-test-{digest.hexdigest()[:24]}.json"


def _ours() -> Iterable[Path]:
    """The code that is tested: our own version, to the letter."""
    return (
        *TRAINERS.rglob("*.py"),
        *(TRAINERS.parent / "supervisor/wire").glob("*.py"),
    )


def keep(path: Path | None, versions: Sequence[str | None]) -> None:
    """Remember that it held."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(path, {"held": list(versions)})
    except OSError:
        return  # then it is tried again


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of one test, in a directory."""

    room: Path
    backend: str

    def hold(self) -> None:
        """Run them, two at a time. Raises _FailedError, OSError."""
        alone = self._start("alone", [str(SCRIPT)])
        torn = self._supervised("torn", die=True)
        whole = self._result("alone", alone)
        self._died("torn", torn)
        resumed = self._supervised("resumed")
        if self.backend not in SLICED:
            self._resumed(whole, self._result("resumed", resumed))
            return
        sliced = self._supervised("sliced", slice_size=BATCH // SLICES)
        self._resumed(whole, self._result("resumed", resumed))
        self._sliced(whole, self._result("sliced", sliced))

    def _supervised(
        self, name: str, *, die: bool = False, slice_size: int | None = None
    ) -> subprocess.Popen[bytes]:
        paths = AttemptPaths(self.room / name)
        paths.root.mkdir()
        directive = _directive(self.room, paths, result=self.room / f"{name}.json")
        if slice_size is not None:
            directive = replace(
                directive,
                slice_size=slice_size,
                restore=False,
                snapshot_directory=str(self.room / "others"),
            )
        write_json(paths.directive, directive.to_json())
        newest = f"{directive.snapshot_directory}/{RESUMES_AT:012}-??????"
        dies = {"TWO_STEPS_DIE": str(DIES_AFTER), "TWO_STEPS_AFTER": newest}
        more = dies if die else {}
        return self._start(name, [str(LAUNCH), str(paths.directive)], **more)

    def _start(
        self, name: str, arguments: list[str], **more: str
    ) -> subprocess.Popen[bytes]:
        inherited = {k: v for k, v in os.environ.items() if k not in NOT_OF_TEST}
        plain = [] if arguments[0] == str(LAUNCH) else [str(self.room / f"{name}.json")]
        with (self.room / f"{name}.log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603  # our own files
                [sys.executable, *arguments, *plain],
                cwd=self.room,
                env={
                    **inherited,
                    **ENVIRONMENT_OF_TEST,
                    "KERAS_BACKEND": self.backend,
                    **more,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _ended(self, name: str, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            message = f"the {name} fit did not end in {SECONDS:.0f} s"
            raise _FailedError(message) from None

    def _died(self, name: str, process: subprocess.Popen[bytes]) -> None:
        code = self._ended(name, process)
        if code != KILLED:
            raise _FailedError(self._why(name, code))

    def _result(self, name: str, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        code = self._ended(name, process)
        left = read_json(self.room / f"{name}.json")
        if code or left is None:
            raise _FailedError(self._why(name, code))
        return left

    def _why(self, name: str, code: int) -> str:
        """What the part said last: the refusal, or the exception."""
        if code == EXIT_REFUSED:
            for record in self._records(name, RecordKind.REFUSED):
                return str(record["sentence"])
        lines = (self.room / f"{name}.log").read_text(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "")
        return f"the {name} fit ended with {code}: {last.strip()[:300]}"

    def _records(self, name: str, kind: str) -> list[dict[str, Any]]:
        reader = EventReader(AttemptPaths(self.room / name).events)
        return [record.fields for record in reader.poll() if record.kind == kind]

    def _resumed(self, whole: dict[str, Any], left: dict[str, Any]) -> None:
        steps = [one["step"] for one in self._records("resumed", RecordKind.RESTORED)]
        if steps[:1] != [RESUMES_AT]:
            message = (
                f"a fit that died after step {DIES_AFTER} did not go on from the"
                f" snapshot of step {RESUMES_AT}"
            )
            raise _FailedError(message)
        different = [name for name in whole if whole[name] != left.get(name)]
        if different:
            what = ", ".join(different)
            message = (
                f"a resumed fit ends with other bits than an undisturbed one: {what}"
            )
            raise _FailedError(message)

    def _sliced(self, whole: dict[str, Any], left: dict[str, Any]) -> None:
        apart = max(map(_apart, _flat(whole["sliced"]), _flat(left["sliced"])))
        if not apart <= ROUNDING:
            message = f"in slices the weights are others, by {apart:.0e}"
            raise _FailedError(message)
        if not self._worked_in_slices():
            message = "a batch was not worked through in slices"
            raise _FailedError(message)

    def _worked_in_slices(self) -> bool:
        """Whether the attempt says so itself."""
        told = self._records("sliced", RecordKind.MICROBATCH)
        return any(one["slices"] == SLICES for one in told)


def _directive(room: Path, paths: AttemptPaths, *, result: Path) -> Directive:
    return Directive(
        run_id="self-test",
        job="self-test",
        attempt=1,
        script=str(SCRIPT),
        args=(str(result),),
        attempt_directory=str(paths.root),
        snapshot_directory=str(room / "snapshots"),
        memory_directory=None,
        seed=7,
        restore=True,
        restore_before_step=None,
        slice_size=None,
        calibrate=False,
        slice_ceiling=None,
        memory_limit_bytes=None,
        gpu_memory_limit_bytes=None,
        gpu_memory_growth=True,
        allow_inexact=True,
        snapshot_every_seconds=None,
        snapshot_every_steps=1,
        memory_every_seconds=None,
        memory_every_steps=None,
        snapshot_budget=0.01,
        mean_seconds_between_failures=86400.0,
        snapshot_quota_bytes=None,
        snapshots_kept=3,
        deterministic=False,
        tries_versions=True,
    )


def _flat(nested: Any) -> list[float]:
    if not isinstance(nested, list):
        return [nested]
    return [number for part in nested for number in _flat(part)]


def _apart(one: float, other: float) -> float:
    return abs(one - other)
