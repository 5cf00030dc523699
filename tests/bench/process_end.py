"""What the end of a process takes: from the last line of a script to the process's end.

``make bench-process-end``, or ``python -m tests.bench.process_end [--rounds 5]``

The script searches: several models, each with a ``fit`` of its own, as hyper-parameter
searches are. In turns it is run by plain Python, under supervision, and under supervision
with a kill in the middle, so that its end is one of a resumed attempt. A row is the median
of each, with the least and the most, and the median of the ratios to plain Python of the
same round.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = """
import os, sys, time
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def tell(what):
    os.write(out, f"{what} {os.getpid()} {time.monotonic()}\\n".encode())
tell("begun")
import keras, numpy as np
keras.utils.set_random_seed(1)
x = np.random.rand(2048, 64).astype("float32")
y = np.random.randint(0, 10, 2048)
best = 0.0
for trial, units in enumerate((16, 32, 64, 128, 256, 512)):
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(units, "relu"),
        keras.layers.Dropout(0.2), keras.layers.Dense(10, "softmax")])
    model.compile("adam", "sparse_categorical_crossentropy",
        metrics=["accuracy"])
    found = model.fit(x, y, epochs=2, validation_split=0.2, verbose=0)
    best = max(best, found.history["val_accuracy"][-1])
    tell(f"trial-{trial}")
tell("ended")
"""
KINDS = ("plain", "supervised", "resumed")
KILLED_AFTER = "trial-2"
PATIENCE_SECONDS = 600.0
COMMAND = Path(sys.executable).with_name("trainwarden")


class EndingRun:
    """One run of the script, and what it tells of itself."""

    def __init__(self, place: Path, kind: str) -> None:
        place.mkdir()
        script, self._told = place / "search.py", place / "told"
        script.write_text(SCRIPT)
        self._kind, self._place = kind, place
        state = ["--state-dir", str(place / "state")]
        ours = [str(COMMAND), "run", *state, str(script), str(self._told)]
        plain = [sys.executable, str(script), str(self._told)]
        self._command = plain if kind == "plain" else ours

    def seconds(self) -> float:
        """From the script's last line to the end of its process."""
        with (self._place / "output").open("wb") as output:
            process = subprocess.Popen(
                self._command, cwd=self._place, stdout=output, stderr=output
            )
        try:
            pid = self._wait_for("begun", process)
            if self._kind == "resumed":
                self._wait_for(KILLED_AFTER, process)
                os.kill(pid, signal.SIGKILL)
                pid = self._wait_for("begun", process, not_of=pid)
            ended = self._end_of(pid)
            (said,) = (
                line.split() for line in self._lines() if line.startswith("ended")
            )
            return ended - float(said[2])
        finally:
            process.wait(PATIENCE_SECONDS)

    def _end_of(self, pid: int) -> float:
        """When it ended, in monotonic seconds: its handle is waited for, not asked."""
        handle = os.pidfd_open(pid)
        try:
            waiting = select.poll()
            waiting.register(handle, select.POLLIN)
            if not waiting.poll(PATIENCE_SECONDS * 1000):
                sys.exit(f"the script did not end; see {self._place / 'output'}")
            return time.monotonic()
        finally:
            os.close(handle)

    def _wait_for(
        self, what: str, process: subprocess.Popen[bytes], not_of: int | None = None
    ) -> int:
        """The process that told it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            for line in self._lines():
                told, pid, _at = line.split()
                if told == what and int(pid) != not_of:
                    return int(pid)
            time.sleep(0.02)
        sys.exit(f"{what} was not told; see {self._place / 'output'}")

    def _lines(self) -> list[str]:
        whole = self._told.read_text() if self._told.exists() else ""
        return whole.split("\n")[:-1]


def main() -> None:
    """Rounds of all three; the last table is what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(rounds):
        for kind in KINDS if number % 2 == 0 else reversed(KINDS):
            with tempfile.TemporaryDirectory() as room:
                found[kind].append(EndingRun(Path(room) / "run", kind).seconds())
        print(*(f"{kind} {took[-1]:.2f} s" for kind, took in found.items()), sep="  ")
    print("\nseconds from the last line of the script to the end of its process")
    for kind, took in found.items():
        ratios = [one / plain for one, plain in zip(took, found["plain"], strict=True)]
        print(
            f"{kind:<10} {statistics.median(took):5.2f} "
            f"({min(took):.2f} to {max(took):.2f}), "
            f"{statistics.median(ratios):.2f} times plain Python"
        )


if __name__ == "__main__":
    main()
