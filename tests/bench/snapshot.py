"""What a snapshot costs: the stall, the whole of it, and the speed of a training.

``make bench-snapshot``, or ``python -m tests.bench.snapshot [--sizes 10,200,1000]
[--repeats 7] [--seconds 240]``

For each size of state, in one process and in turn (so that a busy machine is busy for
all): a plain copy of the same bytes into memory that is there already, our snapshot, and
what Keras has. The optimizer is plain SGD: each of them then saves the same bytes.
``stall`` is how long the training thread waits, ``total`` until the snapshot is whole
where it goes (ours: on disk, fsynced and verifiable; Keras: handed to the system).

Then three real trainings (a small model, the same run eagerly, a large one), in which
windows with planned snapshots and windows without any alternate. (At the default budget the
loss should not be above 1 %.)
"""

# ruff: noqa: T201  # printing is the job

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
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


class Windows(keras.callbacks.Callback):
    """Snapshots on and off in turn (ABBA), and how fast training was in each."""

    def __init__(self, attempt: Attempt, *, seconds: float, pairs: int) -> None:
        super().__init__()
        self._attempt, self._seconds, self._left = attempt, seconds, 2 * pairs
        self.rates: dict[bool, list[float]] = {True: [], False: []}
        self.used: dict[bool, list[float]] = {True: [], False: []}
        """Processor time of the whole process a step, in seconds."""
        self._used = 0.0
        self._on: SnapshotSchedule | None = None
        self.plan: IntervalPlan | None = None
        self._steps, self._began, self._number = 0, 0.0, -1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras'
        """Count; change over when the window is over."""
        self._steps += 1
        if self._began and time.perf_counter() - self._began < self._seconds:
            return
        now = time.perf_counter()
        if self._number >= 0:
            self.rates[self._is_on].append(self._steps / (now - self._began))
            used = time.process_time() - self._used
            self.used[self._is_on].append(used / self._steps)
        elif self._began == 0.0:  # the first window warms up
            self._began, self._steps = now, 0
            return
        self._number += 1
        if self._number == self._left:
            self.model.stop_training = True
        session = supervised.session_of(self._attempt)
        if session.schedule.memory is not None:
            self.plan = session._plan()  # noqa: SLF001  # what it came to
        self._on = self._on or session.schedule
        off = replace(self._on, memory=None, durable=Interval(seconds=1e12))
        session.schedule = self._on if self._is_on else off
        self._began, self._steps = time.perf_counter(), 0
        self._used = time.process_time()

    @property
    def _is_on(self) -> bool:
        return self._number % 4 in (1, 2)


def speed(name: str, model: Any, data: Any, directory: Path, **options: Any) -> None:
    """Print how much slower ``model`` trains with planned snapshots."""
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
    on, off = windows.rates[True], windows.rates[False]
    ratios = sorted(b / a for a, b in zip(on, off, strict=False))
    plan = windows.plan
    assert plan is not None
    assert plan.memory_seconds is not None
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    print(f"\n{name}: {statistics.median(off):.1f} steps/s without snapshots")
    print(
        f"  with: step time x {statistics.median(ratios):.4f} (median of {len(ratios)}"
        f" pairs; quartiles {low:.4f} to {high:.4f}); all steps together x"
        f" {statistics.mean(off) / statistics.mean(on):.4f}"
    )
    pairs = zip(windows.used[True], windows.used[False], strict=False)
    used = sorted(a / b for a, b in pairs)
    low, high = used[len(used) // 4], used[-1 - len(used) // 4]
    print(
        f"  processor time of a step, all threads: x {statistics.median(used):.4f}"
        f" (quartiles {low:.4f} to {high:.4f}): what others do here matters less to it"
    )
    print(f"  to memory every {plan.memory_seconds:.2f} s, {plan.because}")


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
        ("small", small, 2.0),
        ("eager", eager, 4.0),
        ("large", large, 10.0),
    ):
        pairs = int(options.seconds / window / 2)
        if pairs:
            keras.utils.clear_session()
            directory = Path(tempfile.mkdtemp(prefix="trainwarden-bench-"))
            model, data = made()
            speed(name, model, data, directory, seconds=window, pairs=pairs)
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
