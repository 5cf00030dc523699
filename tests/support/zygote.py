"""Forks attempts from one process that has imported TensorFlow (see its own file)."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

PROCESS = Path(__file__).with_name("zygote_process.py")
OTHER_BACKENDS = Path(sys.prefix) / "other-backends"
"""Where ``make .venv/other-backends`` installs them."""
TORCH = Path(sys.prefix) / "torch-backend"
"""The same of PyTorch."""
PACKAGES = {"jax": OTHER_BACKENDS, "torch": TORCH}
PATIENCE = 600.0


@dataclass(frozen=True)
class Zygote:
    """A process to fork from."""

    orders: IO[str]
    answers: IO[str]

    def run(self, **order: Any) -> int:
        """One attempt to its end: its exit code; negative: the signal."""
        self.orders.write(json.dumps(order) + "\n")
        self.orders.flush()
        # One line an attempt: nothing is left in the buffer of the one before.
        assert select.select([self.answers], [], [], PATIENCE)[0], order
        return os.waitstatus_to_exitcode(int(self.answers.readline()))

    def run_plain(self, script: Path, *args: str) -> None:
        """A script by Python alone, in its own directory, to a good end: what a run that
        was disturbed has to agree with."""
        output = script.with_suffix(".plain.txt")
        code = self.run(
            script=str(script),
            args=args,
            cwd=str(script.parent),
            environment={},
            output=str(output),
        )
        assert code == 0, output.read_text()


@contextmanager
def zygote(backend: str = "tensorflow") -> Generator[Zygote]:
    """Start one, and end it; Keras computes with ``backend``."""
    ours = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONHASHSEED": "0"}
    environment = {**os.environ, **ours, "KERAS_BACKEND": backend}
    if backend in PACKAGES:
        environment["PYTHONPATH"] = str(PACKAGES[backend])
    with subprocess.Popen(
        [sys.executable, str(PROCESS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield Zygote(process.stdin, process.stdout)
        finally:
            process.stdin.close()
