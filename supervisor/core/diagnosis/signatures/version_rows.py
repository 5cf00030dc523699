"""Signatures: driver, CUDA, libraries and framework that do not go together."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.signature import (
    CAUSE,
    EXCEPTION,
    HINT,
    LIBRARY,
    cascade,
    row,
)

_LIBRARY = (
    r"(?:jax|jaxlib|tensorflow\w*|keras|tf_keras|torch|torchvision|torchaudio|torchtext|numpy"
    r"|google\.protobuf|flax|optax|orbax|chex|haiku|triton|transformers|accelerate|diffusers"
    r"|peft|datasets|scipy|sklearn|pandas|h5py|PIL|cv2|ml_dtypes|pytorch_lightning|lightning"
    r"|torchmetrics|deepspeed|apex|bitsandbytes|flash_attn|xformers|mmcv|mmengine|detectron2"
    r"|huggingface_hub|tokenizers|numba|pyarrow|horovod|onnx|onnxruntime|tensorrt|gym"
    r"|distutils|setuptools|pkg_resources|collections|inspect|time|fractions|asyncio|typing"
    r"|matplotlib|tensorboard|wandb|ray|megatron|paddle|mxnet|xgboost|lightgbm|cupy)"
)
_DRIVER = "CUDA: cuda.h (CUresult), cudaGetErrorString"

ROWS = (
    row(
        "version.cudnn_loaded",
        Cause.VERSION_MISMATCH,
        CAUSE + 1,
        rx=r"Loaded (?:runtime )?[Cc]u[Dd][Nn][Nn].*but source was compiled with"
        r"|cuDNN version incompatibility|but PyTorch was compiled",
        src="tensorflow: stream_executor/cuda/cuda_dnn.cc; pytorch: backends/cudnn",
    ),
    row(
        "version.jax_built_against",
        Cause.VERSION_MISMATCH,
        CAUSE,
        rx=r"Found \w+ version .*but JAX was built against|CUDA backend failed to init"
        r"|requires ptxas version|jaxlib (?:is )?version .*(?:incompatible|but|older)"
        r"|Outdated cu|Jax plugin configuration error",
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
        "hipErrorNoDevice",
        "hipErrorInvalidDeviceFunction",
        "hipErrorInvalidImage",
        "hipErrorInsufficientDriver",
        "miopenStatusVersionMismatch",
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
        rx=r"river version is insufficient|DRIVER_MISMATCH|COMPAT_NOT_SUPPORTED"
        r"|forward compatibility was attempted|unsupported display driver / cuda"
        r"|NVIDIA driver on your system is too old|river/library version mismatch"
        r"|NVRM: API mismatch|does not match DSO version|InsufficientDriver"
        r"|CUDA_ERROR_STUB_LIBRARY|NVMLError_(?:LibRmVersion|DriverNotLoaded)"
        r"|couldn't communicate with the NVIDIA driver",
        src=_DRIVER + "; nvml.h; tensorflow: cuda_diagnostics.cc",
    ),
    row(
        "version.toolkit_missing",
        Cause.VERSION_MISMATCH,
        CAUSE,
        rx=r"libdevice (?:not found at|is required)|JIT compilation failed"
        r"|UNIMPLEMENTED: ptxas too old|ptxas exited with non-zero|ptxas fatal\b(?!.*[Mm]emory alloc)"
        r"|nresolved extern function|Could not load library lib(?:cu|nv)"
        r"|Unable to load any of \{lib|cuDNN could not be found or could not be loaded"
        r"|Cannot load symbol cu|failed to get PTX kernel .*NOT_FOUND",
        src="xla: service/gpu/llvm_gpu_backend, asm_compiler.cc; cuDNN: dlopen shim",
    ),
    row(
        "version.shared_library",
        Cause.VERSION_MISMATCH,
        CAUSE - 5,
        rx=r"(?:ImportError|OSError|(?<!dl)error"
        r"|Error)\b.*: cannot open shared object file"
        r"|undefined symbol: \w|version `?GLIBC[\w.]*' not found|DLL load failed"
        r"|symbol lookup error|WinError (?:12[67]|193)\]",
        src="glibc: elf/dl-load.c, dl-lookup.c; Windows loader",
    ),
    row(
        "version.compiled_differently",
        Cause.VERSION_MISMATCH,
        CAUSE - 5,
        rx=r"library was compiled to use \S+ instructions|different CUDA major versions"
        r"|binary incompatibility|compiled against A[PB]I version"
        r"|Descriptors cannot (?:not )?be created directly|Detected incompatible Protobuf"
        r"|Torch not compiled with CUDA|Found no NVIDIA driver"
        r"|(?:Error|requires).*requires TensorFlow (?:version|>=)",
        src="tensorflow: platform/cpu_feature_guard.cc; numpy; protobuf; pytorch",
    ),
    row(
        "version.api_missing",
        Cause.VERSION_MISMATCH,
        EXCEPTION + 3,
        # With a name that is nearly the same, the script has a slip of the pen.
        rx=rf"(?:AttributeError: |^)module '{_LIBRARY}[\w.]*' has no attribute(?!.*Did you mean)"
        rf"|(?:ImportError: |^)cannot import name '\w+' from (?:partially initialized module )?"
        rf"'{_LIBRARY}\b[\w.]*'|cannot import name '\w+' from '(?:[\w.]+)' "
        rf"\(.*(?:site|dist)-packages"
        r"|Error: .*\b(?:was|were|been|is) removed (?:in|from|since|as of)\b.{0,25}\d"
        r"|Could not interpret (?:optimizer|loss) identifier.*<|PY_SSIZE_T_CLEAN macro must",
        src="jax: _src/deprecations.py; numpy: __init__.py; keras: "
        "optimizers/__init__.py, losses/__init__.py; cpython: one library looked "
        "for what another, of another version, does not have",
    ),
    row(
        "version.module_moved",
        Cause.VERSION_MISMATCH,
        LIBRARY - 10,
        rx=rf"No module named '?{_LIBRARY}\.\w",
        src="cpython: it is in other versions of the library",
    ),
    row(
        "version.said",
        Cause.VERSION_MISMATCH,
        CAUSE - 5,
        rx=r"nvlink fatal|newer than toolkit|nvcc fatal|unsupported GNU version|-- unsupported "
        r"|does not match the version|mismatches the version|VersionConflict\b|too old to be"
        r"|is required for a normal functioning|installation may be too old|PJRT API version"
        r"|_ARRAY_API not found|multiarray failed to import|CUDA Setup failed despite"
        r"|Symbol not found: |symbol not found in flat|Library not loaded: |incompatible arch"
        r"|wrong ELF class|exec format error|Exec format error|unsupported pickle protocol"
        r"|bad marshal data|Weights only load failed|Error building extension"
        r"|unsatisfied condition: cuda|build proto file into descriptor"
        r"|no attribute 'GetPrototype'|Unable to convert function return value"
        r"|Unrecognized keyword arguments: \['batch_shape'|CUDAMismatchException"
        r"|only supports Ampere GPUs|initialization of _internal failed|ABI (?:version )?mism"
        r"|Could not load library \S*(?:cudnn|cublas|nvrtc|cu\w+\d)|Could not locate zlibwapi"
        r"|invalid ELF header|cannot enable executable stack|cublasLt\S* not found"
        r"|rocBLAS error: Cannot read|TensileLibrary|unsupported GPU arch|\bgfx\d\w+ is not "
        r"|not available in this (?:library|build|version)|GPU Tree Learner was not enabled"
        r"|(?:not|n't) (?:been )?(?:built|compiled) with (?:GPU|CUDA|cuDNN|NCCL|MPI|TPU|ROCm)"
        r"|system not yet initialized|GPU architecture is not supported",
        src="nvlink, nvcc; nvidia-container-cli; pip; transformers; numpy; macOS: "
        "dyld; linux; glibc; cpython: pickle, marshal; bitsandbytes; keras; "
        "protobuf; pybind11; deepspeed: op_builder/builder.py; flash_attn: "
        "csrc/flash_attn/flash_api.cpp; LightGBM: "
        "src/treelearner/gpu_tree_learner.h; xgboost: src/common/common.h; "
        "pytorch; numba; rocBLAS; CUDA: cudaErrorSystemNotReady, without the "
        "fabric manager of the driver's version; others as people's logs have it",
    ),
    row(
        "openmp.twice",
        Cause.VERSION_MISMATCH,
        EXCEPTION,
        rx=r"OMP: Error #\d+:",
        src="openmp: runtime/src/kmp_runtime.cpp: two libraries bring one each",
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
