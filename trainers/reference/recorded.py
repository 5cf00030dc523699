"""Failures that need a GPU, as the libraries print and raise them.

Message formats: TensorFlow (``stream_executor/cuda/*.cc``, ``core/kernels/*.cc``,
``core/common_runtime/gpu``), cuDNN and cuBLAS (status names of their headers), NCCL
(``src/debug.cc``), the CUDA driver (``cuGetErrorString``) and its kernel module. Times
and addresses are made up.
"""

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Recorded:
    """What is printed on standard error, and what happens then."""

    lines: tuple[str, ...]
    raised: str = ""
    """Type of the exception, from ``tensorflow.errors`` or built in; empty: SIGABRT."""
    message: str = ""


_AT = "2026-01-31 12:00:00.000000: "
_XLA = "external/local_xla/xla/stream_executor/cuda/"
_DNN = f"{_AT}E {_XLA}cuda_dnn.cc:522] "
_EVENT = f"{_AT}F tensorflow/core/common_runtime/device/device_event_mgr.cc:223] "

RECORDED: dict[str, Recorded] = {
    "cudnn_alloc": Recorded(
        (
            f"{_DNN}Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED",
            f"{_DNN}Memory usage: 63438848 bytes free, 8361279488 bytes total.",
        ),
        "UnknownError",
        "Failed to get convolution algorithm. This is probably because cuDNN failed to"
        " initialize, so try looking to see if a warning log message was printed above."
        " [Op:Conv2D]",
    ),
    "cudnn_init": Recorded(
        (f"{_DNN}Could not create cudnn handle: CUDNN_STATUS_NOT_INITIALIZED",),
        "FailedPreconditionError",
        "DNN library initialization failed. Look at the errors above for more details."
        " [Op:__inference_train_step_1]",
    ),
    "cudnn_exec": Recorded(
        (
            (
                f"{_DNN}CUDNN_STATUS_EXECUTION_FAILED\nin {_XLA}cuda_dnn.cc(4377):"
                " 'cudnnConvolutionForward( cudnn.handle(), alpha, input_nd.handle())'"
            ),
        ),
        "InternalError",
        "cuDNN launch failure : input shape ([32,64,56,56]) [Op:FusedBatchNormV3]",
    ),
    "cublas": Recorded(
        (
            (
                f"{_AT}E {_XLA}cuda_blas.cc:193] failed to create cublas handle:"
                " CUBLAS_STATUS_NOT_INITIALIZED"
            ),
        ),
        "InternalError",
        "Blas xGEMM launch failed : a.shape=[1,32,784], b.shape=[1,784,128], m=32,"
        " n=128, k=784 [Op:MatMul]",
    ),
    "cuda_fault": Recorded(
        (
            (
                f"{_AT}E {_XLA}cuda_event.cc:49] Error polling for event status: failed to"
                " query event: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was"
                " encountered"
            ),
            f"{_EVENT}Unexpected Event status: 1",
        )
    ),
    "launch_failed": Recorded(
        (
            (
                f"{_AT}E {_XLA}cuda_driver.cc:1237] failed to enqueue async memcpy from"
                " device to host: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure;"
                " host dst: 0x7f; GPU src: 0x7e; size: 4=0x4"
            ),
            (
                f"{_AT}F {_XLA}cuda_dnn.cc:194] Check failed: status =="
                " CUDNN_STATUS_SUCCESS (7 vs. 0)Failed to set cuDNN stream."
            ),
        )
    ),
    "ecc": Recorded(
        (
            (
                f"{_AT}E {_XLA}cuda_event.cc:49] Error polling for event status: failed to"
                " query event: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error"
                " encountered"
            ),
            f"{_EVENT}Unexpected Event status: 1",
        )
    ),
    "nccl": Recorded(
        (
            (
                "box:4711:4790 [0] misc/socket.cc:484 NCCL WARN socketStartConnect:"
                " Connect to 10.0.0.7<47935> failed : Software caused connection abort"
            ),
            "box:4711:4790 [0] NCCL INFO misc/socket.cc:567 -> 2",
        ),
        "UnknownError",
        "Error invoking NCCL: unhandled system error (run with NCCL_DEBUG=INFO for"
        " details) [Op:CollectiveReduceV2]",
    ),
    "cudnn_version": Recorded(
        (
            (
                f"{_DNN}Loaded runtime CuDNN library: 8.2.4 but source was compiled with:"
                " 8.6.0.  CuDNN library needs to have matching major version and equal or"
                " higher minor version."
            ),
        ),
        "UnimplementedError",
        "DNN library is not found. [Op:__inference_train_step_1]",
    ),
    "driver_version": Recorded(
        (),
        "InternalError",
        "cudaGetDevice() failed. Status: CUDA driver version is insufficient for CUDA"
        " runtime version",
    ),
    "no_kernel_image": Recorded(
        (),
        "InternalError",
        "'cuLaunchKernel(function, gridX, gridY, gridZ, blockX, blockY, blockZ, 0,"
        " reinterpret_cast<CUstream>(stream), params, nullptr)' failed with"
        " 'CUDA_ERROR_NO_BINARY_FOR_GPU'",
    ),
    "disguised_oom": Recorded(
        (
            (
                f"{_AT}W external/local_xla/xla/tsl/framework/bfc_allocator.cc:501]"
                " Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.05GiB"
                " (rounded to 1124073472)requested by op Conv2D"
            ),
            f"{_DNN}Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR",
        ),
        "NotFoundError",
        "No algorithm worked!  Error messages: Profiling failure on CUDNN engine 1:"
        " RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1124073472 bytes."
        " [Op:Conv2D]",
    ),
    "looks_terrible": Recorded(
        (
            (
                f"{_AT}E {_XLA}cuda_platform.cc:51] failed call to cuInit: INTERNAL: CUDA"
                " error: Failed call to cuInit: UNKNOWN ERROR (303)"
            ),
            (
                f"{_AT}E {_XLA}cuda_dnn.cc:9261] Unable to register cuDNN factory:"
                " Attempting to register factory for plugin cuDNN when one has already"
                " been registered"
            ),
            (
                f"{_AT}W external/local_xla/xla/tsl/framework/bfc_allocator.cc:296]"
                " Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.21GiB with"
                " freed_by_count=0. The caller indicates that this is not a failure, but"
                " this may mean that there could be performance gains if more memory were"
                " available."
            ),
            (
                f"{_AT}W tensorflow/core/framework/local_rendezvous.cc:404] Local"
                " rendezvous is aborting with status: OUT_OF_RANGE: End of sequence"
            ),
        ),
        "nothing",
    ),
}


def replay(name: str) -> None:
    """Print what was recorded under ``name``, then fail as it did."""
    recorded = RECORDED[name]
    sys.stderr.write("".join(f"{line}\n" for line in recorded.lines))
    sys.stderr.flush()
    if recorded.raised == "nothing":
        return
    if not recorded.raised:
        os.abort()
    import tensorflow as tf  # noqa: PLC0415  # an abort needs no TensorFlow

    raise getattr(tf.errors, recorded.raised)(None, None, recorded.message)
