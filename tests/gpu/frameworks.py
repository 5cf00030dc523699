"""Whether a framework that a check needs is installed, and sees a GPU."""

import functools
import importlib.util
import os
import subprocess
import sys

ASKED = {
    "tensorflow": "import tensorflow as tf; n = len(tf.config.list_physical_devices('GPU'))",
    "jax": "import jax; n = sum(one.platform == 'gpu' for one in jax.devices())",
    "torch": "import torch; n = torch.cuda.device_count() if torch.cuda.is_available() else 0",
}
"""Sets ``n`` to the number of GPUs, by the name that it is imported by. Of others it is
enough that they are there."""
INSTALL = {
    "tensorflow": "pip install '.[tensorflow-gpu]'",
    "jax": "pip install 'jax[cuda12]'",
    "torch": "pip install torch, of a build with CUDA",
    "keras": "pip install keras",
}
WITHOUT_TAKING = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""JAX reserves three quarters of a GPU as it looks for one."""
MOST_SECONDS = 300.0


@functools.cache
def lacking(framework: str) -> str:
    """Why checks of ``framework`` cannot be, in a sentence; empty: they can. It is asked
    once, in a child."""
    if importlib.util.find_spec(framework) is None:
        return f"{framework} is not installed ({INSTALL[framework]})"
    if framework not in ASKED:
        return ""
    asked = f"{ASKED[framework]}; print(); print('gpus', int(n))"
    try:
        done = subprocess.run(
            [sys.executable, "-c", asked],
            env={**os.environ, **WITHOUT_TAKING},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return (
            f"{framework} did not say within {MOST_SECONDS:.0f} s whether it sees a GPU"
        )
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not last.startswith("gpus "):
        said = done.stderr.strip().rpartition("\n")[2][:200]
        return f"{framework} cannot be asked for GPUs: {said}"
    return "" if last != "gpus 0" else f"{framework} sees no GPU: {INSTALL[framework]}"
