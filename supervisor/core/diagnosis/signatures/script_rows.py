"""Signatures: losses that are no numbers, and scripts at fault.

An exception's type decides only where nothing more telling stands in the log.
"""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.signature import (
    CAUSE,
    EXCEPTION,
    HINT,
    LIBRARY,
    SYMPTOM,
    Where,
    cascade,
    raised,
    row,
)

READ_ONLY = "script.read_only"
"""Row of an exception of a file that could not be written, for its file system is
read-only: the kernel says so (EROFS) to nobody who reads."""
NO_DEVICE = "script.no_device"
"""Row of an exception for want of a device: why there is none, a warning may say."""
_PYTHON = "cpython: Objects/exceptions.c"
_TF = "tensorflow: python/framework/errors_impl.py"

ROWS = (
    # Losses that are no numbers.
    row(
        "loss.stopped",
        Cause.NON_FINITE_LOSS,
        CAUSE - 5,
        rx=r"Invalid loss, terminating|NaN loss during|diverged with loss"
        r"|NanLossDuringTraining|[Ll]oss is (?:nan|NaN|inf)|[Ll]oss.*is not finite"
        r"|[Ll]oss became (?:NaN|infinite) (?:at|between) step|[Nn]on-finite loss|infinite loss|loss scale (?:reached|already at minimum)"
        r"|found (?:NaN|Inf) in|Unexpected result (?:nan|inf)|\w has invalid values|contains `inf`"
        r"|Skipped \d+ iterations in a row|ignored a value of (?:nan|inf)"
        r"|[Ll]oss (?:went to|exploded|has diverged|turned|was) ?(?:nan|NaN|inf|\W)"
        r"|(?:[Ee]ncountered|[Dd]etected|[Gg]ot) (?:a )?(?:nan|NaN|NAN|non-finite) (?:in )?"
        r"(?:the )?(?:training )?(?:[Ll]oss|[Gg]rad)|[Gg]rad\w*(?: norm)? (?:is|are|became|"
        r"contains?) (?:[Nn]a[Nn]|[Ii]nf|non-finite)|^\s*\d+: -?nan, -?nan avg"
        r"|loss returned in `\w+` is (?:nan|inf)|NaN or Inf (?:found in|loss)"
        r"|^\s*\d+/\d+\s+[\d.]+G(?:\s+[\d.]+)*\s+nan\s",
        src="keras: callbacks/terminate_on_nan.py; tensorflow: "
        "basic_session_run_hooks; ultralytics: engine/trainer.py, a row of "
        "losses; trainers: fit/failed_steps; Megatron-LM: "
        "core/rerun_state_machine.py, distributed/param_and_grad_buffer.py; "
        "gpt-neox: megatron/utils.py; yolact: utils/functions.py; xgboost: "
        "src/common/error_msg.h; lightning: pytorch/loops/utilities.py; darknet: "
        "examples",
    ),
    row(
        "numerics.checked",
        Cause.NON_FINITE_LOSS,
        CAUSE - 5,
        rx=r"Tensor had -?(?:NaN|Inf)|Detected Infinity or NaN|summary histogram for"
        r"|returned nan values|contains either `inf`|found invalid values:"
        r"|nvalid value \((?:nan|inf)\)|(?:Error|input|Input)\b.*contains? (?:NaN|infini)"
        r"|Detected nan/inf|Error: cannot convert float (?:NaN|infinity) to integer"
        r"|Error: ?.*\b(?:NaNs?|NAN|nan or inf|non-finite values)\b",
        src="tensorflow: check_numerics_op.cc; pytorch: anomaly_mode.py; jax: api.py",
    ),
    row(
        "numerics.scale_vanished",
        Cause.NON_FINITE_LOSS,
        CAUSE - 5,
        rx=r"loss scale to [\d.]+e-\d+|(?:[Gg]rad|[Ll]oss)[ _]?scaler?\b.{0,30}(?:\de-(?:0[5-9]"
        r"|[1-9]\d)|too small)",
        src="apex, before amp left it; icefall: whisper/train.py and others; a scale "
        "below 1e-4: no step had finite gradients",
    ),
    raised(
        "numerics.raised",
        Cause.NON_FINITE_LOSS,
        EXCEPTION + 6,
        "FloatingPointError",
        src="numpy: seterr; detectron2: engine/train_loop.py, fairseq: trainer.py, "
        "optim: of a loss or its gradients",
    ),
    cascade(
        "numerics.asserted",
        Cause.NON_FINITE_LOSS,
        EXCEPTION + 6,
        rx=r"^\s*assert .*\b(?:isnan|isfinite|isinf)\(|AssertionError: .*\b(?:[Nn]a[Nn]|inf)\b",
        src="cpython: the line of an assertion that failed, as a traceback quotes it",
    ),
    cascade(
        "numpy.invalid_value",
        Cause.NON_FINITE_LOSS,
        HINT - 2,
        "invalid value encountered",
        "All-NaN slice",
        "overflow encountered",
        src="numpy: RuntimeWarning",
    ),
    # Scripts at fault.
    row(
        "script.bad_call",
        Cause.USER_ERROR,
        LIBRARY - 11,
        rx=r"can't open file '|error: (?:unrecognized arguments|the following arguments"
        r"|argument .*: (?:invalid|expected))"
        r"|(?<!nvidia-smi)(?<!nvcc)(?<!rocm-smi)(?<!lspci)(?<!git): command not found"
        r"|python\S*: No module named|Error: No module named"
        r"|invalid choice: '|error: execve\(\): .*(?:No such file|Permission denied)",
        src="cpython: Modules/main.c, argparse.py; bash; slurm: slurmstepd",
    ),
    row(
        READ_ONLY,
        Cause.USER_ERROR,
        CAUSE,
        rx=r"\w*Error: .*(?:\[Errno 30\]|errno = 30\b|Read-only file system)",
        src="errno.h EROFS; hdf5: H5FDsec2.c; tensorflow: posix_file_system.cc",
        where=Where.EXCEPTION,
    ),
    row(
        NO_DEVICE,
        Cause.USER_ERROR,
        EXCEPTION + 1,
        rx=r"\w*(?:Error|Exception|Exit): .*(?:[Nn]o (?:CUDA |available )?(?:GPU|gpu|CUDA|dev)"
        r"|(?:CUDA|cuda|GPU|gpu)s? (?:is|are|was|were) (?:not|un)|not find (?:a |any )?GPU)",
        src="pytorch; deepspeed: launcher/runner.py",
        where=Where.EXCEPTION,
    ),
    row(
        "script.device",
        Cause.USER_ERROR,
        LIBRARY,
        "invalid device ordinal",
        "Expected all tensors to be on the same device",
        "peer access is already",
        src="CUDA: cudaErrorInvalidDevice; pytorch",
    ),
    raised(
        "script.invalid_argument",
        Cause.USER_ERROR,
        EXCEPTION,
        "InvalidArgumentError",
        "FailedPreconditionError",
        "UnimplementedError",
        "PermissionDeniedError",
        "OutOfRangeError",
        "NotFoundError",
        src=_TF,
    ),
    cascade(
        "tf.op_refused",
        Cause.USER_ERROR,
        EXCEPTION - 2,
        rx=r"(?:OP_REQUIRES failed|is aborting with status).*(?:INVALID_ARG|Invalid arg)"
        r"|label value of .* outside the valid range",
        src="tensorflow: core/framework/op_kernel.cc, local_rendezvous.cc",
    ),
    cascade(
        "python.traceback",
        Cause.USER_ERROR,
        HINT + 4,
        "Traceback (most recent call last)",
        src="cpython: Lib/traceback.py; of an exception with a name of its own",
    ),
    cascade(
        "hydra.error",
        Cause.USER_ERROR,
        HINT + 4,
        "Error executing job with overrides",
        src="hydra: _internal/utils.py, of an exception of the script's",
    ),
    raised(
        "xla.invalid_argument",
        Cause.USER_ERROR,
        EXCEPTION + 1,
        "XlaRuntimeError",
        "JaxRuntimeError",
        rx=r": (?:INVALID_ARGUMENT|UNIMPLEMENTED|FAILED_PRECONDITION|NOT_FOUND)",
        src="jaxlib: xla_client (status codes of abseil)",
    ),
    raised(
        "library.unavailable",
        Cause.NCCL,
        EXCEPTION + 1,
        "XlaRuntimeError",
        "JaxRuntimeError",
        rx=r": (?:DEADLINE_EXCEEDED|UNAVAILABLE|CANCELLED)",
        src="jaxlib: distributed runtime; single processes have no deadlines",
    ),
    raised(
        "xla.callback_raised",
        Cause.USER_ERROR,
        EXCEPTION + 1,
        "XlaRuntimeError",
        "JaxRuntimeError",
        "InternalError",
        "UnknownError",
        rx=r": .*\b(?:Value|Type|Key|Index|Attribute|Runtime|Assertion|Name|NotImplemented"
        r"|ZeroDivision)Error: ",
        src="jaxlib; tensorflow: what a callback raised",
    ),
    raised(
        "library.internal",
        Cause.UNKNOWN,
        EXCEPTION,
        "InternalError",
        "UnknownError",
        "AbortedError",
        "UnavailableError",
        "DeadlineExceededError",
        "CancelledError",
        "XlaRuntimeError",
        "JaxRuntimeError",
        "BrokenProcessPool",
        "CalledProcessError",
        src=_TF,
    ),
    row(
        "library.raised",
        Cause.UNKNOWN,
        EXCEPTION - 2,
        rx=r"(?:torch|triton|jaxlib|jax|tensorflow|keras|numba|cupy|pynvml|pyarrow|h5py"
        r"|grpc|ray|dask|horovod|deepspeed|transformers|datasets|botocore)\.[\w.]*"
        r"(?:\(\w+\))?: ",
        src="cpython: traceback.py: exceptions of modules with names of their own",
        where=Where.EXCEPTION,
    ),
    row(
        "tracker.raised",
        Cause.USER_ERROR,
        EXCEPTION,
        rx=r"(?:visdom|wandb|mlflow|comet_ml|neptune|clearml|tensorboardX|aim)\.[\w.]*"
        r"(?:Error|Exception)",
        src="visdom, wandb, mlflow and others: a server that the script names is not "
        "there",
        where=Where.EXCEPTION,
    ),
    raised(
        "python.peer_gone",
        Cause.UNKNOWN,
        EXCEPTION - 1,
        "ConnectionResetError",
        "BrokenPipeError",
        "ConnectionRefusedError",
        "ConnectionError",
        "TimeoutError",
        src=_PYTHON,
    ),
    raised(
        "launcher.child_failed",
        Cause.UNKNOWN,
        SYMPTOM - 1,
        "ChildFailedError",
        "ProcessExitedException",
        "ProcessRaisedException",
        "RayActorError",
        "ActorDiedError",
        "WorkerCrashedError",
        src="pytorch: distributed/elastic/multiprocessing/errors, ray: exceptions.py: "
        "what else they tell of the child's end says more",
    ),
    raised(
        "python.own_error",
        Cause.USER_ERROR,
        EXCEPTION + 1,
        "ArithmeticError",
        "AssertionError",
        "AttributeError",
        "ImportError",
        "IndentationError",
        "IndexError",
        "IsADirectoryError",
        "KeyError",
        "ModuleNotFoundError",
        "NameError",
        "NotADirectoryError",
        "NotImplementedError",
        "OverflowError",
        "PermissionError",
        "RecursionError",
        "SyntaxError",
        "TabError",
        "TypeError",
        "UnboundLocalError",
        "ValueError",
        "ZeroDivisionError",
        src=_PYTHON,
    ),
    raised(
        "script.standard_input",
        Cause.USER_ERROR,
        EXCEPTION + 2,
        "EOFError",
        rx=r": EOF when reading a line",
        src="cpython: builtin_input; a supervised script has no standard input",
    ),
    row(
        "python.any_exception",
        Cause.USER_ERROR,
        EXCEPTION - 1,
        rx=r"\w*(?:Error|Exception|Exit|StopIteration)(?=:|\s|$)",
        src="PEP 8: exception names",
        where=Where.EXCEPTION,
    ),
)
