"""What looks like a failure at the end of a log, and ended nothing."""

import json
from pathlib import Path

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose_log
from tests.support.evidence import seen

ENDINGS = Path(__file__).with_name("endings") / "harmless.jsonl"
HARMLESS: list[str] = [json.loads(line) for line in ENDINGS.read_text().splitlines()]
"""Made by hand around what wandb, TensorBoard, TensorFlow, XLA, PyTorch, NCCL, ROCm, Slurm
and others print while they go on."""
HEADER = "Traceback (most recent call last):\n"
RUN = '  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner\n'
OF_A_TRACKER = (
    '  File "/env/site-packages/wandb/sdk/file_stream.py", line 9, in _send\n'
)
OF_A_LOADER = '  File "/env/site-packages/loader/worker.py", line 9, in results_loop\n'
IMPORTED = '  File "/env/site-packages/kernels/fused.py", line 9, in <module>\n'
CALLED = '  File "/env/site-packages/kernels/fused.py", line 9, in fuse\n'
SCRIPT = '  File "train.py", line 4, in <module>\n'
THREAD = f"Exception in thread Thread-5:\n{HEADER}{RUN}"
CAUSE_OF = "\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
WRONG = "RuntimeError: no such kernel\n"
ON = "Using the slow one\n"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_ended_nothing_is_none(text: str) -> None:
    """A harmless log taken for a failure is the worst mistake."""
    assert diagnose_log(seen(text)).cause is Cause.NONE


QUIET = [
    f"{THREAD}{OF_A_TRACKER}{WRONG}",
    f"{THREAD}{OF_A_TRACKER}",
    f"{THREAD}{OF_A_TRACKER}ValueError: x\n{DURING}{HEADER}{OF_A_TRACKER}{WRONG}",
    f"{THREAD}{OF_A_TRACKER}ValueError: x\n{CAUSE_OF}{HEADER}{OF_A_TRACKER}{WRONG}",
    f"[fused|ERROR] not loaded\n{HEADER}{IMPORTED}{WRONG}{ON}",
    f"WARNING:fused:not loaded\n{HEADER}{CALLED}{WRONG}{ON}",
]
LOUD = [
    (f"{THREAD}{OF_A_LOADER}{WRONG}", "user_error"),
    (f"{THREAD}{OF_A_TRACKER}{WRONG}{HEADER}{SCRIPT}{WRONG}", "user_error"),
    (f"{THREAD}{OF_A_TRACKER}MemoryError\n", "host_oom"),
    (f"{THREAD}{OF_A_TRACKER}torch.OutOfMemoryError: CUDA out of memory\n",
     "device_oom"),
    (f"{THREAD}{OF_A_TRACKER}FloatingPointError: x\n", "non_finite_loss"),
    (f"[fused|ERROR] not loaded\n{HEADER}{IMPORTED}{WRONG}", "user_error"),
    (f"[fused|ERROR] not loaded\n{HEADER}{CALLED}{WRONG}{ON}", "user_error"),
    (f"WARNING: not loaded\n{HEADER}{SCRIPT}{WRONG}{ON}", "user_error"),
    (f"not loaded\n{HEADER}{IMPORTED}{WRONG}{ON}", "user_error"),
    (f"{DURING}{HEADER}{SCRIPT}{WRONG}", "user_error"),
    (f"quiet\n{WRONG}", "user_error"),
]  # fmt: skip


@pytest.mark.parametrize("text", QUIET)
def test_a_traceback_that_was_handled_ends_nothing(text: str) -> None:
    """A tracker's thread, and what a library logged and went on from."""
    assert diagnose_log(seen(text)).cause is Cause.NONE


@pytest.mark.parametrize(("text", "expected"), LOUD)
def test_one_that_looks_like_it_may_be_the_end(text: str, expected: str) -> None:
    """A thread that loads data, a script's own, what nothing came after, and memory."""
    assert diagnose_log(seen(text)).cause == expected


WAITS = "[INFO] - Waiting in store based barrier for rank: 0 (worker_count={0})\n"
IN_KERNEL = "lab 20417 0.3 0.5 1401220 247104 pts/3 Dl 14:02 0:00 python train.py\n"
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED: Out of memory allocating 6400 bytes.\n"
MIOPEN = """terminate called after throwing an instance of 'miopen::Exception'
  what():  exec_utils.cpp:58: popen() failed
"""
REFUSED = "THCudaCheck FAIL file=THCStorage.cu line=58 error=2 : out of memory\n"
SKIPPED = "| WARNING: ran out of memory{}, skipping batch\n"
NO_TRIAL = "No trial is running and no new trial has been started within 60 seconds.\n"
AUTOSCALING = "Ignore this message if the cluster is autoscaling. "
NO_MEAN = "{{'loss': {}, 'grad_norm': {}, 'epoch': 0.01}}\n"
NO_GPU = "No GPU/TPU found, falling back to CPU.\n"
LAST = [
    (WAITS.format(1) * 2, "stalled"),
    (WAITS.format(1), "none"),
    (f"{WAITS.format(1) * 2}Rank 0: completed\n", "none"),
    (f"$ kill -9 20417\n{IN_KERNEL}", "unkillable"),
    (IN_KERNEL.replace(" Dl ", " Rl "), "none"),
    (OUT_OF_MEMORY, "device_oom"),
    (f"{NO_GPU}{OUT_OF_MEMORY}", "host_oom"),
    ("./train.sh: 60: 10432 killed      python3 train.py", "host_oom"),
    ("AttributeError: jax.tree_map was removed in JAX v0.6.0: use x",
     "version_mismatch"),
    ("AttributeError: `np.Inf` was removed in the NumPy 2.0 release. Use `np.inf`",
     "version_mismatch"),
    ("Training failed: No module named 'tensorboard'", "user_error"),
    ("Run 4 crashed: name 'lr' is not defined", "user_error"),
    ("Training failed: [Errno 2] No such file or directory: 'x'", "data_error"),
    (MIOPEN, "native_crash"),
    (f"{REFUSED}{SKIPPED.format(' on GPU #1')}", "none"),
    (f"{REFUSED}{SKIPPED.format('')}{REFUSED}", "device_oom"),
    (SKIPPED.format(" with exception: CUDA out of memory"), "none"),
    (f"WARNING {NO_TRIAL}", "stalled"),
    (f"WARNING {AUTOSCALING}{NO_TRIAL}", "none"),
    (NO_MEAN.format("0.0", "nan"), "non_finite_loss"),
    (NO_MEAN.format("'0'", "'nan'"), "non_finite_loss"),
    (NO_MEAN.format("1.1", "nan"), "none"),
    (NO_MEAN.format("0.0", "0.0"), "none"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LAST)
def test_what_a_wait_a_shell_and_a_script_say_last(text: str, expected: str) -> None:
    """Each told only where the log ends with it."""
    assert diagnose_log(seen(text)).cause == expected


def test_a_warning_of_versions_decides_nothing() -> None:
    """TensorFlow goes on without a tool; of operations it tells at the same level."""
    tool = "2026-11-28 10:00:00.1: W tensorflow/{}/x.cc:1] INTERNAL: {}\n"
    ptxas = tool.format("stream_executor/gpu", "ptxas exited with non-zero code")
    assert diagnose_log(seen(ptxas)).cause is Cause.NONE
    module = tool.format("core/framework", "failed: CUDA_ERROR_INVALID_PTX")
    assert diagnose_log(seen(module)).cause is Cause.VERSION_MISMATCH
