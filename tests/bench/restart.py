"""What a kill costs: from SIGKILL to the first step that was not done before.

``make bench-restart``, or ``python -m tests.bench.restart [--pairs 3] [--of WHAT] [MODEL...]``

Each model is compiled by XLA. A pair is one kill of a plain run and one of a run that has
what is compared, in turns (in the order ABBA), so that a machine that is busy for a while
is so for both: ``cache``, what XLA compiled is kept (``[compilation] cache``); ``standby``,
the next attempt has imported already and waits (``[restart] standby``). A row is the median
of either, and of the ratios of the pairs, with the least and the most.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

SCRIPT = """
import os, sys, time
import keras, numpy as np

keras.utils.set_random_seed(1)
layers = keras.layers
model_name, told = sys.argv[1:]
if model_name == "small":
    shape, batch = (16, 16, 3), 32
    model = keras.Sequential([keras.Input(shape), layers.Conv2D(8, 3, activation="relu"),
        layers.BatchNormalization(), layers.Flatten(), layers.Dense(10, "softmax")])
else:
    shape, batch = (64, 64, 3), 8
    model = keras.applications.MobileNetV2(input_shape=shape, weights=None, classes=10)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(), jit_compile=True)
x = np.random.rand(512, *shape).astype("float32")
y = np.random.randint(0, 10, 512)
out = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


class Tells(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        step = int(self.model.optimizer.iterations)
        os.write(out, f"{os.getpid()} {step} {time.monotonic()}\\n".encode())
        time.sleep(0.2)


model.fit(x, y, batch_size=batch, epochs=10**6, verbose=0, callbacks=[Tells()])
"""
MODELS = ("small", "mobilenet")
COMPARED = {
    "cache": "[compilation]\ncache = {}\n",
    "standby": "[restart]\nstandby = {}\n",
}
WAITS = "a standby waits"
PATIENCE_SECONDS = 900.0
STEPS = 12
"""After so many steps of an attempt it is killed: what was compiled is kept by then."""
COMMAND = Path(sys.executable).with_name("trainwarden")


class RestartStep(NamedTuple):
    """A step that was done."""

    pid: int
    step: int
    at: float
    """Monotonic seconds."""


class RestartedJob:
    """One job, started again for each kill."""

    def __init__(self, place: Path, model: str, compared: str, *, on: bool) -> None:
        place.mkdir()
        self._stands_by = on and compared == "standby"
        self._told = place / "told"
        (place / "train.py").write_text(SCRIPT)
        spec = place / "spec.toml"
        spec.write_text(COMPARED[compared].format(str(on).lower()))
        run = ["run", "--state-dir", str(place / "state"), "--spec", str(spec)]
        self._command = [str(COMMAND), *run, "train.py", model, str(self._told)]
        self._place = place

    def killed(self) -> float:
        """Seconds from a kill to the first new step."""
        with (self._place / "output").open("ab") as output:
            process = subprocess.Popen(
                self._command, cwd=self._place, stdout=output, stderr=output
            )
        try:
            done = self._steps_of(process, not_of=self._pids(), count=STEPS)
            if self._stands_by:
                self._wait_for_standby(process)
            before, began = max(one.step for one in self._steps()), time.monotonic()
            os.kill(done[-1].pid, signal.SIGKILL)
            pids = self._pids()
            while True:
                new = self._steps_of(process, not_of=pids, count=1)
                first = next((one for one in new if one.step > before), None)
                if first is not None:
                    return first.at - began
                time.sleep(0.02)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_SECONDS)

    def _wait_for_standby(self, process: subprocess.Popen[bytes]) -> None:
        """Until it has imported; what it takes is printed."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            for told in (self._place / "state").rglob("standby.json"):
                text = told.read_text()
                if WAITS in text:
                    print(f"  {json.loads(text)['sentence']}", file=sys.stderr)
                    return
            time.sleep(0.1)
        sys.exit(f"no standby came; see {self._place / 'output'}")

    def _pids(self) -> set[int]:
        return {one.pid for one in self._steps()}

    def _steps_of(
        self, process: subprocess.Popen[bytes], *, not_of: set[int], count: int
    ) -> list[RestartStep]:
        """Those of a new attempt, once there are so many."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            found = [one for one in self._steps() if one.pid not in not_of]
            if len(found) >= count:
                return found
            time.sleep(0.02)
        sys.exit(f"no step came; see {self._place / 'output'}")

    def _steps(self) -> list[RestartStep]:
        try:
            lines = self._told.read_text().splitlines()
        except FileNotFoundError:
            return []
        parts = [line.split() for line in lines]
        return [RestartStep(int(pid), int(step), float(at)) for pid, step, at in parts]


def row(model: str, pairs: list[tuple[float, float]]) -> str:
    """What the table says of a model."""
    without, with_it = zip(*pairs, strict=True)
    ratios = sorted(ours / theirs for theirs, ours in pairs)
    return (
        f"{model:10} {statistics.median(without):8.1f} s {statistics.median(with_it):8.1f} s"
        f"   {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3, help="of kills")
    parser.add_argument(
        "--of", choices=COMPARED, default="cache", help="what is compared"
    )
    parser.add_argument("models", nargs="*", default=MODELS)
    asked = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    print(f"kill to the first new step: without, with {asked.of}, ratio")
    with tempfile.TemporaryDirectory() as place:
        for model in asked.models:
            jobs = [
                RestartedJob(Path(place) / f"{model}-{on}", model, asked.of, on=on)
                for on in (False, True)
            ]
            pairs: list[tuple[float, float]] = []
            for number in range(asked.pairs):
                order = jobs if number % 2 == 0 else jobs[::-1]
                seconds = {job: job.killed() for job in order}
                pairs.append((seconds[jobs[0]], seconds[jobs[1]]))
                print(f"  {model} pair {number + 1}: {pairs[-1]}", file=sys.stderr)
            print(row(model, pairs), flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
