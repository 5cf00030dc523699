"""Signatures: cuDNN and cuBLAS, and their relatives."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.signature import (
    CAUSE,
    LIBRARY,
    SYMPTOM,
    cascade,
    row,
)

_CUDNN = "cuDNN: cudnn_graph.h (cudnnStatus_t); tensorflow: cuda_dnn.cc"
_CUBLAS = "cuBLAS: cublas_api.h; tensorflow: stream_executor/cuda/cuda_blas.cc"
_MIOPEN = "MIOpen: include/miopen/miopen.h (miopenStatus_t), src/hip/handlehip.cpp"

ROWS = (
    # cuDNN.
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
        "ailed to initialize cuDNN",
        "DNN library initialization failed",
        "DNN library is not found",
        "No DNN for stream",
        "No DNN in stream executor",
        "ail to find the dnn implementation",
        "cuDNN was not initialized",
        "reation of compilation cudnn handle failed",
        "dnn != nullptr",
        src="tensorflow: core/kernels/conv_ops.cc, cudnn_rnn_ops.cc; xla: dnn.cc, "
        "service/gpu/gpu_compiler.cc",
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
        rx=r"(?<!destroy cudnn handle: )CUDNN_STATUS_(?!SUCCESS)(?!ALLOC_FAILED)"
        r"(?!NOT_INITIALIZED)(?:(?!create cudnn handle).)*$",
        src=_CUDNN,
    ),
    row(
        "cudnn.no_algorithm",
        Cause.CUDNN_EXEC,
        LIBRARY - 2,
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
    # MIOpen.
    row(
        "miopen.alloc_failed",
        Cause.CUDNN_ALLOC,
        LIBRARY + 2,
        "miopenStatusAllocFailed",
        src=_MIOPEN,
    ),
    row(
        "miopen.no_handle",
        Cause.CUDNN_INIT,
        LIBRARY + 1,
        "ould not create miopen handle",
        "miopenStatusNotInitialized",
        src=_MIOPEN,
    ),
    row(
        "miopen.not_compiled",
        Cause.VERSION_MISMATCH,
        LIBRARY,
        rx=r"HIPRTC_ERROR_|MIOpen Error: .*Code object build failed",
        src="MIOpen: src/hipoc/hipoc_program.cpp; HIP: hiprtc.h",
    ),
    row(
        "miopen.failed",
        Cause.CUDNN_EXEC,
        LIBRARY - 1,
        rx=r"miopenStatus(?!Success\b(?! \(\d+ vs))|MIOpen Error: ",
        src=_MIOPEN,
    ),
    # cuBLAS.
    row(
        "cublas.no_handle",
        Cause.CUBLAS,
        LIBRARY,
        rx=r"ailed to create (?:cu|roc)blas handle"
        r"|CUBLAS_STATUS_(?!SUCCESS(?! \(\d+ vs)|ARCH)"
        r"|HIPBLAS_STATUS_(?!SUCCESS)|rocblas_status_(?!success)"
        r"|CUSOLVER_STATUS_(?!SUCCESS)|CUSPARSE_STATUS_(?!SUCCESS)"
        r"|cuSolver internal error|cusolver error|cuFFT error|\bCUFFT_(?!SUCCESS)[A-Z]"
        r"|CURAND_STATUS_(?!SUCCESS)|rocBLAS error: "
        r"|Check failed: .*\bCU(?:BLAS|SPARSE|SOLVER|RAND|FFT)_(?:STATUS_)?SUCCESS",
        src=_CUBLAS,
    ),
    row(
        "cublas.launch_failed",
        Cause.CUBLAS,
        LIBRARY - 1,
        rx=r"Blas \w*(?:GEMM|GEMV|SCAL)\w* launch failed|without BLAS support"
        r"|No [Bb]las (?:support )?for stream|failed to run cuBLAS routine"
        r"|GetBlasGemmAlgorithms|cuBlas call failed|Failed to create cuBlas",
        src=_CUBLAS,
    ),
)
