"""The table of signatures: its own rules, and lines as the sources format them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import ADVICE
from supervisor.core.diagnosis.diagnose import diagnose_log
from supervisor.core.diagnosis.signatures.all_rows import (
    SIGNATURES,
    candidates,
    exception_in,
    recognise,
)
from supervisor.core.diagnosis.signatures.literals import required_literals
from supervisor.core.diagnosis.signatures.signature import Role, Signature, Where
from tests.support.evidence import seen

IDS = [row.id for row in SIGNATURES]


def test_ids_are_unique() -> None:
    """A reason names exactly one row."""
    assert len(set(IDS)) == len(IDS)


@pytest.mark.parametrize("row", SIGNATURES, ids=IDS)
def test_a_row_is_complete(row: Signature) -> None:
    """Each names its source, and benign rows weigh nothing."""
    assert row.source
    assert re.fullmatch(r"[a-z0-9_]+\.[a-z0-9_.]+", row.id)
    assert row.anchors
    assert all(len(anchor) >= 3 for anchor in row.anchors)
    assert (row.weight == 0) == (row.role is Role.BENIGN) == (row.cause is Cause.NONE)


@pytest.mark.parametrize("row", SIGNATURES, ids=IDS)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_an_anchor_stands_in_every_match(row: Signature, data: st.DataObject) -> None:
    """The prefilter loses no line that the row's pattern matches."""
    match = data.draw(st.from_regex(row.pattern))
    assert any(anchor in match for anchor in row.anchors)


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("a.c", ("a",)),
        ("colou?r", ("colo",)),
        ("ab+c|de{2,3}", ("ab", "d")),
        (r"^\(x(?:one|two)\)\s", ("one", "two")),
        ("(?<!not )there(?=:|$)", ("there",)),
        ("[Ll]ost", ("ost",)),
        ("one|.*", ()),
        ("(?:one|[0-9]) t", (" t",)),
    ],
)
def test_required_literals(pattern: str, literals: tuple[str, ...]) -> None:
    """One of them stands in every match; none where nothing is sure."""
    assert required_literals(pattern) == literals


def test_every_cause_has_advice() -> None:
    """A diagnosis never leaves its reader alone, unless nothing went wrong."""
    assert set(ADVICE) == set(Cause)
    assert [cause for cause, text in ADVICE.items() if not text] == [Cause.NONE]


LINES = [
    ("Allocator (GPU_0_bfc) ran out of memory trying to allocate 1B", "device_oom"),
    ("Allocator (mklcpu) ran out of memory trying to allocate 5.82TiB", "host_oom"),
    ("OOM when allocating tensor with shape[1] on device:CPU:0 by x", "host_oom"),
    ("OOM when allocating tensor by allocator bfc_cpu_allocator_x", "device_oom"),
    ("InternalError: Dst tensor is not initialized.", "device_oom"),
    ("INTERNAL: Failed to load in-memory CUBIN: CUDA_ERROR_OUT_OF_MEMORY: o",
     "device_oom"),
    ("RuntimeError: cuda runtime error (2) : out of memory at x.cu:58", "device_oom"),
    ("NCCL WARN Cuda failure 2 'out of memory'", "device_oom"),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "cudnn_init"),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "cudnn_exec"),
    ("E could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED", "cudnn_alloc"),
    ("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "version_mismatch"),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when", "cublas"),
    ("InternalError: Blas xGEMM launch failed : a.shape=[1,2]", "cublas"),
    ("RuntimeError: CUDA error: an illegal memory access was encountered",
     "cuda_fault"),
    ("NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE", "gpu_hardware"),
    ("NVRM: Xid (PCI:0000:3b:00): 13, Graphics Exception", "cuda_fault"),
    ("NVRM: Xid (0000:3b:00): 79, GPU has fallen", "gpu_hardware"),
    ("The NVIDIA driver on your system is too old (found", "version_mismatch"),
    ("ImportError: libcudart.so.10.0: cannot open shared object file: No such",
     "version_mismatch"),
    ("ImportError: version `GLIBCXX_3.4.29' not found", "version_mismatch"),
    ("DistBackendError: NCCL error in: x.cpp:1, unhandled system error", "nccl"),
    ("RuntimeError: [../gloo/transport/tcp/pair.cc:9] Connection closed by peer",
     "nccl"),
    ("Out of memory: Killed process 1234 (python)", "host_oom"),
    ("/bin/sh: line 1: 1234 Killed                  python train.py", "host_oom"),
    ("terminate called after throwing an instance of 'std::bad_alloc'", "host_oom"),
    ("OSError: [Errno 122] Disk quota exceeded", "disk_full"),
    ("ResourceExhaustedError: x.data; No space left on device", "disk_full"),
    ("PIL.UnidentifiedImageError: cannot identify image file 'x'", "data_error"),
    ("OSError: [Errno 5] Input/output error", "data_error"),
    ("NotFoundError: /d/a.tfrecord; No such file or directory", "data_error"),
    ("FloatingPointError: invalid value (nan) encountered in jit(f)",
     "non_finite_loss"),
    ("usage.py: error: unrecognized arguments: --foo", "user_error"),
    ("[rank3]: KeyError: 'labels'", "user_error"),
    ("2026-01-01 10:00:00,123 my.package.StrangeError: x", "user_error"),
    ("Fatal Python error: Bus error", "native_crash"),
    ("double free or corruption (!prev)", "native_crash"),
    ("slurmstepd: error: *** JOB 1 ON n CANCELLED AT 2024 DUE TO TIME LIMIT ***",
     "preempted"),
    ("KeyboardInterrupt", "preempted"),
    ("INFO: task python:12 blocked for more than 120 seconds.", "unkillable"),
    ("Timeout (0:10:00)!", "stalled"),
    ("Killed process 12 (python) total-vm:5kB, anon-rss:4kB", "host_oom"),
    ("[01:02<00:03,  1.4it/s]Killed", "host_oom"),
    ("12 Getötet              python train.py", "host_oom"),
    ("OutOfMemoryError: Task was killed due to the node running low on memory.",
     "host_oom"),
    ("container exited with code 137", "host_oom"),
    ("the job exited with status 139", "native_crash"),
    ("failed (exitcode: -6) local_rank: 0", "native_crash"),
    ("Speicherzugriffsfehler (Speicherabzug geschrieben)", "native_crash"),
    ("task:python3  state:D stack:0 pid:12", "unkillable"),
    ("BaseCollectiveExecutor::StartAbort UNAVAILABLE: Connection reset", "nccl"),
    ("[launch.py:434] ['python', 'train.py'] exits with return code = -9",
     "host_oom"),
    ("subprocess failed, returncode: -11", "native_crash"),
    ("MIOpen Error: handlehip.cpp:70: Memory not available to allocate buffer: 65",
     "device_oom"),
    ("EnforceNotMet: Expected allocating <= available, but received allocating:2",
     "device_oom"),
    ("EnforceNotMet: enforce allocating <= available failed, 2 > 1", "device_oom"),
    ("[52210.3]  oom_kill_process+0x219/0x3e0", "host_oom"),
    ("12:41 kernel:  oom_kill_process.cold+0xb/0x10", "host_oom"),
    ("src/tcmalloc.cc:283] Attempt to free invalid pointer 0x1", "native_crash"),
    ("[x/gloo/transport/tcp/pair.cc:799] connect [10.0.7.1]:131: Connection refused",
     "nccl"),
    ("could not create miopen handle: miopenStatusUnknownError", "cudnn_init"),
    ("MIOpen(HIP): Error [BuildHip] HIPRTC status = HIPRTC_ERROR_COMPILATION (6)",
     "version_mismatch"),
    ("RuntimeError: miopenStatusInternalError", "cudnn_exec"),
    ("Check failed: status == miopenStatusSuccess (7 vs. 0)", "cudnn_exec"),
    ("rocblas_status_internal_error in gemm", "cublas"),
    ("HIP error: hipErrorIllegalAddress", "cuda_fault"),
    ("RuntimeError: hipErrorOutOfMemory", "device_oom"),
    ("INTERNAL: Collective has timed out waiting for other workers.", "nccl"),
    ("DEADLINE_EXCEEDED: Barrier timed out. Id: x::0.", "nccl"),
    ("Corrupted Riegeli/records file: block header hash mismatch", "data_error"),
    ("Creation of compilation cudnn handle failed.", "cudnn_init"),
    ("cuDNN could not be found or could not be loaded.", "version_mismatch"),
    ("mpirun noticed that process rank 0 with PID 7 exited on signal 11",
     "native_crash"),
    ("Process finished with exit code -1073740791 (0xC0000409)", "native_crash"),
    ("JaxRuntimeError: UNAVAILABLE: connection to the coordinator lost", "nccl"),
    ("HorovodInternalError: Horovod has been shut down.", "nccl"),
    ("Received signal SIGTERM", "preempted"),
    ("the job was preempted", "preempted"),
    ("ModuleNotFoundError: No module named 'trainers.fit_supervised'", "preempted"),
    ("ModuleNotFoundError: No module named 'trainers.mine'", "user_error"),
    ("The loss returned in `training_step` is nan.", "non_finite_loss"),
    ("trainwarden: the loss became NaN at step 32 (it was last", "non_finite_loss"),
    ("trainwarden: the loss became NaN at step 32; the weights", "non_finite_loss"),
    ("trainwarden: the loss became infinite between step 3, where", "non_finite_loss"),
    ("trainwarden: the loss is NaN at step 1, and was never seen", "non_finite_loss"),
    ("KeyError: 'Unable to open object (bad symbol)'", "data_error"),
    ("RuntimeError: hipErrorSomethingNew", "cuda_fault"),
    ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "cuda_fault"),
    ("ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY", "host_oom"),
    ("F0102 10:00:00.123456    99 planner.cc:12] Non-OK-status: s", "native_crash"),
    ("[E Reducer ProcessGroupGloo.cpp:12] Rank 1 failed", "nccl"),
    ("zsh: abort      python train.py", "native_crash"),
    ("[1]  + 4242 killed     python train.py", "host_oom"),
    ("Command failed with non-zero exit status 3", "unknown"),
    ("srun: error: Unable to create step for job 1: Invalid account", "unknown"),
    ("slurmstepd: error: *** STEP 1.0 ON n CANCELLED AT 2024-01-01T00:00:00 ***",
     "preempted"),
    ("ResourceExhaustedError: /scratch/events.out; Disk quota", "disk_full"),
    ("Kernel panic - not syncing: Fatal exception", "unknown"),
    ("grpc.SomethingNew: what it says", "unknown"),
    ("RuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS of torch.Strange: x", "cuda_fault"),
    ("AttributeError: module 'jax.numpy' has no attribute 'DeviceArray'",
     "version_mismatch"),
    ("AttributeError: module 'mine' has no attribute 'DeviceArray'", "user_error"),
    ("AttributeError: module 'keras' has no attribute 'layer'. Did you mean: 'layers'?",
     "user_error"),
    ("x.h:1: Check failed: e == cudaSuccess CUDA: a status", "cuda_fault"),
    ("x.h:1: Check failed: e == CUBLAS_STATUS_SUCCESS (13 vs. 0) x", "cublas"),
    ("kernel: NVRM: GPU0 x: (status == NV_ERR_GPU_IS_LOST)", "gpu_hardware"),
    ("EDAC MC3: 1 UE memory read error on CPU_SrcID#1", "unknown"),
    ("[1,4]<stderr>:free(): something new", "native_crash"),
    ("  Reason:       ContainerStartError", "unknown"),
    ("[ERROR] could not go on: step failed", "unknown"),
    ("2024-01-01 00:00:01 Trial 7 of the search has failed.", "unknown"),
    ("      3/99     2.1G    0.021       nan       nan    12", "non_finite_loss"),
    ("x.h:1: Check failed: e == CUSPARSE_STATUS_SUCCESS: 1", "cublas"),
    ("ray.exceptions.RayTaskError(KeyError): x", "unknown"),
    ("Error: command buffer exited with error status.", "cuda_fault"),
    ("NVRM: NV_ERR_NO_MEMORY (_memdescAllocInternal)", "device_oom"),
    ("Check failed: IsAligned() ptr = 0x306a33ff0", "native_crash"),
    ("E All initialization methods failed (['best', 'last']).", "unknown"),
    ("train.py: error: argument --lr: invalid choice: 'x'", "user_error"),
    ("application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0", "nccl"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_speaks_for_its_cause(line: str, cause: str) -> None:
    """Message formats of the sources, with figures and names of our own."""
    row = recognise(line)
    assert row is not None
    assert row.cause == cause


QUIET = [
    "Epoch 3: mean error: 0.34, memory 10.1 GiB",
    "I0000 gpu_device.cc:2022] Created device GPU:0 with 14785 MB memory",
    "NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
    "def on_error(self, error: Exception) -> None:",
    "slurmstepd: error: couldn't chdir to `/home/me': going to /tmp instead",
    "the worker finished with exit code: none",
    "EDAC MC0: 4 CE error on CPU#0Channel#2_DIMM#0",
    "ERROR 12/99 1.2G 0.01 0.02 62% 1151/1860 [04:45<02:49,  4.18it/s]",
    "[ERROR] 3 downloads failed: ignored",
    "save gpu log failed",
]


@pytest.mark.parametrize("line", QUIET)
def test_words_alone_are_no_failure(line: str) -> None:
    """Error, memory and NCCL are words of healthy logs."""
    row = recognise(line)
    assert row is None or row.where is Where.END
    assert diagnose_log(seen(line)).cause is Cause.NONE


BENIGN = [
    "Allocator (x) ran out of memory. The caller indicates that this is not a failure",
    "Local rendezvous is aborting with status: OUT_OF_RANGE: End of sequence",
    "Unable to register cuDNN factory: Attempting to register factory",
    "UserWarning: Your input ran out of data; interrupting training.",
    "failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit",
    "transport/p2p.cc:9 NCCL WARN rank 0 failed to IPC register userbuff 0x7f",
    "The process exited with code 0",
]


@pytest.mark.parametrize("line", BENIGN)
def test_a_benign_row_takes_the_line_for_itself(line: str) -> None:
    """What looks terrible and means nothing is not read by any other row."""
    row = recognise(line)
    assert row is not None
    assert row.role is Role.BENIGN


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_line_is_recognised_or_not(line: str) -> None:
    """Total, deterministic; and only candidates can match."""
    row = recognise(line)
    assert recognise(line) is row
    assert row is None or row in candidates(line)


@settings(deadline=None)
@given(st.sampled_from(SIGNATURES), st.data())
def test_an_anchor_makes_a_candidate(row: Signature, data: st.DataObject) -> None:
    """The index finds a row wherever one of its anchors stands."""
    anchor = data.draw(st.sampled_from(row.anchors))
    before, after = data.draw(st.text(max_size=20)), data.draw(st.text(max_size=20))
    assert row in candidates(before + anchor + after)


def test_an_exception_line_begins_with_its_name() -> None:
    """Ranks, times and worker names may stand before it; prose may not."""
    assert exception_in("[rank0]: a.b.XError: c") == "a.b.XError: c"
    assert exception_in("(train pid=12, ip=1.2.3.4) ValueError: c") == "ValueError: c"
    assert exception_in("KeyboardInterrupt") == "KeyboardInterrupt"
    assert exception_in("12:00:01 ERROR ValueError: c") == "ValueError: c"
    assert exception_in("x.y.Strange: c") == "x.y.Strange: c"
    assert exception_in("a.b.UnfilteredStackTrace: XError: c") == "XError: c"
    late = "CancelledError (see above for traceback): c"
    assert exception_in(late) == late
    assert exception_in("we caught a ValueError: c") is None
    assert exception_in("Error: not a Python exception") is None
    assert exception_in("plain") is None


def test_a_line_that_guesses_speaks_for_nothing_else() -> None:
    """It says that something failed, and what might be why: memory, say."""
    line = (
        "Worker unexpectedly exits. There are some potential root causes. (1) The"
        " process is killed by SIGKILL by OOM killer due to high memory usage."
    )
    row = recognise(line)
    assert row is not None
    assert (row.role, row.cause) == (Role.GUESS, Cause.UNKNOWN)
