"""Advice for the person who runs the job, by cause: one or two sentences."""

from collections.abc import Mapping

from supervisor.core.causes import Cause
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.oom_subject import OomSubject

ADVICE: dict[Cause, str] = {
    Cause.NONE: "",
    Cause.DEVICE_OOM: (
        "A training step needs more memory than the device has left. Work through the "
        "batch in smaller slices; what other processes hold on the device counts too."
    ),
    Cause.DEVICE_OOM_FRAGMENTATION: (
        "Enough memory was free, but in pieces. A fresh process usually gets through; "
        "if it comes back on a GPU, set TF_GPU_ALLOCATOR=cuda_malloc_async (TensorFlow) or "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PyTorch)."
    ),
    Cause.HOST_OOM: (
        "The machine or its memory limit ran out of main memory, not the GPU. Look at "
        "data workers, caches and prefetching, or raise the limit of the job."
    ),
    Cause.CUDNN_ALLOC: (
        "cuDNN found no memory for itself: the framework had taken the device. Leave "
        "headroom (memory growth, a lower limit) or use smaller slices."
    ),
    Cause.CUDNN_INIT: (
        "cuDNN did not start. Most often the device's memory was taken already: turn "
        "on memory growth and look for other processes on the GPU; else check that "
        "the cuDNN version fits the framework."
    ),
    Cause.CUDNN_EXEC: (
        "A cuDNN operation failed. If the same step fails again, turn autotuning off "
        "or ask for deterministic algorithms; if it moves about, suspect the GPU."
    ),
    Cause.CUBLAS: (
        "cuBLAS failed, most often for want of memory for its own workspace. Leave "
        "headroom on the device, and look for an index out of range just before."
    ),
    Cause.CUDA_FAULT: (
        "A GPU kernel faulted, and the process cannot use the GPU any more: only a "
        "fresh process can. The same step again points to the code (an index out of "
        "range, say), another one to the GPU or its driver."
    ),
    Cause.GPU_HARDWARE: (
        "The GPU, its memory or its link failed. Do not use it until it was reset or "
        "checked; run nvidia-smi -q and the vendor's diagnostics."
    ),
    Cause.VERSION_MISMATCH: (
        "Driver, CUDA, cuDNN and framework do not go together; a restart cannot help. "
        "Install the versions that this build of the framework asks for."
    ),
    Cause.NCCL: (
        "A collective operation failed or timed out. Look at the other ranks first: "
        "the one that stopped earliest has the cause; then at the network."
    ),
    Cause.NON_FINITE_LOSS: (
        "The loss became NaN or infinite, and where the weights did, too, no further step "
        "mends that. Look for NaN, infinite or very large values in the batches before "
        "that step, and for a logarithm, a root or a division of 0 in the loss; try a "
        "lower learning rate, or clipped gradients (clipnorm=1.0 in the optimizer). "
        "`remedies.skip_batches` and `remedies.lower_rate` in the spec let a run go "
        "around it by itself."
    ),
    Cause.DATA_ERROR: (
        "A file or record is missing or cannot be read. If it is the same one again, "
        "repair or skip it; if not, look at the storage."
    ),
    Cause.DISK_FULL: (
        "There is no room, or no quota, left to write to. Free some; nothing that was "
        "saved before is lost."
    ),
    Cause.USER_ERROR: (
        "The script's own error: where it comes back at the same step, no restart helps. "
        "Its traceback, or the end of its log, says where."
    ),
    Cause.STALLED: (
        "The process lived on without progress. The stacks of its threads tell what "
        "it waited for. If it was only slow there, give it longer: [liveness] in the spec "
        "(step, compile, startup, validation or snapshot)."
    ),
    Cause.UNKILLABLE: (
        "A process hangs in the kernel and cannot be killed, mostly in the GPU driver "
        "or on a dead file system. That GPU stays out of use until a reboot."
    ),
    Cause.NATIVE_CRASH: (
        "Native code crashed, and nothing in the log explains it better. If it comes "
        "back in the same place, report it with the stack to whoever makes what crashed."
    ),
    Cause.PREEMPTED: (
        "Trainwarden did not end the process. Somebody outside did (a scheduler, an "
        "administrator, a key), or the script itself: where it is the same step each "
        "time, look there."
    ),
    Cause.UNKNOWN: (
        "Nothing here names a cause. The end of the log and the exit status are all "
        "there is to go by."
    ),
}

ASK_LOG = frozenset({Cause.USER_ERROR, Cause.UNKNOWN})
"""Causes whose usual advice is to look at the log."""
_CHANGED = (
    "The snapshots are kept. Undo the change, and the same command goes on from the newest "
    "one; --accept-changes goes on with what there is now, where that can be; --fresh begins "
    "anew."
)
_ANOTHER = (
    "The snapshots are kept. If the script, or what it reads, was changed: undo that, and the "
    "same command goes on from the newest one, or let --fresh begin anew. If nothing was "
    "changed, its start made something else than the first time: `trainwarden certify` shows "
    "on a short run whether it does each time, and that is worth a report."
)
OF_REFUSALS: Mapping[RefusalReason, str] = {
    RefusalReason.BATCH_CHANGED: _CHANGED,
    RefusalReason.MODULE_CHANGED: _CHANGED,
    RefusalReason.DATA_CHANGED: _CHANGED,
    RefusalReason.MODEL_CHANGED: _ANOTHER,
    RefusalReason.STATE_CHANGED: _ANOTHER,
    RefusalReason.DEVICE_GONE: "Find out why the driver does not show the GPU (nvidia-smi, "
    "dmesg). Once it does, the same command goes on from the newest snapshot.",
}
"""Where that of the cause says nothing."""
NOT_WRITABLE = (
    "The script could not write that file: its file system is read-only (EROFS). A "
    "restart helps only where that passes by itself, so after the first step there is one. "
    "Let the script write to a directory that can be written to, or have that one mounted "
    "read-write; if it was so before, the kernel log (dmesg) tells why that ended."
)
ONLY_VALIDATION_LOST = (
    "Only the validation loss became NaN or infinite; training went on with a finite loss. "
    "Look at the validation data first: NaN, infinite or very large values, no samples at "
    "all, labels or classes that training never saw; then at what the loss, a metric or a "
    "layer that works otherwise outside of training (BatchNormalization) computes of them: "
    "a logarithm, a root or a division of 0. If it was so in the last epoch alone, look at "
    "the weights as well: they may have become NaN in its last step."
)
"""Of a loss that is no number on validation data alone."""
SIGKILL_FROM_OUTSIDE = (
    "SIGKILL comes from outside, and this log does not say from whom: most often from the "
    "kernel, for want of main memory. Look at `dmesg` or `journalctl -k` for 'Out of memory' "
    "and 'Killed process' at that time; under Slurm ask "
    "`sacct -j JOB --format=State,MaxRSS`, in a container or pod for OOMKilled. If nothing is "
    "there, a scheduler or a person ended it."
)
"""Of a program that did not run here: nobody counted kills of its cgroup."""
SLURM_TIME_LIMIT = (
    "Slurm ended the job at its time limit (--time). Ask for more: `#SBATCH --time=...`; or "
    "let Trainwarden be told before, by `#SBATCH --signal=B:TERM@180` in a batch script "
    "whose last line is `exec trainwarden run ...`: it saves its state and ends with 75, and "
    "with `RequeueExit=75` in slurm.conf and `#SBATCH --requeue` Slurm queues the job again, "
    "which goes on from there (docs/slurm.md, deploy/slurm/train.sbatch)."
)
"""Of a job of Slurm's that took longer than it had asked for."""
SLURM_PREEMPTED = (
    "Slurm preempted the job: another one took its place. With `#SBATCH --requeue`, where the "
    "cluster preempts by requeueing (PreemptMode=REQUEUE), Slurm queues it again. A batch "
    "script whose last line is `exec trainwarden run ...` then goes on: it saves its state "
    "when Slurm sends SIGTERM, within KillWait, or else goes on from its newest snapshot "
    "(docs/slurm.md, deploy/slurm/train.sbatch)."
)
SLURM_CANCELLED = (
    "Slurm's job was cancelled by scancel: by whoever submitted it, a program of theirs, or "
    "an administrator. `sacct -j JOB --format=State%40` names the user (CANCELLED by UID); "
    "nothing in the training is known to be at fault. Slurm does not queue it again: submit "
    "it again under the same name, and under `trainwarden run` it goes on from the state "
    "that it saved (docs/slurm.md)."
)
OWN_ERROR_AT = (
    "The script's own error: where it comes back at the same step, no restart helps. Correct "
    "it; the same command then goes on from the newest snapshot with --accept-changes, where "
    "there is one. It was raised at: {}"
)
"""Of an exception whose place in the script is known."""
ENDED_ITSELF = (
    "The script left by sys.exit or exit (argparse and other libraries call it too), and "
    "that code says that it failed: there is no traceback, and what the code means only "
    "the script, or the end of its log, tells. Look for that call in it, and for what leads "
    "there. Where it is meant as the end of training, let the script end with sys.exit(0): "
    "the run is finished then. The same command goes on from the newest snapshot, where "
    "there is one: with --accept-changes once the script was changed."
)
"""Of a script that ended with a code of its own choice, other than 0."""
ENDED_AT_ONCE = (
    "Look for os._exit in the script and in what it calls, about that step, and at the end of "
    "the log: native code that ends its process mostly prints why before it does."
)
"""Of a process that left in training past Python's own ways out."""
NOT_SAVED = "What was not saved is done again from the newest snapshot."
"""Of an attempt that was asked to end, and ended before its state was saved, ..."""
LONGER_GRACE = (
    "If a training step, or a callback, only takes long, a longer `drain.grace` in the spec "
    "leaves room for it. If it hung, its log says where it was last."
)
"""... as its time for that was over."""
WHOLE_BATCH = (
    "A training step needs more memory than the device has left, and here its batch is not "
    "worked through in slices. Take a smaller batch_size: "
    "gradient_accumulation_steps of Keras' optimizers keeps the effective batch, and mixed "
    "precision takes less; what other processes hold on the device counts too."
)
"""Of a step, where the batch cannot be sliced."""
JAX_FRACTION = (
    "JAX takes three quarters of a GPU at most, unless XLA_PYTHON_CLIENT_MEM_FRACTION "
    "allows it more."
)

DEVICE_FULL = (
    "The device's memory was taken before the program could begin: by other processes, as "
    "nvidia-smi lists them. Wait for them, end them, or give the job another GPU; a smaller "
    "batch does not help."
)
"""Of device memory that ran out before the process had any."""

OUT_OF_REMEDIES = (
    "Smaller parts of the batch do not help any further. Take a smaller model, an "
    "optimizer that keeps less (SGD, Adafactor), 16 bits, or a device with more memory; "
    "what other processes hold on it counts too. `trainwarden advise SCRIPT` tries what "
    "would fit."
)
"""Of device memory, once the remedies are used up: what the usual advice says was tried."""


SLICES_CURED = (
    "Nothing has to be done: the batch is worked through in smaller slices, with the same "
    "effective batch, and training went on. Slices take time: for speed a smaller batch_size "
    "in the script (which changes what is computed) or a device with more memory helps. If "
    "memory ran out again after that, a later incident says what was done then."
)
"""Of memory that slices were the remedy for, once a step was done in them."""
IN_SLICES = frozenset({Cause.DEVICE_OOM, Cause.CUDNN_ALLOC})
"""Causes whose usual advice is to use slices."""


def advice_at_the_end(cause: Cause, advice: str, *, sliced: bool) -> str:
    """``advice`` for a person whose run was given up for ``cause``. ``sliced``: slices
    were tried."""
    spent = sliced and cause is Cause.DEVICE_OOM
    return OUT_OF_REMEDIES if spent and advice == ADVICE[cause] else advice


MISSING_MODULE = (
    "A module that the script imports is not there in the Python that ran it. Install it "
    "there, or name the Python that has it: --python PATH (in a spec: python)."
)
RUN_AS_A_MODULE = (
    "The script belongs to a package, and imports from it. Run it as a module of that "
    "package, from the directory that holds the package: trainwarden run -m package.script"
)
ADVICE_FOR: Mapping[OomSubject | None, str] = {
    OomSubject.WEIGHTS: (
        "The weights of the model do not fit, whatever the batch: slices of the batch, "
        "recomputation and a smaller batch make nothing smaller that stays in memory. "
        "Take a smaller model, weights in 16 bits (a dtype policy of bfloat16 or "
        "float16, not mixed_*), or a device with more memory."
    ),
    OomSubject.OPTIMIZER: (
        "What the optimizer keeps does not fit beside the weights, whatever the batch: "
        "slices of the batch and recomputation make nothing smaller that stays in "
        "memory. Adam keeps two values a weight: SGD without momentum keeps none, Lion "
        "and SGD with momentum one, Adafactor few; or take a smaller model."
    ),
    OomSubject.DATA: (
        "Arrays were made tensors as a whole and do not fit, whatever the batch: slices "
        "of the batch and recomputation do not help. Give fit the data in batches, as "
        "they are needed: a keras.utils.PyDataset, or tf.data.Dataset.from_generator, "
        "that cuts them out of a NumPy array, an np.memmap or files."
    ),
    OomSubject.BATCH: (
        "What lies in memory before the first step leaves no room even to read a batch "
        "and try two samples of it: slices make nothing smaller that stays. Adam keeps two "
        "values a weight: SGD without momentum keeps none, Lion and SGD with momentum "
        "one, Adafactor few; or take a smaller model, or a device with more memory."
    ),
    OomSubject.EVALUATION: (
        "A step of the validation needs more memory than there is, and it is not worked "
        "through in slices: give fit a smaller validation_batch_size, or validation "
        "data in smaller batches."
    ),
    OomSubject.OWN_STEP: (
        "A step of a loop of the script's own needs more memory than there is. Its batch "
        "is the script's: it is not worked through in slices. Take a smaller batch there "
        "(which changes what is computed: you may want another learning rate), train "
        "by fit, where it is sliced, or let a session of trainers.session slice it "
        "(run.slices)."
    ),
    OomSubject.OUTSIDE: (
        "It was no training step: an evaluation, a prediction or code of the script's "
        "own. Give evaluate or predict a smaller batch_size, and keep less in memory."
    ),
}
"""What helps where memory ran out for something else than a training step."""
