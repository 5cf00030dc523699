"""Signatures: faults of CUDA, and the driver with its Xids."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.signature import (
    CAUSE,
    HARDWARE,
    LIBRARY,
    SYMPTOM,
    Signature,
    benign,
    cascade,
    row,
)

_DRIVER = "CUDA: cuda.h (CUresult), cudaGetErrorString"
_XIDS = "NVIDIA: docs.nvidia.com/deploy/xid-errors"

NO_DEVICE_AT_INIT = "cuda.no_device_at_init"
"""The row of what frameworks say where they find no GPU, and go on without."""

FAULT = (
    row(
        "cuda.fault",
        Cause.CUDA_FAULT,
        CAUSE,
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "CUDA_ERROR_INVALID_PC",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "CUDA_ERROR_ASSERT",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        "cudaErrorIllegalAddress",
        "cudaErrorLaunchFailure",
        "cudaErrorMisalignedAddress",
        "cudaErrorAssert",
        "cudaErrorIllegalInstruction",
        "hipErrorIllegalAddress",
        "hipErrorLaunchFailure",
        "hipErrorLaunchTimeOut",
        "hipErrorAssert",
        "cudaErrorLaunchTimeout",
        src=_DRIVER,
    ),
    row(
        "cuda.fault_text",
        Cause.CUDA_FAULT,
        CAUSE,
        "illegal memory access was encountered",
        "unspecified launch failure",
        "misaligned address",
        "device-side assert triggered",
        "illegal instruction was encountered",
        "invalid program counter",
        "not supported on global/shared address space",
        "launch timed out and was terminated",
        "too many resources requested for launch",
        "Memory access fault by GPU",
        "HW Exception by GPU",
        "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION",
        src=_DRIVER + "; ROCm runtime",
    ),
    row(
        "cuda.index_assertion",
        Cause.CUDA_FAULT,
        CAUSE - 5,
        rx=r"\.(?:cu|cuh|h|hpp):\d+: .*block: \[\d+,\d+,\d+\], thread: \[.*Assertion `"
        r"|Device-side assertion `",
        src="CUDA: device-side assert(), as pytorch's kernels use it; HIP's __assert_fail",
    ),
    row(
        "cuda.numba_fault",
        Cause.CUDA_FAULT,
        CAUSE - 5,
        rx=r"CudaAPIError: \[7\d\d\]|cuda error 7\d\d|UNKNOWN_CUDA_ERROR",
        src="numba: cuda/cudadrv/driver.py; CUresult 700-719",
    ),
    row(
        "cuda.unknown_error",
        Cause.CUDA_FAULT,
        LIBRARY + 5,
        "CUDA error: unknown error",
        "CUDA error: context is destroyed",
        "CUDA error: initialization error",
        "CUDA error: invalid resource handle",
        "CUDA error: invalid argument",
        "CUDA error: driver shutting down",
        "CUDA_ERROR_INVALID_HANDLE",
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "CUDA error: operation not permitted",
        src=_DRIVER,
    ),
    cascade(
        "tf.unexpected_event",
        Cause.CUDA_FAULT,
        SYMPTOM + 5,
        "Unexpected Event status",
        "polling for event status",
        "failed to query event",
        "GPU sync failed",
        "failed to synchronize the stop event",
        "could not synchronize on CUDA context",
        "failed to enqueue async memcpy",
        "command buffer exited with error status",
        "The error from device(chipId:",
        src="tensorflow: common_runtime/gpu/gpu_event_mgr.cc, cuda_event.cc; Metal; "
        "Ascend: device_error_proc.cc",
    ),
    cascade(
        "cuda.error_any",
        Cause.CUDA_FAULT,
        SYMPTOM + 1,
        rx=r"(?:CUDA error|HIP error)\b(?!.*(?:might be|could be))|CUDA_ERROR_UNKNOWN"
        r"|Cuda failure (?:\d+ )?'|Check failed: .*cudaSuccess"
        r"|AcceleratorError|\bHSA_STATUS_ERROR"
        r"|\b(?:cuda|hip)Error(?!NoDevice|PeerAccess|NotReady|NotFound"
        r"|Profiler)[A-Z]\w+\b",
        src="pytorch: c10/cuda/CUDAException.cpp; ROCm: hsa.h, hip_runtime_api.h",
    ),
    benign(
        "torch.debugging_advice",
        rx=r"^\W*(?:For debugging consider|Compile with `TORCH_USE_CUDA_DSA)",
        src="pytorch: c10/cuda/CUDAMiscFunctions.cpp",
    ),
    benign("cuda.deinitialized", "CUDA_ERROR_DEINITIALIZED", src=_DRIVER),
    benign(
        NO_DEVICE_AT_INIT,
        rx=r"failed call to cuInit|^(?!.*(?:Error|error):).*no CUDA-capable device"
        r"|driver does not appear to be running|Could not find cuda drivers"
        r"|CUDA-enabled jaxlib is not installed|No GPU/TPU found",
        src="tensorflow: cuda_diagnostics.cc; jax: xla_bridge.py",
    ),
    benign(
        "tf.factory_registered",
        rx=r"Unable to register cu|Unable to initialize backend '(?:tpu|rocm)"
        r"|negative value \(-1\)|Couldn't get ptxas version"
        r"|disabling parallel compilation",
        src="xla: stream_executor plugins; jax: xla_bridge.py",
    ),
)

HARDWARE_XIDS = "48|6[1-4]|74|79|9[245]|110|119|12[01]|14[03-9]|15[014568]|16[01]"
SOFTWARE_XIDS = "6|8|11|13|18|2[45]|3[1-9]|41|43|56|59|66|6[89]|80"
"""NVIDIA's Xid catalogue: those that an application or the driver's user causes;
45 (clean-up after another error) and 137 follow from something else."""


def _xid(name: str, cause: Cause, weight: int, numbers: str) -> Signature:
    return row(
        name,
        cause,
        weight,
        rx=rf"Xid (?:\([^)]*\)|[0-9a-f:.]+)?:? ?(?:{numbers})\b(?!.*\bNonfatal\b)",
        src=_XIDS,
    )


AMD = (
    row(
        "amdgpu.stopped",
        Cause.CUDA_FAULT,
        CAUSE,
        rx=r"amdgpu.*\bring \S+ timeout|amdgpu.*GPU reset begin|amdgpu.*page fault \(",
        src="linux: drivers/gpu/drm/amd/amdgpu/amdgpu_job.c, amdgpu_device.c, gmc_v*.c",
    ),
    row(
        "amdgpu.failed",
        Cause.GPU_HARDWARE,
        HARDWARE,
        rx=r"amdgpu.*(?:reset failed|P resume failed|device lost from bus|uncorrectable hardware errors? detected)",
        src="linux: drivers/gpu/drm/amd/amdgpu/amdgpu_device.c "
        "(amdgpu_device_ip_resume failed, ASIC reset failed), amdgpu_ras.c",
    ),
)

DRIVER = (
    _xid("driver.xid_hardware", Cause.GPU_HARDWARE, HARDWARE, HARDWARE_XIDS),
    _xid("driver.xid_software", Cause.CUDA_FAULT, CAUSE, SOFTWARE_XIDS),
    row(
        "driver.gpu_lost",
        Cause.GPU_HARDWARE,
        HARDWARE,
        "fallen off the bus",
        "GPU is lost",
        "RmInitAdapter failed",
        "NVML_ERROR_GPU_IS_LOST",
        "NVML_ERROR_RESET_REQUIRED",
        "ncorrectable ECC",
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "cudaErrorECCUncorrectable",
        "hipErrorECCNotCorrectable",
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "CUDA_ERROR_CONTAINED",
        "ncorrectable NVLink",
        "hardware stack error",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "GPU requires reset",
        "over nvlink or a hardware error",
        "determine the device handle for GPU",
        "nvmlDeviceGetHandleByIndex(): Unknown Error",
        "GPU recovery action changed",
        "row remapping failure",
        "ouble bit ECC error",
        "ouble-bit ECC error",
        src="NVIDIA driver: dmesg (NVRM), nvml.h, cuda.h",
    ),
    row(
        "driver.gsp_silent",
        Cause.GPU_HARDWARE,
        CAUSE + 5,
        rx=r"NVRM: .*(?:GSP Timeout|Heartbeat timed out|Memory Subsystem Error detected"
        r"|rpcSendMessage failed|NV_ERR_GPU_I[SN]_)",
        src="NVIDIA: open-gpu-kernel-modules, kernel_gsp.c, rpc.c: as Xid 119",
    ),
    row(
        "driver.pcie_fatal",
        Cause.GPU_HARDWARE,
        CAUSE,
        rx=r"severity=Uncorrect\w+ \(Fatal\)|AER: Uncorrected \(Fatal\)|SXid\b.*(?<!-)\bFatal\b",
        src="linux: drivers/pci/pcie/aer.c; NVIDIA's driver of NVSwitch (SXid)",
    ),
)

ROWS = (*FAULT, *DRIVER, *AMD)
