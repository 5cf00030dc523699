"""Signatures: CUDA, cuDNN, cuBLAS, the driver and its Xids, and versions of them."""

from supervisor.core.causes import Cause
from supervisor.core.signatures_row import (
    CAUSE,
    HARDWARE,
    HINT,
    LIBRARY,
    SYMPTOM,
    Signature,
    benign,
    cascade,
    row,
)

_CUDNN = "cuDNN: cudnn_graph.h (cudnnStatus_t); tensorflow: cuda_dnn.cc"
_CUBLAS = "cuBLAS: cublas_api.h; tensorflow: stream_executor/cuda/cuda_blas.cc"
_DRIVER = "CUDA: cuda.h (CUresult), cudaGetErrorString"

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
        "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION",
        src=_DRIVER + "; ROCm runtime",
    ),
    row(
        "cuda.index_assertion",
        Cause.CUDA_FAULT,
        CAUSE - 5,
        "Assertion `",
        rx=r"\.(?:cu|cuh):\d+: .*block: \[\d+,\d+,\d+\], thread: \[.*Assertion `",
        src="CUDA: device-side assert(), as pytorch's kernels use it",
    ),
    row(
        "cuda.numba_fault",
        Cause.CUDA_FAULT,
        CAUSE - 5,
        "CUDA_ERROR",
        "cuda error ",
        "CudaAPIError",
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
        src="tensorflow: common_runtime/gpu/gpu_event_mgr.cc, cuda_event.cc",
    ),
    cascade(
        "cuda.error_any",
        Cause.CUDA_FAULT,
        SYMPTOM + 1,
        "CUDA error",
        "CUDA_ERROR_UNKNOWN",
        "AcceleratorError",
        rx=r"CUDA error\b(?!.*(?:might be|could be))|CUDA_ERROR_UNKNOWN"
        r"|AcceleratorError",
        src="pytorch: c10/cuda/CUDAException.cpp",
    ),
    benign(
        "torch.debugging_advice",
        "CUDA_LAUNCH_BLOCKING",
        "TORCH_USE_CUDA_DSA",
        rx=r"^\W*(?:For debugging consider|Compile with `TORCH_USE_CUDA_DSA)",
        src="pytorch: c10/cuda/CUDAMiscFunctions.cpp",
    ),
    benign("cuda.deinitialized", "CUDA_ERROR_DEINITIALIZED", src=_DRIVER),
    benign(
        "cuda.no_device_at_init",
        "failed call to cuInit",
        "no CUDA-capable device",
        "kernel driver does not appear to be running",
        "Could not find cuda drivers",
        "CUDA-enabled jaxlib is not installed",
        "No GPU/TPU found",
        rx=r"failed call to cuInit|^(?!.*(?:Error|error):).*no CUDA-capable device"
        r"|driver does not appear to be running|Could not find cuda drivers"
        r"|CUDA-enabled jaxlib is not installed|No GPU/TPU found",
        src="tensorflow: cuda_diagnostics.cc; jax: xla_bridge.py",
    ),
    benign(
        "tf.factory_registered",
        "Unable to register cu",
        "Unable to initialize backend 'tpu",
        "Unable to initialize backend 'rocm",
        "NUMA node read from SysFS had negative value",
        "Couldn't get ptxas version",
        "may be stuck",
        "disabling parallel compilation",
        rx=r"Unable to register cu|Unable to initialize backend '(?:tpu|rocm)"
        r"|negative value \(-1\)|Couldn't get ptxas version"
        r"|disabling parallel compilation",
        src="xla: stream_executor plugins; jax: xla_bridge.py",
    ),
)

CUDNN = (
    row(
        "cudnn.version_status",
        Cause.VERSION_MISMATCH,
        CAUSE,
        "CUDNN_STATUS_VERSION_MISMATCH",
        "CUDNN_STATUS_SUBLIBRARY",
        "CUDNN_STATUS_ARCH_MISMATCH",
        "CUDNN_STATUS_RUNTIME_PREREQUISITE_MISSING",
        "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH",
        "CUDNN_STATUS_NOT_SUPPORTED_SHARED_LIBRARY",
        "CUBLAS_STATUS_ARCH_MISMATCH",
        src=_CUDNN,
    ),
    row(
        "cudnn.alloc_failed",
        Cause.CUDNN_ALLOC,
        LIBRARY + 2,
        "CUDNN_STATUS_ALLOC_FAILED",
        "DEVICE_ALLOCATION_FAILED",
        "HOST_ALLOCATION_FAILED",
        src=_CUDNN,
    ),
    row(
        "cudnn.no_handle",
        Cause.CUDNN_INIT,
        LIBRARY + 1,
        "ould not create cudnn handle",
        "CUDNN_STATUS_NOT_INITIALIZED",
        "cudnnCreate",
        rx=r"ould not create cudnn handle: (?!CUDNN_STATUS_ALLOC)"
        r"|CUDNN_STATUS_NOT_INITIALIZED|cudnnCreate\(.*CUDNN_STATUS",
        src=_CUDNN,
    ),
    row(
        "cudnn.not_initialized",
        Cause.CUDNN_INIT,
        LIBRARY,
        "Failed to get convolution algorithm",
        "cuDNN failed to initialize",
        "DNN library initialization failed",
        "DNN library is not found",
        "No DNN for stream",
        "No DNN in stream executor",
        "ail to find the dnn implementation",
        "cuDNN was not initialized",
        src="tensorflow: core/kernels/conv_ops.cc, cudnn_rnn_ops.cc; xla: dnn.cc",
    ),
    cascade(
        "cudnn.clean_up",
        Cause.CUDNN_EXEC,
        SYMPTOM + 1,
        "could not destroy cudnn handle",
        "Failed to set cuDNN stream",
        src=_CUDNN,
    ),
    row(
        "cudnn.failed",
        Cause.CUDNN_EXEC,
        LIBRARY - 1,
        "CUDNN_STATUS_",
        "cudnn",
        rx=r"(?<!destroy cudnn handle: )CUDNN_STATUS_(?!SUCCESS)(?!ALLOC_FAILED)"
        r"(?!NOT_INITIALIZED)(?:(?!create cudnn handle).)*$",
        src=_CUDNN,
    ),
    row(
        "cudnn.no_algorithm",
        Cause.CUDNN_EXEC,
        LIBRARY - 2,
        "No algorithm worked",
        "cuDNN launch failure",
        "Failed to call ThenRnn",
        "Failed to call Rnn",
        "Failed to call DoRnn",
        "No valid engine configs",
        "could not find any supported configs",
        "No cuDNN plans can be built",
        "Unable to find a valid cuDNN algorithm",
        "unable to find an engine to execute this computation",
        "cuDNN error:",
        "cuDNN Frontend error",
        "cudnn_frontend",
        "cuDNN graph plan does not exist",
        "Construction of cuDNN graph failed",
        "Failed to determine best cudnn convolution algorithm",
        "All algorithms tried for",
        "CTCLoss launch failure",
        "Failed to enqueue convolution",
        "NoneOfTheAlgorithms",
        rx=r"No algorithm worked|cuDNN launch failure|Failed to call \w*Rnn"
        r"|No valid engine configs|could not find any supported configs"
        r"|No cuDNN plans can be built|Unable to find a valid cuDNN algorithm"
        r"|unable to find an engine to execute|cuDNN (?:Frontend )?error"
        r"|cudnn_frontend.*(?:[Ee]rror|failed)|cuDNN graph plan does not exist"
        r"|Construction of cuDNN graph failed|determine best cudnn convolution"
        r"|All algorithms tried for.*failed|CTCLoss launch failure"
        r"|Failed to enqueue convolution",
        src="tensorflow: core/kernels, xla: cuda_dnn.cc, conv_algorithm_picker.cc; "
        "pytorch: aten/src/ATen/native/cudnn",
    ),
)

CUBLAS = (
    row(
        "cublas.no_handle",
        Cause.CUBLAS,
        LIBRARY,
        "failed to create cublas handle",
        "CUBLAS_STATUS_",
        "cuSolver internal error",
        "CUSOLVER_STATUS_",
        "cusolver error",
        "CUSPARSE_STATUS_",
        rx=r"failed to create cublas handle|CUBLAS_STATUS_(?!SUCCESS|ARCH)"
        r"|CUSOLVER_STATUS_(?!SUCCESS)|CUSPARSE_STATUS_(?!SUCCESS)"
        r"|cuSolver internal error|cusolver error",
        src=_CUBLAS,
    ),
    row(
        "cublas.launch_failed",
        Cause.CUBLAS,
        LIBRARY - 1,
        "Blas ",
        "BLAS support",
        "cuBLAS routine",
        "GetBlasGemmAlgorithms",
        "cuBlas call failed",
        "Failed to create cuBlas",
        rx=r"Blas \w*(?:GEMM|GEMV|SCAL)\w* launch failed|without BLAS support"
        r"|No Blas (?:support )?for stream|failed to run cuBLAS routine"
        r"|GetBlasGemmAlgorithms|cuBlas call failed|Failed to create cuBlas",
        src=_CUBLAS,
    ),
)

HARDWARE_XIDS = "48|6[1-4]|74|79|9[245]|110|119|12[01]|14[03-9]|15[014568]|16[01]"
SOFTWARE_XIDS = "6|8|11|13|18|2[45]|3[1-9]|41|43|56|59|66|6[89]|80"
"""NVIDIA's Xid catalogue: those that an application or the driver's user causes;
45 (clean-up after another error) and 137 follow from something else."""

_XIDS = "NVIDIA: docs.nvidia.com/deploy/xid-errors"


def _xid(name: str, cause: Cause, weight: int, numbers: str) -> Signature:
    return row(
        name,
        cause,
        weight,
        "Xid",
        rx=rf"Xid (?:\([^)]*\)|[0-9a-f:.]+)?:? ?(?:{numbers})\b",
        src=_XIDS,
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
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "CUDA_ERROR_CONTAINED",
        "ncorrectable NVLink",
        "hardware stack error",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "GPU requires reset",
        "over nvlink or a hardware error",
        "determine the device handle for GPU",
        "GPU recovery action changed",
        "row remapping failure",
        "ouble bit ECC error",
        "ouble-bit ECC error",
        src="NVIDIA driver: dmesg (NVRM), nvml.h, cuda.h",
    ),
    row(
        "driver.pcie_fatal",
        Cause.GPU_HARDWARE,
        CAUSE,
        "AER:",
        "PCIe Bus Error",
        rx=r"severity=Uncorrect\w+ \(Fatal\)|AER: Uncorrected \(Fatal\)",
        src="linux: drivers/pci/pcie/aer.c",
    ),
)

VERSION = (
    row(
        "version.cudnn_loaded",
        Cause.VERSION_MISMATCH,
        CAUSE + 1,
        "but source was compiled with",
        "but PyTorch was compiled",
        "compiled against an older",
        rx=r"Loaded (?:runtime )?[Cc]u[Dd][Nn][Nn].*but source was compiled with"
        r"|cuDNN version incompatibility|but PyTorch was compiled",
        src="tensorflow: stream_executor/cuda/cuda_dnn.cc; pytorch: backends/cudnn",
    ),
    row(
        "version.jax_built_against",
        Cause.VERSION_MISMATCH,
        CAUSE,
        "but JAX was built against",
        "CUDA backend failed to initialize",
        "requires ptxas version",
        "jaxlib version",
        "jaxlib is version",
        "Outdated cuDNN",
        "Outdated cu",
        rx=r"Found \w+ version .*but JAX was built against|CUDA backend failed to init"
        r"|requires ptxas version|jaxlib (?:is )?version .*(?:incompatible|but|older)"
        r"|Outdated cu",
        src="jax: _src/xla_bridge.py, jax_plugins; xla: asm_compiler.cc",
    ),
    row(
        "version.no_kernel_image",
        Cause.VERSION_MISMATCH,
        CAUSE,
        "no kernel image is available",
        "kernel image is invalid",
        "CUDA_ERROR_INVALID_IMAGE",
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "CUDA_ERROR_INVALID_PTX",
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "unsupported toolchain",
        "PTX was compiled with an unsupported",
        "a PTX JIT compilation failed",
        "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
        "hipErrorNoBinaryForGpu",
        "not defined for option 'gpu-name'",
        "Unsupported .version",
        "invalid device function",
        "cudaErrorNoKernelImageForDevice",
        "cudaErrorInvalidDeviceFunction",
        src=_DRIVER + "; ptxas",
    ),
    row(
        "version.driver",
        Cause.VERSION_MISMATCH,
        CAUSE,
        "river version is insufficient",
        "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        "CUDA_ERROR_COMPAT_NOT_SUPPORTED",
        "forward compatibility was attempted",
        "unsupported display driver / cuda driver",
        "NVIDIA driver on your system is too old",
        "river/library version mismatch",
        "API mismatch:",
        "does not match DSO version",
        "cudaErrorInsufficientDriver",
        "CUDA_ERROR_STUB_LIBRARY",
        rx=r"river version is insufficient|DRIVER_MISMATCH|COMPAT_NOT_SUPPORTED"
        r"|forward compatibility was attempted|unsupported display driver / cuda"
        r"|NVIDIA driver on your system is too old|river/library version mismatch"
        r"|NVRM: API mismatch|does not match DSO version|InsufficientDriver"
        r"|CUDA_ERROR_STUB_LIBRARY",
        src=_DRIVER + "; nvml.h; tensorflow: cuda_diagnostics.cc",
    ),
    row(
        "version.toolkit_missing",
        Cause.VERSION_MISMATCH,
        CAUSE,
        "libdevice not found",
        "libdevice is required",
        "JIT compilation failed",
        "libNVVM",
        "ptxas exited with non-zero",
        "ptxas fatal",
        "nresolved extern function",
        "Could not load library lib",
        "Unable to load any of {lib",
        "Invalid handle. Cannot load symbol",
        "Cannot load symbol",
        rx=r"libdevice (?:not found at|is required)|JIT compilation failed"
        r"|ptxas exited with non-zero|ptxas fatal\b(?!.*[Mm]emory alloc)"
        r"|nresolved extern function|Could not load library lib(?:cu|nv)"
        r"|Unable to load any of \{lib|Cannot load symbol cu",
        src="xla: service/gpu/llvm_gpu_backend, asm_compiler.cc; cuDNN: dlopen shim",
    ),
    row(
        "version.shared_library",
        Cause.VERSION_MISMATCH,
        CAUSE - 5,
        "cannot open shared object file",
        "undefined symbol:",
        "GLIBC",
        "GLIBCXX_",
        "DLL load failed",
        "symbol lookup error",
        "WinError ",
        rx=r"(?:ImportError|OSError|error|Error)\b.*: cannot open shared object file"
        r"|undefined symbol: \w|version `?GLIBC[\w.]*' not found|DLL load failed"
        r"|symbol lookup error|WinError 12[67]\]",
        src="glibc: elf/dl-load.c, dl-lookup.c; Windows loader",
    ),
    row(
        "version.compiled_differently",
        Cause.VERSION_MISMATCH,
        CAUSE - 5,
        "compiled to use",
        "were compiled with different CUDA major versions",
        "binary incompatibility",
        "compiled against API version",
        "compiled using NumPy",
        "compiled against ABI version",
        "Descriptors cannot be created directly",
        "Detected incompatible Protobuf",
        "is not compatible with the current PyTorch installation",
        "requires TensorFlow",
        "Torch not compiled with CUDA",
        "Found no NVIDIA driver",
        "Keras requires",
        rx=r"library was compiled to use \S+ instructions|different CUDA major versions"
        r"|binary incompatibility|compiled against A[PB]I version"
        r"|Descriptors cannot be created directly|Detected incompatible Protobuf"
        r"|Torch not compiled with CUDA|Found no NVIDIA driver"
        r"|(?:Error|requires).*requires TensorFlow (?:version|>=)",
        src="tensorflow: platform/cpu_feature_guard.cc; numpy; protobuf; pytorch",
    ),
    cascade(
        "version.library_not_loaded",
        Cause.VERSION_MISMATCH,
        HINT,
        "Could not load dynamic library",
        "Cannot dlopen",
        "Ignoring visible gpu device",
        "not compatible with the current PyTorch installation",
        "compiled using NumPy",
        src="tensorflow: common_runtime/gpu/gpu_device.cc",
    ),
)

ROWS = (*FAULT, *CUDNN, *CUBLAS, *DRIVER, *VERSION)
