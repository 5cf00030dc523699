"""How near an estimate comes to the peak of a real training.

``python -m tests.bench.estimate [--only NAME,…] [--jit 0,1] [--batches 8,32] [--steps 40]
[--patience 600]``

Each row is a script: the reference trainers as they are, and models of
``keras.applications`` without weights, on images of 64 by 64 pixels (75 where the model
takes none smaller). ``estimate`` is what ``trainwarden estimate --json`` says; ``real`` the
highest that the allocator had in use in the first steps of the same script in a process of
its own, without supervision (``estimate_trial``); ``error`` of the estimate, in percent of
the real one. ``without`` is the error of the estimate without its largest trial, which is
most often the batch itself: that by the line through smaller batches alone (a quarter of
the batch at most, as trials lie that far apart). MiB.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.core.memory.step_estimate import StepEstimate
from supervisor.wire.records.estimate_records import ModelMemory, StepMemory

ROOT = Path(__file__).resolve().parents[2]
POOL_MIB = 8192
TARGETS = {"reference": 10.0, "applications": 20.0}
REFERENCE = {
    "digits": 128,
    "gan": 64,
    "own_loop": 64,
    "segmentation": 8,
    "several_devices": 64,
    "text_buckets": 16,
    "transfer": 64,
}
"""And the samples of a batch, for the table alone."""
NOT_COMPILED = {"several_devices"}
"""XLA refuses it, without us too: a variable lies on another device."""
APPLICATIONS = {
    "MobileNetV2": 64,
    "MobileNetV3Small": 64,
    "VGG16": 64,
    "ResNet50": 64,
    "DenseNet121": 64,
    "EfficientNetB0": 64,
    "EfficientNetV2B0": 64,
    "NASNetMobile": 64,
    "Xception": 75,
    "InceptionV3": 75,
}
"""And the side of their images."""
APPLICATION = """
import keras, numpy as np
keras.utils.set_random_seed(1)
shape, batch = ({side}, {side}, 3), {batch}
x = np.random.default_rng(1).random((4 * batch, *shape), "float32")
y = np.random.default_rng(2).integers(0, 10, 4 * batch)
model = keras.applications.{name}(
    weights=None, input_shape=shape, classes=10, classifier_activation=None
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, jit_compile={jit})
model.fit(x, y, batch_size=batch, epochs=1, verbose=0)
"""
HEAD = f"{'':18} batch jit   estimate      real   error  without  seconds"
MIB = 2**20


@dataclass(frozen=True)
class EstimateCase:
    """One row."""

    kind: str
    name: str
    batch: int
    jit: bool
    script: Path
    steps: int
    patience: str

    def estimated(self, state: Path) -> dict[str, Any] | None:
        """The answer of the command; None: it had none, and what it said is printed."""
        flag = ["--jit"] if self.jit and self.name != "own_loop" else []
        command = [
            *[str(Path(sys.executable).parent / "trainwarden"), "estimate"],
            *["--state-dir", str(state), "--json", *flag],
            *["--patience", self.patience, str(self.script)],
        ]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            print(f"{self.name}: {done.stderr.strip().splitlines()[-1:]}", flush=True)
            return None
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def real(self) -> int | None:
        """Bytes in use at most, in either of two real trainings; None: both failed.

        Whether an array is copied into TensorFlow's memory depends on where it lies. What XLA
        has compiled, which takes minutes, needs the same each time: one training then.
        """
        trainings = 1 if self.jit else 2
        peaks = (self._real() for _ in range(trainings))
        return max((one for one in peaks if one is not None), default=None)

    def _real(self) -> int | None:
        command = [
            *[sys.executable, "-m", "tests.bench.estimate_trial", str(self.steps)],
            *["1" if self.jit else "-", str(POOL_MIB), str(self.script)],
        ]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False
        )
        peaks = [line for line in done.stdout.splitlines() if line.startswith("PEAK ")]
        return int(peaks[-1].split()[1]) if peaks else None


def without_largest(answer: dict[str, Any]) -> int | None:
    """The peak of the same batch by all trials but the largest; None: too few."""
    trials = [StepMemory.from_json(one) for one in answer["trials"][:-1]]
    model = ModelMemory.from_json(answer["model"])
    steps = tuple(one for one in trials if one is not None)
    if model is None or len(steps) < 2:
        return None
    return StepEstimate(model=model, steps=steps).peak(answer["batch"])


def row(case: EstimateCase, state: Path) -> str:
    """One line of the table."""
    head = f"{case.name:18} {case.batch:5} {'on' if case.jit else 'off':3}"
    answer = case.estimated(state)
    real = case.real()
    if answer is None or real is None:
        return f"{head}   {'no estimate' if answer is None else 'the training failed'}"
    peak, smaller = answer["peak_bytes"], without_largest(answer)
    error = 100 * (peak - real) / real
    less = "" if smaller is None else f"{100 * (smaller - real) / real:+8.1f}"
    missed = "" if abs(error) <= TARGETS[case.kind] else "   missed"
    figures = f"{peak / MIB:9.1f} {real / MIB:9.1f} {error:+7.1f} {less:8}"
    return f"{head}  {figures} {answer['seconds']:7.0f}{missed}"


def cases(given: argparse.Namespace, directory: Path) -> Iterator[EstimateCase]:
    """All rows that were asked for."""
    jits = [text == "1" for text in given.jit.split(",")]
    for name, batch in REFERENCE.items():
        script = ROOT / "trainers" / "reference" / f"{name}.py"
        for jit in jits:
            if jit and name in NOT_COMPILED:
                continue
            yield EstimateCase(
                "reference", name, batch, jit, script, given.steps, given.patience
            )
    for name, side in APPLICATIONS.items():
        for batch in map(int, given.batches.split(",")):
            for jit in jits:
                script = directory / f"{name}_{batch}_{jit}.py"
                script.write_text(
                    APPLICATION.format(name=name, side=side, batch=batch, jit=jit)
                )
                steps = max(given.steps // 4, 4)
                yield EstimateCase(
                    "applications", name, batch, jit, script, steps, given.patience
                )


def main() -> None:
    """Print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names of rows, between commas")
    parser.add_argument("--jit", default="0")
    parser.add_argument("--batches", default="8,32")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument(
        "--patience",
        default="600",
        help="seconds for each estimate; on a busy machine XLA compiles for longer",
    )
    given = parser.parse_args()
    only = given.only and given.only.split(",")
    packages = ROOT / ".venv" / "script-packages"
    if packages.exists():
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = f"{packages}{os.pathsep}{before}".rstrip(os.pathsep)
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as directory:
        for case in cases(given, Path(directory)):
            if not only or case.name in only:
                print(row(case, Path(directory) / "state"), flush=True)


if __name__ == "__main__":
    main()
