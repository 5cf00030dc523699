"""What a log says last, in words of no program in particular."""

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose, diagnose_log
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.scoring import claims_of
from supervisor.core.diagnosis.signatures.ending_rows import LAST_LINES
from tests.support.evidence import cause, crash, ours, seen

STEP = "step {0} loss 0.{0}\n"
NO_DATA = "ERROR: no images found in /data\n"

ENDS = [
    ("Error: the file conf.yml does not exist", "user_error"),
    ("No data found. Please verify the arguments", "user_error"),
    ('{"level":"error","msg":"ValueError: unknown optimizer"}', "user_error"),
    ("Training run failed. See its log", "unknown"),
    ("Error: something broke", "unknown"),
    ("Run failed with error code INTERRUPTED_BY_NO_CAPACITY.", "preempted"),
    ("Caught signal 15, leaving", "preempted"),
    ("  7%|7 | 41/300 [08:36<52:49]\n^C", "preempted"),
    ("rank 3 lost its socket: Connection reset by peer", "nccl"),
    ("Error: not enough GPU memory", "device_oom"),
    ("Error: cannot allocate vector of size 3.1 Gb", "host_oom"),
    ("Error: the quota of the storage is exceeded", "disk_full"),
    ("ERROR NaN detected in gradients", "non_finite_loss"),
    ("Epoch[0] Batch [50] cross-entropy=nan", "non_finite_loss"),
    ("  0/9  31/73  nan  nan  nan  112", "non_finite_loss"),
    ("Error: the driver is too old", "version_mismatch"),
    ("Error: checkpoint is corrupt", "data_error"),
    ("ERROR hang detected on rank 3", "stalled"),
    ("[W operations.cc:588] Broadcast_0 [missing ranks: 1]", "stalled"),
]


@pytest.mark.parametrize(("text", "expected"), ENDS)
def test_the_last_words_name_a_cause(text: str, expected: str) -> None:
    """Where no row knows the message, its words do."""
    before = "".join(STEP.format(number) for number in range(3))
    assert diagnose_log(seen(f"{before}{text}\n")).cause == expected


@pytest.mark.parametrize(
    "text",
    [
        "WARNING: no images found in /data, using the default",
        "apex is not installed",
        "Could not import x; falling back to y",
        "fatal: not a git repository",
        "Missing logger folder: /x/lightning_logs",
        "Failed to load module, skipping it",
        "Epoch 3 | error: 12 of 500 failed",
        "no checkpoint found, training from scratch",
    ],
)
def test_a_line_that_tells_how_it_goes_on_is_none(text: str) -> None:
    """Healthy programs miss things as well, and do without."""
    assert diagnose_log(seen(f"{text}\n")).cause is Cause.NONE


def test_they_count_at_the_end_only() -> None:
    """Further up, or before a sign of training, the same words are nothing."""
    assert diagnose_log(seen(NO_DATA)).cause is Cause.USER_ERROR
    later = "quiet\n" * LAST_LINES
    assert diagnose_log(seen(NO_DATA + later)).cause is Cause.NONE
    assert diagnose_log(seen(NO_DATA + STEP.format(4))).cause is Cause.NONE
    bare = "No data found anywhere in it\n"
    assert diagnose_log(seen(bare)).cause is Cause.USER_ERROR
    assert diagnose_log(seen(f"{bare}quiet\n")).cause is Cause.NONE


def test_they_count_only_where_nothing_else_is_known() -> None:
    """Of a process of ours the exit and the exception tell more than its words do."""
    ours_failed = Evidence(exit=ours(1), log=seen(NO_DATA))
    assert diagnose(ours_failed).cause is Cause.UNKNOWN
    raised = Evidence(exit=ours(1), crash=crash("StrangeThing", "no images found"))
    said = {claim.reason.signature for claim in claims_of(raised)}
    assert not any(name and name.startswith("end.") for name in said)
    assert cause(raised) is Cause.USER_ERROR


def test_a_warning_tells_why_there_is_no_device() -> None:
    """It decides where the run ended for want of one, and is a hint elsewhere."""
    warned = (
        "torch/cuda.py:141: UserWarning: CUDA initialization: Error 803: system has "
        "unsupported display driver / cuda driver combination\n"
    )
    assert diagnose_log(seen(warned)).cause is Cause.NONE
    ended = f"{warned}RuntimeError: no GPU resources available\n"
    assert diagnose_log(seen(ended)).cause is Cause.VERSION_MISMATCH
    other = f"{warned}ValueError: no learning rate\n"
    assert diagnose_log(seen(other)).cause is Cause.USER_ERROR


STATUSES = [
    ("F0111 00:39:28 8026 x.cpp:45] Check failed: e == cudaSuccess (2 vs. 0)",
     "device_oom"),
    ("Check failed: (cudaMalloc(&gpu_ptr_, size_)) == cudaSuccess", "device_oom"),
    ("CUDA error 700 at kernel.cu:99", "cuda_fault"),
    ("CUDA driver error: 719", "cuda_fault"),
    ("x.cu:1: Check failed: error == cudaSuccess (35 vs. 0)", "version_mismatch"),
    ("cudaGetDeviceCount() failed: Error 100: no device", "user_error"),
    ("CUDA error 214", "gpu_hardware"),
    ("RuntimeError: NCCL Error 2: unhandled system error", "nccl"),
    ("Check failed: (cudnnConvolutionForward(h, &a)) == (CUDNN_STATUS_SUCCESS)",
     "cudnn_exec"),
    ("Check failed: status == CUDNN_STATUS_SUCCESS (1 vs. 0)", "cudnn_init"),
    ("train.service: Main process exited, code=killed, status=15/TERM", "preempted"),
    ("train.service: Main process exited, code=dumped, status=11/SEGV",
     "native_crash"),
    ("trainer.service: Main process exited, code=exited, status=1/FAILURE", "unknown"),
    ("F0101 00:00:00.000000 12 net.cpp:100] Check failed: a == b (1 vs. 2)",
     "user_error"),
    ("F0101 00:00:00.000000 12 db_lmdb.hpp:15] Check failed: mdb_status == 0 (2 vs. 0)",
     "data_error"),
    ("OSError: [Errno 24] Too many open files", "user_error"),
    ("RuntimeError: DataLoader timed out after 60 seconds", "stalled"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), STATUSES)
def test_a_status_is_told_as_a_number_too(line: str, expected: str) -> None:
    """Of CUDA, cuDNN, systemd and glog: formats of their sources, names of ours."""
    assert diagnose_log(seen(line)).cause == expected
