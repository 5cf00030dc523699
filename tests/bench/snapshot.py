"""What a snapshot costs: the stall, the whole of it, and the speed of a training.

``make bench-snapshot``, or ``python -m tests.bench.snapshot [--sizes 10,200,1000]
[--repeats 7] [--seconds 240]``

For each size of state, in one process and in turn (so that a busy machine is busy for
all): a plain copy of the same bytes into memory that is there already, our snapshot, and
what Keras has. The optimizer is plain SGD: each of them then saves the same bytes.
``stall`` is how long the training thread waits, ``total`` until the snapshot is whole
where it goes (ours: on disk, fsynced and verifiable; Keras: handed to the system).

Then three real trainings (a small model, the same run eagerly, a large one): short windows
with one snapshot at their beginning and windows without take turns. By what the former
take longer, and by the intervals that the planner chooses, follows the share of the time
that supervision takes: at the default budget it should not be above 1 %. (Short windows,
as a machine's speed wanders by a third within a minute: two windows of some seconds with
planned snapshots and without differ by that, and not by one percent.)
"""

# ruff: noqa: T201  # printing is the job

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from supervisor.wire.messages.directive import Directive
from supervisor.wire.snapshots.manifest import FORMAT, Manifest
from trainers.backends.tensorflow import tensor_values
from trainers.fit import supervised
from trainers.process.attempt_reporting import Attempt
from trainers.snapshots.durable_store import Store
from trainers.snapshots.memory_store import MemoryTier
from trainers.snapshots.schedule import Interval, IntervalPlan, SnapshotSchedule
from trainers.snapshots.writer import Saved, SnapshotWriter
from trainers.state import fit_state

ARRAYS = 50
Timed = Callable[[], tuple[float, float]]
"""Saves once; returns the seconds of stall, and in all."""


def model_of(megabytes: float) -> Any:
    """A model whose ``ARRAYS`` matrices hold so many MB (10^6 bytes)."""
    side = int((megabytes * 1e6 / 4 / ARRAYS) ** 0.5)
    layers = [keras.layers.Dense(side, use_bias=False) for _ in range(ARRAYS)]
    model = keras.Sequential([keras.Input((side,)), *layers])
    model.compile(keras.optimizers.SGD(), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def whole(action: Callable[[], Any]) -> Timed:
    """Something that the training thread does itself: all of it is stall."""

    def timed() -> tuple[float, float]:
        began = time.perf_counter()
        action()
        seconds = time.perf_counter() - began
        return seconds, seconds

    return timed


def plain_copy(model: Any) -> Timed:
    """NumPy arrays of the model's size into others, both touched before."""
    source = [tensor_values.array_of(variable).copy() for variable in model.variables]
    target = [array.copy() for array in source]

    def copy() -> None:
        for there, here in zip(target, source, strict=True):
            np.copyto(there, here)

    return whole(copy)


class Ours:
    """Our snapshots as ``fit`` takes them, to both tiers."""

    def __init__(self, model: Any, directory: Path, memory: Path) -> None:
        self.model = model
        self.store = Store(directory, job="bench", kept=2)
        tier = MemoryTier(memory, job="bench", durable=directory)
        self.told: list[Saved] = []
        self.saver = SnapshotWriter(self.store, self.told.append, memory=tier)
        self.tier = tier
        self._serial = 0

    def save(self) -> tuple[float, float]:
        """One snapshot, as at a step boundary."""
        self._serial += 1
        began = time.perf_counter()
        state, tensors, _ = fit_state.capture(self.model, [], {"logs": {"loss": 1.0}})
        manifest = Manifest(
            format=FORMAT, job="bench", attempt=1, serial=self._serial,
            step=self._serial, fit=0, fit_done=False, epoch=0, step_in_epoch=0,
            batch=1, samples=0, slices=1, tensors_bytes=0, tensors_hash="",
            wall_time=0.0, state=state,
        )  # fmt: skip
        self.saver.save(tensors, manifest, began=began)
        stall = time.perf_counter() - began  # with the start of the saving thread
        self.saver.wait()
        errors = [saved.error for saved in self.told if saved.error is not None]
        assert not errors, errors
        return stall, time.perf_counter() - began

    def in_memory_seconds(self) -> float:
        """From the stop of training to whole in memory, of the newest."""
        return next(s.seconds for s in reversed(self.told) if s.tier == "memory")


def backup(model: Any, directory: Path) -> Timed:
    """Keras' BackupAndRestore at the end of an epoch."""
    callback = keras.callbacks.BackupAndRestore(str(directory / "backup"))
    callback.set_model(model)
    callback.on_train_begin()
    return whole(lambda: callback.on_epoch_end(0, {}))


def checkpoint(model: Any, path: Path) -> Timed:
    """Keras' ModelCheckpoint of the whole model at the end of an epoch."""
    callback = keras.callbacks.ModelCheckpoint(str(path))
    callback.set_model(model)
    return whole(lambda: callback.on_epoch_end(0, {}))


def orbax(model: Any, directory: Path) -> Timed | None:
    """Orbax' asynchronous checkpointer, if it is installed.

    ``make bench-snapshot`` puts it into a directory of its own, looked at last, so that
    nothing else sees what it brings.
    """
    sys.path.append(str(Path(sys.prefix) / "orbax"))
    if find_spec("orbax") is None or find_spec("orbax.checkpoint") is None:
        return None
    ocp = import_module("orbax.checkpoint")  # optional: no import that must succeed
    saver = ocp.AsyncCheckpointer(ocp.StandardCheckpointHandler())

    def timed() -> tuple[float, float]:
        began = time.perf_counter()
        arrays = [tensor_values.array_of(v).copy() for v in model.variables]
        values = {str(index): array for index, array in enumerate(arrays)}
        saver.save(directory / "orbax", args=ocp.args.StandardSave(values), force=True)
        stall = time.perf_counter() - began
        saver.wait_until_finished()
        return stall, time.perf_counter() - began

    return timed


def compare(megabytes: float, repeats: int, directory: Path, memory: Path) -> None:
    """Print the table of one size."""
    keras.utils.clear_session()
    model = model_of(megabytes)
    ours = Ours(model, directory / "ours", memory)
    rows: dict[str, Timed | None] = {
        "plain copy": plain_copy(model),
        "Trainwarden": ours.save,
        "save_weights": whole(lambda: model.save_weights(directory / "w.weights.h5")),
        "BackupAndRestore": backup(model, directory),
        "ModelCheckpoint": checkpoint(model, directory / "m.keras"),
        "Orbax, asynchronous": orbax(model, directory),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
    inside: list[float] = []
    for repeat in range(repeats + 2):
        for name, timed in rows.items():
            found = timed() if timed is not None else (0.0, 0.0)
            if repeat >= 2:  # both slots, and every file, were there once
                times[name].append(found)
        inside.append(ours.in_memory_seconds())
    nbytes = ours.told[-1].nbytes
    print(f"\n{nbytes / 1e6:.0f} MB of state in {ARRAYS} arrays, {repeats} times each")
    print("                        stall (fastest)   of copy      total   of copy")
    base = statistics.median(total for _, total in times["plain copy"])
    for name, timed in rows.items():
        if timed is None:
            print(f"{name:20}  left out: it is not installed")
            continue
        stalls, totals = zip(*times[name], strict=True)
        pairs = zip(stalls, times["plain copy"], strict=True)
        ratio = statistics.median(stall / copy for stall, (_, copy) in pairs)
        total = statistics.median(totals)
        print(
            f"{name:20}{statistics.median(stalls) * 1e3:8.1f} ms {min(stalls) * 1e3:7.1f}"
            f" {ratio:8.2f} x {total * 1e3:9.1f} ms {total / base:7.1f} x"
        )
    seconds = statistics.median(inside[2:])
    print(f"  (whole in memory after {seconds * 1e3:.1f} ms: hashed and named)")
    ours.tier.close()
    ours.store.close()


@dataclass(slots=True)
class Window:
    """A stretch of training, without an epoch's end."""

    steps: int = 0
    seconds: float = 0.0
    used: float = 0.0
    """Processor time of the whole process, in seconds."""

    def lost(self, plain: "Window") -> float:
        """Seconds that its steps took longer than those of ``plain``."""
        return self.seconds - self.steps * plain.seconds / plain.steps

    def used_more(self, plain: "Window") -> float:
        """Seconds of processor time that its steps took more than those of ``plain``."""
        return self.used - self.steps * plain.used / plain.steps


KINDS = ("none", "memory", "both")
ROUNDS = 10
"""With fewer a training is left out."""


class Windows(keras.callbacks.Callback):
    """Windows with no snapshot, with one in memory, and with one in both tiers; each of
    those is taken as its window begins. Every round has one of each, turned about.

    A window takes so many ``seconds``, half of an epoch at most: else a fast machine would
    end none.
    """

    def __init__(self, attempt: Attempt, *, seconds: float, rounds: int) -> None:
        super().__init__()
        self._attempt, self._seconds, self._rounds = attempt, seconds, rounds
        self._kept = os.memfd_create("rounds")
        """Where they are kept: in a list they would be state of this callback, which each
        snapshot has, and takes the longer the more there are."""
        self._count = 0
        self.plan: IntervalPlan | None = None
        self.following = 0.0
        self._present = {kind: Window() for kind in KINDS}
        self._left: list[str] = []
        self._planned: SnapshotSchedule | None = None
        self._taken = -1
        """The serial number of the last snapshot."""
        self._window: Window | None = None
        self._began, self._used = 0.0, 0.0

    @property
    def rounds(self) -> list[dict[str, Window]]:
        """All but the first, which warms up."""
        lines = Path(f"/proc/self/fd/{self._kept}").read_text().splitlines()
        found = [json.loads(line) for line in lines[1:]]
        return [{kind: Window(**one[kind]) for kind in KINDS} for one in found]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras'
        """What an epoch's end costs is in no window: the present one begins anew."""
        self._window = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras'
        """Count; change over when the window is over."""
        session = supervised.session_of(self._attempt)
        self._planned = planned = self._planned or session.schedule
        if session._serial != self._taken:  # noqa: SLF001  # the window's snapshot is taken
            self._taken = session._serial  # noqa: SLF001  # as above
            session.schedule = _taking(planned, "none")
        now, used = time.perf_counter(), time.process_time()
        if self._window is not None:
            self._window.steps += 1
            several = self._window.steps < self.params["steps"] // 2
            if several and now - self._began < self._seconds:
                return
            self._window.seconds = now - self._began
            self._window.used = used - self._used
            self._present[self._left.pop()] = self._window
        if not self._left:
            self._next_round(session, planned)
        if not self.model.stop_training:
            session.schedule = _taking(planned, self._left[-1])
        self._window, self._began, self._used = Window(), now, used

    def _next_round(self, session: Any, planned: SnapshotSchedule) -> None:
        if self._present["none"].steps:
            found = {kind: asdict(one) for kind, one in self._present.items()}
            os.write(self._kept, json.dumps(found).encode() + b"\n")
            self._count += 1
        self._present = {kind: Window() for kind in KINDS}
        turn = self._count % len(KINDS)
        self._left = [*KINDS[turn:], *KINDS[:turn]]
        if self._count == self._rounds + 1:
            self.model.stop_training = True
            self.following = session._steps.following  # noqa: SLF001  # what it came to
            costs = replace(session._measured.costs, following=self.following)  # noqa: SLF001
            self.plan = planned.plan(costs)


def _taking(planned: SnapshotSchedule, kind: str) -> SnapshotSchedule:
    """The schedule that takes a snapshot of ``kind`` at the next boundary."""
    now, never = Interval(seconds=0.0), Interval(seconds=1e12)
    return replace(
        planned,
        memory=never if kind == "none" else now,
        durable=now if kind == "both" else never,
    )


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """The mean without the outermost tenth at each end, and its standard error (Tukey and
    McLaughlin, 1963)."""
    ordered = sorted(values)
    cut = len(ordered) // 10
    inner = ordered[cut : len(ordered) - cut]
    winsorized = [min(max(value, inner[0]), inner[-1]) for value in values]
    error = statistics.stdev(winsorized) / (0.8 * len(values) ** 0.5)
    return statistics.mean(inner), error


def speed(name: str, model: Any, data: Any, directory: Path, **options: Any) -> None:
    """Print what planned snapshots cost the training of ``model``."""
    paths = directory / "attempt"
    paths.mkdir()
    attempt = Attempt(directive(paths, directory))
    windows = Windows(attempt, **options)
    arguments = {"epochs": 10**6, "verbose": 0, "callbacks": [windows]}
    original = keras.Model.fit
    with supervised.fit(attempt, original, model, data, arguments) as train:
        train()
    session = supervised.session_of(attempt)
    session.saver.wait()
    if session.memory is not None:
        session.memory.close()
    plan, rounds = windows.plan, windows.rounds
    assert plan is not None
    assert plan.memory_seconds is not None
    assert plan.durable_seconds is not None
    plain = [one["none"] for one in rounds]
    rate = statistics.median(one.steps / one.seconds for one in plain)
    print(f"\n{name}: {rate:.1f} steps/s without snapshots ({len(rounds)} rounds)")
    share, error = windows.following, 0.0
    print(f"  following each step takes {share:.2%} of it, by its own count")
    for kind, tier, planned in (
        ("memory", "memory", plan.memory_seconds),
        ("both", "disk and memory", plan.durable_seconds),
    ):
        kept = [one[kind] for one in rounds]
        pairs = list(zip(kept, plain, strict=True))
        lost, scatter = mean_and_error([one.lost(other) for one, other in pairs])
        used, of_used = mean_and_error([one.used_more(other) for one, other in pairs])
        print(
            f"  one to {tier} costs training {lost * 1e3:.2f} ms (standard error"
            f" {scatter * 1e3:.2f}), processor time {used * 1e3:.2f} ms ({of_used * 1e3:.2f});"
            f" one every {planned:.2f} s: {lost / planned:.2%} (+- {scatter / planned:.2%})"
        )
        # One on disk stands for one in memory, too: its whole cost is a little too much.
        share += lost / planned
        error = (error**2 + (scatter / planned) ** 2) ** 0.5
    print(f"  together {share:.2%} (+- {error:.2%}) of the time; {plan.because}")


def directive(attempt: Path, directory: Path) -> Directive:
    """A run with both tiers, planned."""
    return Directive(
        run_id="bench", job="bench", attempt=1, script=__file__, args=(),
        attempt_directory=str(attempt), snapshot_directory=str(directory / "snapshots"),
        memory_directory=f"/dev/shm/trainwarden-bench-{os.getpid()}", seed=1,  # noqa: S108  # the real one
        restore=True, restore_before_step=None, slice_size=None, calibrate=False,
        slice_ceiling=None, memory_limit_bytes=None, gpu_memory_limit_bytes=None,
        gpu_memory_growth=True, allow_inexact=True, snapshot_every_seconds=None,
        snapshot_every_steps=None, memory_every_seconds=None, memory_every_steps=None,
        snapshot_budget=0.01, mean_seconds_between_failures=86400.0,
        snapshot_quota_bytes=None, snapshots_kept=3, deterministic=False,
        accept_changes=False,
    )  # fmt: skip


def small(*, eagerly: bool = False) -> tuple[Any, Any]:
    """State of 0.6 MB, steps of a few ms."""
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=eagerly)
    rng = np.random.default_rng(1)
    return model, (rng.normal(size=(20000, 64)), rng.integers(0, 10, 20000))


def large() -> tuple[Any, Any]:
    """State of 60 MB, steps of some 50 ms."""
    model = keras.Sequential(
        [
            keras.Input((1024,)),
            *[keras.layers.Dense(1600, activation="relu") for _ in range(2)],
            keras.layers.Dense(512),
        ]
    )
    model.compile("adam", "mse")
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(4096, 1024)), rng.normal(size=(4096, 512))
    return model, (x.astype(np.float32), y.astype(np.float32))


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10,200,1000", help="MB, or nothing")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=240, help="of each training")
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    for size in filter(None, options.sizes.split(",")):
        directory = Path(tempfile.mkdtemp(prefix="trainwarden-bench-"))
        memory = Path(f"/dev/shm/trainwarden-bench-{os.getpid()}")  # noqa: S108  # the real one
        compare(float(size), options.repeats, directory, memory)
        shutil.rmtree(directory)
    eager = partial(small, eagerly=True)
    for name, made, window in (
        ("small", small, 0.3),
        ("eager", eager, 0.6),
        ("large", large, 2.0),
    ):
        rounds = int(options.seconds / window / len(KINDS))
        if rounds < ROUNDS:
            print(f"\n{name}: left out, too few seconds for {ROUNDS} rounds")
        else:
            keras.utils.clear_session()
            directory = Path(tempfile.mkdtemp(prefix="trainwarden-bench-"))
            model, data = made()
            speed(name, model, data, directory, seconds=window, rounds=rounds)
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
