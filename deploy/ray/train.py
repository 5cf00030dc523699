"""A training run as a task of Ray: lost with its worker or its node, it goes on elsewhere.

``ray job submit --working-dir . -- python train.py --gpus 1 --spec job.toml``: what follows
``--gpus`` is what ``trainwarden run`` is given. ``job.toml`` names a remote tier
(docs/remote.md), or a state directory that all nodes share, one node at a time.
"""

import subprocess
import sys

import ray

DRAINED = 75
"""Its state is saved, and the run is to be gone on with."""
# Ray kills a worker without a word. The supervisor is then asked to drain: two that write to
# one run would fence each other off.
COMMAND = ("setpriv", "--pdeathsig", "TERM", "trainwarden", "run", "--requeued")


class DrainedError(Exception):
    """Ray starts the task again, here or on another node."""


@ray.remote(max_retries=-1, retry_exceptions=[DrainedError])
def train(arguments: list[str]) -> int:
    """The exit code of the run. Raises DrainedError."""
    code = subprocess.run([*COMMAND, *arguments], check=False).returncode
    if code == DRAINED:
        raise DrainedError
    return code


def main() -> int:
    """Wait for the run; its exit code."""
    _, gpus, *arguments = sys.argv[1:]
    return ray.get(train.options(num_gpus=float(gpus)).remote(arguments))


if __name__ == "__main__":
    sys.exit(main())
