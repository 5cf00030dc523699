"""Twenty trainings that grow and settle: is any of them taken for a leak?

``make bench-false-alarms``, or ``python -m tests.bench.false_alarms [--seeds 1,2]``. A table of
what they grew to, and exit code 1 after a false alarm.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.support.command import Trainwarden
from tests.support.settling import KINDS, Settled, settle


def run(kind: str, seed: int) -> Settled:
    """One of them, in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        return settle(Trainwarden(path, path / "state"), kind, seed)


def main() -> int:
    """Run them all and print the table; 1 after a false alarm."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    print(f"{'kind':<22} seed  steps  seconds  peak of tensors  main memory  result")
    alarms = 0
    for kind in options.kinds.split(","):
        for seed in map(int, options.seeds.split(",")):
            began = time.monotonic()
            found = run(kind, seed)
            seconds = time.monotonic() - began
            well = found.code == 0 and not found.happened
            alarms += not well
            said = "left alone" if well else ", ".join(found.happened) or found.out
            print(
                f"{kind:<22} {seed:>4} {found.steps:>6} {seconds:>8.1f}"
                f" {found.peak_part:>16.0%} {found.rss_part:>12.0%}  {said}",
                flush=True,
            )
    print(f"{alarms} false alarms")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
