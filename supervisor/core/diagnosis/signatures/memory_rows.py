"""Signatures: memory of the device and of the host."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.signature import (
    CAUSE,
    EXCEPTION,
    HINT,
    SYMPTOM,
    benign,
    cascade,
    ended_with,
    raised,
    row,
)

NO_ROOM_TO_BEGIN, NO_ROOM_FOR_KERNEL = (
    "cuda.no_room_to_begin",
    "cuda.no_room_for_kernel",
)
"""Rows of a device on which there is no room for a context, and none for a program."""
RESERVATION_FAILED = frozenset({"cuda.module_out_of_memory", "cuda.reservation_failed"})
"""Rows of a pool that was refused what it asked the device for."""
POOL_LIMIT = "tf.device_created"
"""The row with how much a pool may take, in MiB: ``POOL_LIMIT_MIB``."""
POOL_LIMIT_MIB = r"Created device \S+/device:GPU:\d+ with (?P<mib>\d+) MB memory"
XLA_REFUSED = "xla.out_of_memory.any"
"""The row of what XLA says where a CPU is refused memory, and some GPUs too."""
MEMORY_USAGE = "cudnn.memory_usage"
"""The row with what the driver says of the whole device."""
_BFC = "tensorflow: tsl/framework/bfc_allocator.cc"
_TORCH = "pytorch: c10/cuda/CUDACachingAllocator.cpp"
_CPU = r"(?:device:CPU:\d+|by allocator (?:mkl)?cpu\b)"
_BFC_CPU = r"by allocator bfc_cpu_allocator"

ROWS = (
    # Memory of the device.
    benign("bfc.not_a_failure", "this is not a failure", src=_BFC),
    benign("bfc.hint", "TF_GPU_ALLOCATOR=cuda_malloc_async", src=_BFC),
    benign(
        "xla.rematerialization",
        "reduce memory use below",
        src="xla: hlo_rematerialization.cc",
    ),
    benign(
        "tf.system_memory",
        "of free system memory",
        src="tensorflow: tsl/framework/cpu_allocator_impl.cc",
    ),
    benign(
        POOL_LIMIT,
        rx=POOL_LIMIT_MIB,
        src="tensorflow: core/common_runtime/gpu/gpu_device.cc",
    ),
    benign(
        "tf.oom_hint",
        "report_tensor_allocations_upon_oom",
        src="tensorflow: core/common_runtime/executor.cc",
    ),
    benign(
        "torch.oom_skipped",
        rx=r"(?:ut of memory|OOM)\b.{0,80}\b[Ss]kipping (?:this |the )?(?:batch|update)",
        src="fairseq, ParlAI and scripts that followed them, as people's logs have it; "
        "of the line before it, log_scanner",
    ),
    row(
        "bfc.out_of_memory.cpu_limited",
        Cause.DEVICE_OOM,
        CAUSE,
        rx=rf"\(bfc_cpu_allocator\w*\) ran out of memory|OOM when .*{_BFC_CPU}",
        src=_BFC + " under TF_CPU_BFC_MEM_LIMIT_IN_MB",
    ),
    row(
        "bfc.out_of_memory.cpu",
        Cause.HOST_OOM,
        CAUSE,
        rx=r"Allocator \((?:mkl)?cpu\w*\) ran out of memory",
        src=_BFC,
    ),
    row(
        "tf.oom_when_allocating.cpu",
        Cause.HOST_OOM,
        CAUSE,
        rx=rf"OOM when allocating (?!.*{_BFC_CPU}).*{_CPU}",
        src="tensorflow: core/framework/op_kernel.cc",
    ),
    row(
        "bfc.out_of_memory",
        Cause.DEVICE_OOM,
        CAUSE,
        rx=r"(?:Allocator \((?!(?:mkl)?cpu)[^)]*\)|[Aa]llocator.*GPU.*) ran out of mem",
        src=_BFC,
    ),
    row(
        "tf.oom_when_allocating",
        Cause.DEVICE_OOM,
        CAUSE,
        rx=rf"OOM when allocating (?!.*{_CPU})",
        src="tensorflow: core/framework/op_kernel.cc",
    ),
    row(
        "tf.dst_not_initialized",
        Cause.DEVICE_OOM,
        CAUSE,
        "Dst tensor is not initialized",
        src="tensorflow: core/common_runtime/copy_tensor.cc",
    ),
    row(
        "tf.oom_exception_lost",
        Cause.DEVICE_OOM,
        CAUSE,
        "ResourceExhaustedError.__init__() missing",
        "ResourceExhaustedError' object has no attribute",
        src="tensorflow: python/framework/errors_impl.py, re-raised by Keras",
    ),
    row(
        "xla.out_of_memory.device",
        Cause.DEVICE_OOM,
        CAUSE,
        "ut of memory while trying to allocate",
        "Ran out of memory in memory space",
        "Out of memory in memory space",
        src="xla: pjrt/common_pjrt_client.cc, service/tpu",
    ),
    row(
        "xla.allocation_failed",
        Cause.DEVICE_OOM,
        CAUSE,
        rx=r"Failed to allocate \d+ bytes for new constant"
        r"|[Ff]ailed to allocate request for \S+ \(\d+B\) on device"
        r"|cuMemAllocAsync failed to allocate|EigenAllocator for GPU ran out"
        r"|RESOURCE_EXHAUSTED: Allocation failed"
        r"|ailed to allocate (?:the )?scratch space for the runner",
        src="xla: stream_executor/cuda, gpu_cudamallocasync_allocator.cc",
    ),
    row(
        NO_ROOM_TO_BEGIN,
        Cause.DEVICE_OOM,
        CAUSE,
        rx=r"(?:cuda|hip)SetDevice\(\) on GPU:\d+ failed\. Status: out of memory"
        r"|cuDevicePrimaryCtxRetain\b.*OUT_OF_MEMORY",
        src="tensorflow: core/common_runtime/gpu/gpu_device.cc; xla: cuda_context.cc",
    ),
    row(
        NO_ROOM_FOR_KERNEL,
        Cause.DEVICE_OOM,
        CAUSE,
        rx=r"Check failed: .*(?:GpuLaunchKernel|\bcu\w+|\bhip\w+)\(.*"
        r" is OK \(INTERNAL: out of memory\)",
        src="tensorflow: core/kernels/random_op_gpu.h, util/gpu_kernel_helper.h: CUDA "
        "loads a kernel at its first launch",
    ),
    row(
        "cuda.module_out_of_memory",
        Cause.DEVICE_OOM,
        CAUSE,
        rx=r"(?:CUBIN|PTX|module|cuModuleLoad|cuMemAlloc\b|graph|Error|INTERNAL|"
        r"RESOURCE_EXHAUSTED).*CUDA_ERROR_OUT_OF_MEMORY",
        src="xla: stream_executor/cuda/cuda_executor.cc",
    ),
    row(
        "cuda.runtime_out_of_memory",
        Cause.DEVICE_OOM,
        CAUSE,
        rx=r"CUDA (?:runtime |driver )?(?:error|failure)\W*(?:\(?\w*\)?\W+)?out of memory"
        r"|cuda runtime error \(2\)|cudaErrorMemoryAllocation|hipErrorOutOfMemory"
        r"|Cuda failure (?:\d+ )?'out of memory'|cudaMalloc.*out of memory"
        r"|CUDARuntimeError.*out of memory|OUT_OF_MEMORY.*cuMemAlloc"
        r"|HSA_STATUS_ERROR_OUT_OF_RESOURCES|cuMem\w+ failed: out of memory"
        r"|_ERROR_OUT_OF_DEVICE_MEMORY|CUDA: out of memory|error=2 : out of memory"
        r"|BFCArena.*ailed to allocate memory"
        r"|No available memory for the cache|ot enough GPU (?:video )?memory|GPU out of memory"
        r"|less than desired GPU memory|greater than the maximum allowed buffer size"
        r"|(?:at the bottom of|CL_MEM_OBJECT_ALLOC|nsufficient GPU) ?(?:memory|ATION)"
        r"|memory for requested buffer of size|emory isn't enough and alloc"
        r"|NVML_SUCCESS == r INTERNAL ASSERT FAILED|CallbackErrorOutOfMemory"
        r"|ot enough space to allocate \d+ B (?:DRAM|L1)",
        src="CUDA runtime, error 2; nccl: src/include/checks.h; level zero: ze_api.h;"
        " vllm, onnxruntime (bfc_arena.cc), MindSpore, DirectML, mlx, OpenCL and "
        "TPUs (at the bottom of memory), as people's logs have it; tt-metal: impl/allocator/bank_manager.cpp",
    ),
    row(
        "torch.out_of_memory",
        Cause.DEVICE_OOM,
        CAUSE,
        "CUDA out of memory",
        "HIP out of memory",
        "XPU out of memory",
        "MPS backend out of memory",
        "NPU out of memory",
        src=_TORCH,
    ),
    row(
        "miopen.out_of_memory",
        Cause.DEVICE_OOM,
        CAUSE,
        "Memory not available to allocate buffer",
        src="MIOpen: src/hip/handlehip.cpp, MIGraphX, RPP: the device has less free",
    ),
    row(
        "paddle.out_of_memory",
        Cause.DEVICE_OOM,
        CAUSE,
        "allocating <= available",
        src="paddle: fluid/platform/gpu_info.cc, PADDLE_ENFORCE_LE of its pool",
    ),
    row(
        "torch.out_of_memory_type",
        Cause.DEVICE_OOM,
        CAUSE - 5,
        rx=r"torch\.(?:cuda\.)?OutOfMemoryError",
        src=_TORCH,
    ),
    row(
        "cupy.out_of_memory",
        Cause.DEVICE_OOM,
        CAUSE,
        rx=r"cupy\S*OutOfMemoryError: Out of memory|bad_alloc: out_of_memory: CUDA"
        r"|NCudaLib::TOutOfMemoryError|bytes of device memory \(out of memory\)",
        src="cupy: cuda/memory.pyx; rmm: cuda_memory_resource.hpp; catboost: "
        "cuda/cuda_lib/memory_pool; theano: sandbox/cuda/cuda_ndarray.cu",
    ),
    raised(
        "tf.resource_exhausted",
        Cause.DEVICE_OOM,
        EXCEPTION + 5,
        "ResourceExhaustedError",
        src="tensorflow: python/framework/errors_impl.py",
    ),
    cascade(
        "xla.resource_exhausted",
        Cause.DEVICE_OOM,
        SYMPTOM + 2,
        rx=r"(?:RESOURCE_EXHAUSTED|Resource exhausted)\b(?!.*No space left)",
        src="abseil: absl/status/status.h",
    ),
    cascade(
        MEMORY_USAGE,
        Cause.DEVICE_OOM,
        HINT,
        rx=r"Memory usage: \d+ bytes free, \d+ bytes total",
        src="xla: stream_executor/cuda/cuda_dnn.cc, after a handle was not created",
    ),
    cascade(
        "cuda.reservation_failed",
        Cause.DEVICE_OOM,
        HINT,
        rx=r"[Ff]ailed to allocate .*(?:from device|on device).*OUT_OF_MEMORY"
        r"|CUDA_ERROR_OUT_OF_MEMORY",
        src="tensorflow: stream_executor/cuda/cuda_driver.cc",
    ),
    cascade(
        "cuda.out_of_memory_text",
        Cause.DEVICE_OOM,
        SYMPTOM + 7,
        rx=r"^\s*(?:\w*[Ee]rror: )?out of memory\s*$|NV_ERR_NO_MEMORY|^\s*XLA Label: ",
        src="CUDA: cudaGetErrorString(cudaErrorMemoryAllocation); NVIDIA: nvstatuscodes.h;"
        " xla: the buffers that it lists when none is left",
    ),
    # Memory of the host.
    row(
        "kernel.oom_kill",
        Cause.HOST_OOM,
        CAUSE + 10,
        "ut of memory: Kill",
        "oom-kill:constraint",
        "invoked oom-killer",
        "oom_reaper: reaped",
        "total-vm:",
        "page allocation failure: order",
        "oom_kill_process+0x",
        "oom_kill_process.",
        src="linux: mm/oom_kill.c; its call traces",
    ),
    row(
        "slurm.oom_kill",
        Cause.HOST_OOM,
        CAUSE + 10,
        rx=r"oom[-_]kill event|OOM Killed|tasks? [\d,-]+: Out Of Memory|[Ee]xceeded (?:job|step) memory limit"
        r"|State: OUT_OF_MEMORY|\bOUT_OF_MEMORY\s+0:125|cgroup out-of-memory handler",
        src="slurm: src/plugins/task/cgroup, slurmd/slurmstepd, src/srun/launch.c",
    ),
    row(
        "batch.memory_limit",
        Cause.HOST_OOM,
        CAUSE + 10,
        rx=r"TERM_MEMLIMIT|job killed: v?mem|OOMKilled(?!\W{1,4}[Ff]alse)|by the OOM killer|init was OOM-killed"
        r"|result 'oom-kill'|low on resource: memory|low on memory: "
        r"|(?:[Kk]illed|[Tt]erminated).*due to (?:the node running low on memory|memory "
        r"pressure)|tried to allocate more memory than is available"
        r"|systemd-oomd killed|low memory! at or below SIG|using all available RAM"
        r"|xceeded \d+% memory budget|running beyond (?:physical|virtual) memory limits"
        r"|killed by YARN for exceeding|usage exceeded request_memory|OutOfMemoryError: Java"
        r"|cannot allocate vector of size|runtime: out of memory|Insufficient memory\) Failed"
        r"|WinError (?:8|1450)\]|node ran out of memory|ran out[- ]of[- ]memory and (?:was killed|exited)",
        src="LSF, Torque, Kubernetes, systemd: src/core/service.c, src/oom, earlyoom,"
        " Ray, Dask, Jupyter, Colab, Vertex AI; runc: "
        "libcontainer/process_linux.go; htcondor: condor_utils/param_info.in; "
        "YARN, Spark, Java, R, Go, OpenCV, Windows; 'ran out of memory': nobody's"
        " in particular",
    ),
    row(
        "torch.cpu_allocator",
        Cause.HOST_OOM,
        CAUSE,
        rx=r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)",
        src="pytorch: c10/core/impl/alloc_cpu.cpp",
    ),
    row(
        XLA_REFUSED,
        Cause.HOST_OOM,
        CAUSE,
        rx=r"(?<!OutOfMemoryError: )Out of memory allocating \d+ bytes",
        src="xla: pjrt",
    ),
    row(
        "python.memory_error",
        Cause.HOST_OOM,
        CAUSE,
        rx=r"(?<![A-Za-z])(?:numpy\S*\.)?_?(?:Array)?MemoryError\b",
        src="cpython; numpy: _core/_exceptions.py",
    ),
    row(
        "numpy.unable_to_allocate",
        Cause.HOST_OOM,
        CAUSE,
        rx=r"Unable to allocate .*? for an array",
        src="numpy: _core/_exceptions.py",
    ),
    row(
        "errno.cannot_allocate",
        Cause.HOST_OOM,
        CAUSE,
        rx=r"Cannot allocate memory|Errno 12\]|WinError 1455|paging file is too small"
        r"|std::bad_alloc(?!: out_of_memory: CUDA)|LLVM ERROR: out of memory"
        r"|virtual memory exhausted|_ERROR_OUT_OF_HOST_MEMORY",
        src="errno.h ENOMEM; libstdc++",
    ),
    row(
        "cuda.pinned_host_memory",
        Cause.HOST_OOM,
        CAUSE - 5,
        rx=r"(?:could not|[Ff]ailed to) alloc(?:ate)? (?:pinned )?host(?: memory)?\b"
        r"|(?:could not|[Ff]ailed to) allocate pinned",
        src="tensorflow: stream_executor/cuda/cuda_driver.cc",
    ),
    row(
        "torch.worker_killed",
        Cause.HOST_OOM,
        CAUSE - 10,
        rx=r"killed by signal: (?:Killed|Bus error)|out of shared memory"
        r"|insufficient shared memory|unable to mmap \d+ bytes"
        r"|nable to allocate shared memory",
        src="pytorch: torch/csrc/DataLoader.cpp, utils/data/_utils",
    ),
    cascade(
        "shell.killed",
        Cause.HOST_OOM,
        SYMPTOM + 4,
        rx=r"^\s*(?:\S+:\s)?(?:line \d+:\s+)?(?:.*\s)?\d*\s*Killed\s{2,}\S"
        r"|^\s*(?:\[\d+\][-+]?\s+)?Killed(?:\s*(?:python|\S+\.(?:sh|py)).*)?\s*$"
        r"|^\S+: (?:line )?\d+:\s+(?:\S+: )?\d+ (?:killed|Killed)\b|[\d\]%)]Killed\s*$|^Killed[a-z].* \d+ ?/ ?\d+"
        r"|^(?:zsh: |\[\d+\]\s+(?:[-+]\s+)?\d+ )killed\b|^(?:.*: )?Killed: 9",
        src="bash: jobs.c; dash: jobs.c; zsh: Src/jobs.c, of a process that SIGKILL ended",
    ),
    cascade(
        "shell.killed_translated",
        Cause.HOST_OOM,
        SYMPTOM + 4,
        rx=r"^\W*(?:.*line \d+:\s+)?(?:\d+ )?(?:Getötet|Processus arrêté|Убито|已杀死"
        r"|已砍掉|강제 종료됨|強制終了|Terminado \(killed\))",
        src="glibc, bash: po/*.po, strsignal of SIGKILL",
    ),
    cascade(
        "launcher.sigkill",
        Cause.HOST_OOM,
        SYMPTOM + 2,
        rx=ended_with(-9, 137)
        + r"|tasks? [\d,-]+: Killed|Signal 9 \(SIGKILL\)|died with <Signals\.SIGKILL|on signal 9\b"
        r"|\(interrupted by signal 9:? ?SIGKILL\)|terminated (?:by|with) signal SIGKILL"
        r"|TerminatedWorkerError",
        src="torch: elastic/multiprocessing/errors; subprocess; joblib; slurm: "
        "src/srun/launch.c",
    ),
)
