"""Starts attempts in a Python of their own: what a zygote does, slower, for scripts that
must find nothing imported."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.script_packages import SCRIPT_PACKAGES

LAUNCH = Path(__file__).parents[2] / "trainers" / "launch.py"
PATIENCE = 600.0


def with_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """What such a Python begins with."""
    ours = {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(SCRIPT_PACKAGES),
    }
    return {**os.environ, **ours, **environment}


class Fresh:
    """Takes the orders of a ``Zygote``."""

    def run(
        self,
        *,
        cwd: str,
        environment: Mapping[str, str],
        output: str,
        launch: str | None = None,
        script: str | None = None,
        args: Sequence[str] = (),
    ) -> int:
        """One attempt to its end: its exit code; negative: the signal."""
        command = [str(LAUNCH), launch] if launch else [script or "", *args]
        with Path(output).open("ab") as file:
            done = subprocess.run(
                [sys.executable, *command],
                cwd=cwd,
                env=with_ours(environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                check=False,
                timeout=PATIENCE,
            )
        return done.returncode
