"""Signatures: numbers of CUDA's statuses, and messages that stand without their type.

Logs lose the first word of what they quote: launchers, notebooks and C++ print what an
exception says without its name, and checks of glog the number of a status alone.
"""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.signature import (
    CAUSE,
    EXCEPTION,
    HARDWARE,
    LIBRARY,
    SYMPTOM,
    Signature,
    cascade,
    row,
)

_RUNTIME = "CUDA: driver_types.h (cudaError), cuda.h (CUresult), HIP: hip_runtime_api.h"


def _numbered(name: str, cause: Cause, weight: int, numbers: str) -> Signature:
    """A row of these statuses of CUDA, told as numbers."""
    return row(
        name,
        cause,
        weight,
        # Begins with one of a few letters: those the search skips ahead to.
        rx=rf"[CcHhGE](?:(?:udaSuccess|ipSuccess|UDA_SUCCESS)\)? ?\((?:{numbers}) vs\. 0\)"
        rf"|(?:UDA|uda|IP|ip|Uresult|PU)(?: runtime| driver| API)?[ _]?"
        rf"(?:[Ee]rror|ERROR|[Ff]ailure|[Ss]tatus|result)"
        rf"(?: code| number| \w+\(\))?\W{{0,3}}(?:{numbers})(?:\b(?![.,]\d)(?! ?MB)|\()"
        rf"|(?<!\wE)(?<!NCCL E)rror (?:{numbers}): \w)",
        src=_RUNTIME,
    )


CODES = (
    row(
        "cuda.checked_allocation",
        Cause.DEVICE_OOM,
        CAUSE,
        rx=r"Check failed: .*\b(?:cuda|hip)(?:Malloc|MemAlloc)\w*\((?!.*out of memory\W*\()"
        r"|Check failed: .*(?:cuda|hip)Success.*out of memory"
        r"|(?:HIP|HIP runtime|Triton) [Ee]rror\W*(?:\[\w+\]: )?out of memory"
        r"|\[CUDA\]:? out of memory|Out of memory error on GPU|CUDA error\(2\)",
        src="glog: Check failed; paddle: fluid/memory/allocation/cuda_allocator.cc; "
        "LightGBM: include/LightGBM/cuda/cuda_utils.hu; triton, as people's logs "
        "have it",
    ),
    _numbered("cuda.number_memory", Cause.DEVICE_OOM, CAUSE, "2"),
    _numbered(
        "cuda.number_fault",
        Cause.CUDA_FAULT,
        LIBRARY + 5,
        "4|30|59|7[347]|700|70[129]|71[056789]|720|999",
    ),
    _numbered(
        "cuda.number_version",
        Cause.VERSION_MISMATCH,
        CAUSE,
        "8|35|36|48|98|209|21[89]|22[1-5]|80[2345]",
    ),
    _numbered("cuda.number_hardware", Cause.GPU_HARDWARE, HARDWARE, "214|220|226|714"),
    _numbered("cuda.number_device", Cause.USER_ERROR, LIBRARY, "10|38|100|101"),
    row(
        "cudnn.checked_call",
        Cause.CUDNN_EXEC,
        LIBRARY - 1,
        rx=r"Check failed: .*\bcudnn(?!Create\()[A-Z]\w+\(.*CUDNN_STATUS_SUCCESS"
        r"|CUDNN_STATUS_SUCCESS\)? ?\((?!0 |1 |2 )\d+ vs\. 0\)",
        src="mxnet: src/common/cuda/utils.h (CUDNN_CALL); caffe: "
        "include/caffe/util/cudnn.hpp (CUDNN_CHECK)",
    ),
    row(
        "cudnn.checked_handle",
        Cause.CUDNN_INIT,
        LIBRARY,
        rx=r"Check failed: .*\bcudnnCreate\(|CUDNN_STATUS_SUCCESS\)? ?\(1 vs\. 0\)",
        src="mxnet: src/common/cuda/utils.h; caffe: include/caffe/util/cudnn.hpp",
    ),
    row(
        "cudnn.checked_memory",
        Cause.CUDNN_ALLOC,
        LIBRARY,
        rx=r"CUDNN_STATUS_SUCCESS\)? ?\(2 vs\. 0\)",
        src="caffe: include/caffe/util/cudnn.hpp, CUDNN_STATUS_ALLOC_FAILED",
    ),
)

_WHO_FAILED = (
    r"(?:[Tt]raining|[Rr]un|[Jj]ob|[Ss]cript|[Pp]rogram|[Ee]xperiment|[Tt]ask|[Ww]orker|[Tt]rial"
    r"|[Pp]ipeline|[Ee]xecution|[Mm]ain)\b.{0,25}(?:[Ff]ailed|[Cc]rashed|[Aa]borted|[Ee]rror)"
    r"\b.{0,25}: "
)
"""What a script prints before ``str(exception)``: who failed, so that it does not go on."""

UNTYPED = (
    cascade(
        "python.untyped",
        Cause.USER_ERROR,
        EXCEPTION - 2,
        rx=_WHO_FAILED
        + r"(?:No module named '|'?\w+'? object (?:has no attr|is not|does not)"
        r"|name '\w+' is not def|\w+(?:\.\w+)*\(\) (?:got an? |missing \d|takes )|list index out of"
        r"|unsupported operand type|invalid literal for|could not convert str|not enough values "
        r"to unpack|too many values to unpack|division by zero|cannot unpack non|local variable '"
        r"|cannot access local|cannot import name)",
        src="cpython: Objects, Python/errors.c, of an exception printed without its type",
    ),
    cascade(
        "python.untyped_file",
        Cause.DATA_ERROR,
        EXCEPTION - 2,
        rx=_WHO_FAILED + r"\[Errno (?:2|13|20|21)\] ",
        src="cpython: Objects/exceptions.c (OSError), printed without its type",
    ),
    cascade(
        "tf.shapes_untyped",
        Cause.USER_ERROR,
        EXCEPTION - 2,
        rx=r"Incompatible shapes: \[|Matrix size-incompatible|ogits and labels must (?:be|have)"
        r"|ConcatOp : Dim|Input to reshape is a tensor with|indices\[.*\] = .* is not in \["
        r"|You must feed a value for placeholder|Cannot batch tensors with different shapes"
        r"|Initializer expected to generate shape|flax\.errors\.html#"
        r"|is incompatible with the layer: expected|Data cardinality is ambiguous"
        r"|Negative dimension size caused by",
        src="tensorflow's library; keras: layers/input_spec.py, "
        "trainers/data_adapters/data_adapter_utils.py; flax: errors.py",
    ),
    cascade(
        "torch.shapes_untyped",
        Cause.USER_ERROR,
        EXCEPTION - 2,
        rx=r"size mismatch for |mat1 and mat2 shapes cannot|The size of tensor a \(|Expected "
        r"input batch_size|expected scalar type \w+ but|Given groups=|is invalid for input of "
        r"size|backward through the graph a second time|does not require grad and does not"
        r"|modified by an inplace operation|\) and weight type \(|stack expects each tensor"
        r"|in loading state_dict for|Sizes of tensors must match|running_mean should contain",
        src="pytorch: its operators, autograd and modules",
    ),
    cascade(
        "caffe.input_unreadable",
        Cause.DATA_ERROR,
        SYMPTOM + 2,
        rx=r"(?:^|\W)F\d{4} [^]]*\] .*(?:No such file|mdb_status|[Cc]ould not open|[Ff]ailed to "
        r"open|[Nn]ot found|leveldb)",
        src="caffe: src/caffe/util/io.cpp, util/db_leveldb.cpp, "
        "layers/hdf5_data_layer.cpp, include/caffe/util/db_lmdb.hpp",
    ),
    cascade(
        "caffe.net_refused",
        Cause.USER_ERROR,
        SYMPTOM + 1,
        rx=r"(?:^|\W)F\d{4} [^]]*\b(?:\w*net|\w*layer\w*|blob|upgrade_proto|insert_splits"
        r"|solver\w*|reshape\w*|filler|gflags\w*)\.[ch]pp:\d+\]",
        src="caffe: src/caffe/net.cpp, layers/*.cpp: checks of what a net is made of",
    ),
    row(
        "errno.too_many_files",
        Cause.USER_ERROR,
        EXCEPTION + 5,
        rx=r"Too many open files|received \d+ items of ancdata|\bEMFILE\b",
        src="errno.h EMFILE, a limit of the process; cpython: multiprocessing/reduction.py",
    ),
    row(
        "hub.not_given",
        Cause.USER_ERROR,
        EXCEPTION + 6,
        rx=r"is not a local folder and is not a valid model id|ncorrect path_or_model_id"
        r"|does not appear to have a file named|trying to access a gated repo"
        r"|Can't load (?:tokenizer|config\w*|the \w+|feature extractor|image processor) for"
        r"|Repo id must (?:be|use)|Repository Not Found for url|ould not find a valid "
        r"(?:config|model)|pull access denied|failed to pull image|ImagePullBackOff"
        r"|ErrImagePull|InvalidImageName|CreateContainerConfigError"
        r"|executable file not found in \$PATH|unknown runtime specified"
        r"|could not select device driver|status=20[0-9]/[A-Z]|status=21[0-9]/[A-Z]",
        src="transformers; huggingface_hub: utils/_http.py, utils/_validators.py; "
        "docker; kubernetes; systemd",
    ),
    row(
        "script.flags",
        Cause.USER_ERROR,
        LIBRARY - 11,
        rx=r"FATAL Flags parsing error|Unknown command line flag|^Error: (?:No such (?:option"
        r"|command)|Invalid value for|Missing (?:option|argument))|Missing mandatory value"
        r"|Could not override '|Key '\w+' is not in struct|error: the following arguments"
        r"|unrecognized arguments|[Uu]nrecognized option|invalid option -- "
        r"|Fatal Python error: init_fs_encoding|Error parsing text-format"
        r"|No such command|^\S*sh: (?:line \d+: )?\S+: (?:Permission denied|No such file)"
        r"|/dev/(?:kfd|dri|nvidia|accel)\S*:? .{0,30}(?:Permission denied|resource busy)"
        r"|TPU is already in use|submission failed: Invalid|not enough slots available",
        src="absl: app.py, flags/_exceptions.py; click: exceptions.py; hydra: "
        "_internal/defaults_list.py; omegaconf: dictconfig.py, basecontainer.py; "
        "protobuf; slurm: src/sbatch/sbatch.c; prrte: help-prte-rmaps-base.txt; "
        "bash; libtpu",
    ),
)

ENDS = (
    row(
        "torch.loader_timeout",
        Cause.STALLED,
        EXCEPTION + 6,
        rx=r"DataLoader timed out after|self-detected stall|detected stalls on CPU"
        r"|result 'watchdog'|\(limit \d+min\)!",
        src="pytorch; linux; systemd",
    ),
    cascade(
        "launcher.asked_to_end",
        Cause.PREEMPTED,
        SYMPTOM,
        rx=r"status=15/TERM|status=2/INT|result 'timeout'|died with <Signals\.SIG(?:TERM|INT)"
        r"|(?:exit code|exitcode|exited with code|Exit Code|exit status)\W{1,4}(?:143|130|-15"
        r"|-2)\b|interrupted by signal (?:15|2)\b",
        src="systemd; bash: 128 + SIGTERM or SIGINT; torchrun",
    ),
    cascade(
        "systemd.unit_failed",
        Cause.UNKNOWN,
        SYMPTOM - 2,
        rx=r"code=exited, status=[1-9]|Failed with result '(?:exit-code|signal)'"
        r"|CrashLoopBackOff|BackoffLimitExceeded|MountVolume\.\w+ failed",
        src="systemd; kubernetes",
    ),
    row(
        "platform.ended_it",
        Cause.PREEMPTED,
        CAUSE,
        rx=r"Job was active longer than specified deadline|MaxRuntimeExceeded|DUE to SIGNAL Terminated"
        r"|Stopping the training job|scancel: Terminating|imminent node shutdown"
        r"|INTERRUPTED_BY_NO_CAPACITY|MaxWaitTimeExceeded|[Ss]pot (?:instance|VM|node)\S* "
        r"(?:was |has been |is being )?(?:interrupted|reclaimed|terminated|evicted)"
        r"|State: (?:TIMEOUT|CANCELLED|PREEMPTED|NODE_FAIL)|\b(?:TIMEOUT|PREEMPTED|NODE_FAIL)"
        r"\s+\d+:\d+|Signals?\.SIGINT death|closing signal SIG(?:INT|HUP)",
        src="kubernetes; SageMaker: SecondaryStatus; dstack: core/models/runs.py; "
        "slurm: sacct, src/scancel/scancel.c, src/slurmd/slurmstepd/req.c; "
        "torchrun: elastic/agent/server/api.py",
    ),
)

ROWS = (*CODES, *UNTYPED, *ENDS)
