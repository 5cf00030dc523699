"""The chaos table: one row a fault, with what has to come of it.

The expectations are those of the table of causes and remedies, not what the code does.
"""

from tests.chaos.rows import ChaosRow, Crash, ExpectedEnd, MachineNeed

PLAIN = ("--plain", "--at", "5")
ALWAYS = ("--times", "0")
FIRST = ("--at", "0")
LIMIT = ("--cpu-memory", "128MiB")
SMALL_LIMIT = ("--cpu-memory", "300MiB")
GIB_LIMIT = ("--cpu-memory", "1GiB")


def onednn(on: int) -> tuple[tuple[str, str], ...]:
    """With or without oneDNN: an exception, or a crash beside it."""
    return (("TF_ENABLE_ONEDNN_OPTS", str(on)),)


MEMORY = (
    ChaosRow(name="oom", what="device memory, jit off, an exception", fault="nothing",
        options=("--hungry",), run=LIMIT, environment=onednn(0), end=ExpectedEnd.FINISHED,
        crashes=(Crash("device_oom", "microbatch", "OOM when|ran out of memory"),)),
    ChaosRow(name="oom-onednn", what="device memory, jit off, SIGSEGV beside it",
        fault="nothing", options=("--hungry",), run=LIMIT, environment=onednn(1),
        end=ExpectedEnd.FINISHED, crashes=(Crash("device_oom", "microbatch"),)),
    ChaosRow(name="oom-jit", what="device memory, jit on", fault="nothing",
        options=("--hungry", "--jit"), run=LIMIT, environment=onednn(0),
        end=ExpectedEnd.FINISHED, crashes=(Crash("device_oom", "microbatch", many=True),)),
    ChaosRow(name="oom-jit-onednn", what="device memory, jit on, oneDNN", fault="nothing",
        options=("--hungry", "--jit"), run=LIMIT, environment=onednn(1),
        end=ExpectedEnd.FINISHED, crashes=(Crash("device_oom", "microbatch", many=True),)),
    ChaosRow(name="oom-oversize", what="one tensor larger than the device, in a callback",
        fault="one-tensor-too-many", run=SMALL_LIMIT, end=ExpectedEnd.STOPPED,
        options=(*ALWAYS, "--megabytes", "500"),
        crashes=(Crash("device_oom", "microbatch", many=True), Crash("device_oom", "stop")),
        sentence="slices (of the batch )?cannot help|not even one sample"),
    ChaosRow(name="oom-before", what="one tensor larger than the device, before training",
        fault="one-tensor-too-many", run=SMALL_LIMIT, end=ExpectedEnd.STOPPED, fast=True,
        options=("--plain", *FIRST, *ALWAYS, "--megabytes", "500"),
        crashes=(Crash("device_oom", "stop"),),
        sentence="outside of training steps"),
    ChaosRow(name="oom-disguised", what="device memory behind cuDNN's INTERNAL_ERROR",
        fault="recorded-disguised_oom", end=ExpectedEnd.FINISHED,
        crashes=(Crash("device_oom", "microbatch", "ran out of memory|Out of memory"),)),
    ChaosRow(name="fragmentation", what="free memory, but in pieces", fault="fragment",
        run=SMALL_LIMIT, options=("--megabytes", "250"),
        crashes=(Crash("device_oom_fragmentation", "restart", "free in the pool"),)),
    ChaosRow(name="host-refused", what="NumPy is refused memory (RLIMIT_AS)",
        fault="memory-error", crashes=(Crash("host_oom", "restart", "MemoryError"),)),
    ChaosRow(name="host-killed", what="the kernel's OOM killer, in a cgroup",
        fault="eat-memory", options=("--megabytes", "4000"), needs=MachineNeed.MEMORY_CGROUP,
        limit_mib=1500, crashes=(Crash("host_oom", "go_on", "are used", maybe=True),
            Crash("host_oom", "restart", "OOM"))),
    ChaosRow(name="host-in-cpp", what="std::bad_alloc that nobody catches", fast=True,
        fault="uncaught-in-cpp", options=PLAIN, end=ExpectedEnd.FINISHED,
        crashes=(Crash("host_oom", "restart", "bad_alloc"),)),
)  # fmt: skip

PROCESS = (
    ChaosRow(name="segv", what="SIGSEGV in training", fault="segmentation-fault",
        crashes=(Crash("native_crash", "restart", "SIGSEGV|Segmentation"),), fast=True),
    ChaosRow(name="segv-again", what="SIGSEGV at the same step each time", end=ExpectedEnd.STOPPED,
        fault="segmentation-fault", options=("--at", "12", *ALWAYS),
        crashes=(Crash("native_crash", "restart", many=True), Crash("native_crash", "stop")),
        sentence="brought no progress"),
    ChaosRow(name="abort", what="SIGABRT in training", fault="abort",
        crashes=(Crash("native_crash", "restart"),)),
    ChaosRow(name="bus", fast=True, what="SIGBUS: a file cut off under its mapping", fault="bus-error",
        options=PLAIN, end=ExpectedEnd.FINISHED, crashes=(Crash("native_crash", "restart"),)),
    ChaosRow(name="ill", fast=True, what="SIGILL", fault="illegal-instruction", options=PLAIN,
        end=ExpectedEnd.FINISHED, crashes=(Crash("native_crash", "restart"),)),
    ChaosRow(name="double-free", what="glibc finds a corrupted heap", fault="double-free",
        options=PLAIN, end=ExpectedEnd.FINISHED, fast=True,
        crashes=(Crash("native_crash", "restart", "double free|invalid"),)),
    ChaosRow(name="kill", what="SIGKILL from outside", fault="kill",
        crashes=(Crash("preempted", "restart"),)),
    ChaosRow(name="kill-first", what="SIGKILL before the first step", fault="kill",
        options=("--at", "0"), crashes=(Crash("preempted", "restart"),)),
    ChaosRow(name="kill-last", what="SIGKILL after the last step", fault="kill",
        options=("--at", "60"), crashes=(Crash("preempted", "restart"),)),
    ChaosRow(name="kill-shim", what="SIGKILL to the parent of training", fault="kill-shim",
        crashes=(Crash("preempted", "restart"),)),
    ChaosRow(name="kill-supervisor", what="SIGKILL to the supervisor, the command again",
        fault="kill-supervisor", options=("--pause", "0.1"), again=1),
    ChaosRow(name="term-supervisor", what="SIGTERM to the supervisor, the command again",
        fault="terminate-supervisor", options=("--pause", "0.1"), again=1),
    ChaosRow(name="term-training", what="SIGTERM to training alone, the command again",
        fault="terminate", again=1),
    ChaosRow(name="exit-0", what="os._exit(0) in the middle", fault="os-exit",
        options=("--code", "0"), crashes=(Crash("unknown", "restart", "exit code 0"),)),
    ChaosRow(name="exit-9", what="os._exit(9) in the middle", fault="os-exit",
        options=("--code", "9"), crashes=(Crash("unknown", "restart", "exit code 9"),)),
    ChaosRow(name="sys-exit-0", what="sys.exit(0) before training", fault="sys-exit",
        options=("--plain", *FIRST, "--code", "0"), end=ExpectedEnd.FINISHED, fast=True),
    ChaosRow(name="sys-exit-3", what="sys.exit(3) before training", fault="sys-exit",
        options=("--plain", *FIRST), end=ExpectedEnd.STOPPED, fast=True,
        crashes=(Crash("user_error", "stop", r"sys\.exit\(3\)"),),
        sentence="before its first step"),
    ChaosRow(name="sys-exit-training", what="sys.exit(3) in training, each time",
        fault="sys-exit", options=ALWAYS, end=ExpectedEnd.STOPPED,
        crashes=(Crash("user_error", "restart"), Crash("user_error", "stop")),
        sentence="brought no progress"),
    ChaosRow(name="fork-bomb", what="60 children, half of them escaped, then SIGSEGV",
        fault="breed", options=(*PLAIN, "--count", "60"), end=ExpectedEnd.FINISHED, fast=True,
        crashes=(Crash("native_crash", "restart"),)),
    ChaosRow(name="zombies", fast=True, what="children that nobody waits for", fault="zombies",
        options=(*PLAIN, "--count", "30"), end=ExpectedEnd.FINISHED),
    ChaosRow(name="escaped-worker", what="SIGKILL; a data worker has left the session",
        fault="escaped-worker", crashes=(Crash("preempted", "restart"),)),
)  # fmt: skip

SCRIPT = (
    ChaosRow(name="error-first", what="an exception before the first step",
        fault="key-error", options=("--plain", *FIRST), end=ExpectedEnd.STOPPED, fast=True,
        crashes=(Crash("user_error", "stop", "KeyError"),),
        sentence="before its first step"),
    ChaosRow(name="error-once", what="an exception in training, once", fault="key-error",
        crashes=(Crash("user_error", "restart", "KeyError"),)),
    ChaosRow(name="error-again", what="an exception in training, each time",
        fault="key-error", options=ALWAYS, end=ExpectedEnd.STOPPED,
        crashes=(Crash("user_error", "restart"), Crash("user_error", "stop")),
        sentence="KeyError"),
    ChaosRow(name="error-own", what="an exception of the script's own, not in UTF-8",
        fault="own-exception", crashes=(Crash("user_error", "restart", "OwnError"),)),
    ChaosRow(name="recursion", fast=True, what="RecursionError before training", fault="recursion",
        options=("--plain", *FIRST), end=ExpectedEnd.STOPPED,
        crashes=(Crash("user_error", "stop", "RecursionError"),)),
    ChaosRow(name="import", fast=True, what="a package that is not there", fault="import",
        options=("--plain", *FIRST), end=ExpectedEnd.STOPPED,
        crashes=(Crash("user_error", "stop", "No module named"),)),
    ChaosRow(name="interrupt", what="KeyboardInterrupt that the script raises itself",
        fault="interrupt", crashes=(Crash("user_error", "restart", "raised .* itself"),)),
)  # fmt: skip

SOON = """
[liveness]
silent = "8s"
step = "8s"
"""

AT_ONCE = """
[liveness]
silent = "6s"
startup = "6s"
"""

HANGS = (
    ChaosRow(name="hang", what="two Python locks, nothing trained", fault="deadlock",
        options=PLAIN, spec=AT_ONCE, end=ExpectedEnd.FINISHED,
        crashes=(Crash("stalled", "restart", "no progress"),)),
    ChaosRow(name="hang-native", what="a native mutex taken twice, nothing trained",
        fault="native-deadlock", options=PLAIN, spec=AT_ONCE, end=ExpectedEnd.FINISHED,
        crashes=(Crash("stalled", "restart", "no heartbeat"),)),
    ChaosRow(name="sleeper", what="SIGSTOP, nothing trained: no hang", fault="stop",
        options=(*PLAIN, "--seconds", "9"), spec=AT_ONCE, end=ExpectedEnd.FINISHED),
    ChaosRow(name="deadlock", what="two Python locks in opposite order", fault="deadlock",
        spec=SOON, crashes=(Crash("stalled", "restart", "no progress"),)),
    ChaosRow(name="native-deadlock", what="native code hangs with the interpreter's lock",
        fault="native-deadlock", spec=SOON,
        crashes=(Crash("stalled", "restart", "no heartbeat"),)),
    ChaosRow(name="native-wait", what="native code hangs, Python threads go on",
        fault="native-wait", spec=SOON,
        crashes=(Crash("stalled", "restart", "no progress"),)),
    ChaosRow(name="busy-loop", what="busy without progress", fault="busy-loop", spec=SOON,
        crashes=(Crash("stalled", "restart", "no progress"),),),
    ChaosRow(name="stopped", what="SIGSTOP for longer than the deadline: no hang",
        fault="stop", options=("--seconds", "12"), spec=SOON),
    ChaosRow(name="frozen", what="D state: a frozen cgroup, until it thaws",
        fault="freeze", options=(*PLAIN, "--path", "{path}"), needs=MachineNeed.FREEZER,
        spec=AT_ONCE, end=ExpectedEnd.FINISHED, frees=True,
        crashes=(Crash("unkillable", "wait", "D state"),)),
    ChaosRow(name="frozen-worker", what="D state for ever of a data worker, SIGKILL",
        fault="freeze-worker", options=(*PLAIN, "--path", "{path}"),
        needs=MachineNeed.FREEZER, end=ExpectedEnd.FINISHED,
        crashes=(Crash("unkillable", "restart", "D state"),)),
    ChaosRow(name="clock-forward", what="the clock jumps a day ahead: no hang",
        fault="jump-clock", options=("--seconds", "86400"), spec=SOON,
        needs=MachineNeed.COMPILER),
    ChaosRow(name="clock-back", what="the clock jumps a day back", fault="jump-clock",
        options=(*PLAIN, "--seconds", "-86400"), spec=AT_ONCE, needs=MachineNeed.COMPILER,
        end=ExpectedEnd.FINISHED, fast=True),
)  # fmt: skip

OUTPUT = (
    ChaosRow(name="flood", what="1.5 GB on stderr as fast as it goes", fault="flood",
        options=(*PLAIN, "--megabytes", "1500"), end=ExpectedEnd.FINISHED, log_at_most_mib=300),
    ChaosRow(name="flood-and-die", what="the flood, then the error that counts",
        fault="flood-and-die", options=(*PLAIN, "--megabytes", "600"), end=ExpectedEnd.FINISHED,
        log_at_most_mib=300,
        crashes=(Crash("cuda_fault", "restart", "ILLEGAL_ADDRESS"),)),
    ChaosRow(name="garbage", what="output that is no UTF-8, with terminal codes", fast=True,
        fault="garbage", options=PLAIN, end=ExpectedEnd.FINISHED),
    ChaosRow(name="no-newline", what="8 MiB without a newline, the error in it",
        fault="no-newline", options=PLAIN, end=ExpectedEnd.FINISHED, fast=True,
        crashes=(Crash("cuda_fault", "restart", "illegal memory access"),)),
)  # fmt: skip

DISKS = (
    ChaosRow(name="memory-tier-full", what="a full /dev/shm", fault="fill-silently",
        options=(*FIRST, "--path", "{path}", "--megabytes", "64"), needs=MachineNeed.MOUNT,
        limit_mib=8, spec='memory = "{path}"\nmemory_every = "3steps"',
        sentence="snapshots go to disk only",
        crashes=(Crash("disk_full", "go_on", "room|space"),)),
    ChaosRow(name="disk-full", what="ENOSPC in the script, room is made later",
        fault="fill-disk", options=("--path", "{path}", "--megabytes", "512"),
        needs=MachineNeed.MOUNT, limit_mib=96, frees=True,
        crashes=(Crash("disk_full", "wait", "No space left"),)),
    ChaosRow(name="own-disk-full", what="the same on a disk of the script's own: waited for",
        fault="fill-disk", options=("--path", "{path}", "--megabytes", "512"),
        needs=MachineNeed.MOUNT, limit_mib=96, frees=True, apart=True,
        crashes=(Crash("disk_full", "wait", "No space left"),),
        sentence="the disk mounted at .* was full .*24 MiB are free there"),
    ChaosRow(name="snapshot-damaged", what="a bit flips in the newest snapshot, SIGKILL",
        fault="damage-snapshot", spec='memory = "off"',
        crashes=(Crash("preempted", "restart"),)),
)  # fmt: skip

DATA = (
    ChaosRow(name="nan-once", what="the loss is lost, once", fault="lose-the-loss",
        crashes=(Crash("non_finite_loss", "rollback", "NaN"),)),
    ChaosRow(name="nan-again", what="the loss is lost, each time", fault="lose-the-loss",
        options=ALWAYS, end=ExpectedEnd.STOPPED, sentence="NaN or infinite again",
        crashes=(Crash("non_finite_loss", "rollback", many=True),
                 Crash("non_finite_loss", "stop"))),
    ChaosRow(name="nan-noticed", what="the loss is lost, the script ends by TerminateOnNaN",
        fault="lose-the-loss", options=("--notice",),
        crashes=(Crash("non_finite_loss", "rollback", "NaN|Invalid loss"),)),
    ChaosRow(name="nan-noticed-again", what="the same, each time", fault="lose-the-loss",
        options=("--notice", *ALWAYS), end=ExpectedEnd.STOPPED, sentence="NaN or infinite again",
        crashes=(Crash("non_finite_loss", "rollback", many=True),
                 Crash("non_finite_loss", "stop"))),
    ChaosRow(name="record-corrupt", what="a flipped bit in a TFRecord file",
        fault="nothing", options=("--records", *ALWAYS), end=ExpectedEnd.STOPPED,
        crashes=(Crash("data_error", "restart", "corrupted record"),
                 Crash("data_error", "stop")), sentence="corrupted record"),
    ChaosRow(name="record-hiccup", what="the same, but the file is whole the next time",
        fault="nothing", options=("--records",), run=("--accept-changes",),
        crashes=(Crash("data_error", "restart", "corrupted record"),)),
    ChaosRow(name="file-missing", what="a file that is not there", fault="missing-file",
        options=("--plain", *FIRST, *ALWAYS), end=ExpectedEnd.STOPPED, fast=True,
        crashes=(Crash("data_error", "restart", "No such file"),
                 Crash("data_error", "stop")), sentence="data-that-is-not-there"),
    ChaosRow(name="file-hiccup", what="a file that is there the next time",
        fault="missing-file", crashes=(Crash("data_error", "restart"),)),
)  # fmt: skip

IN_PLACE = "[remedies]\nin_place = true\n"

HUNGRY_LATE = ("--hungry", "--epochs", "5", "--at", "7")
"""Memory is short from the eighth of its ten steps on: there is a snapshot of before."""
NEARLY_FULL = Crash("device_oom", "go_on", r"are used \(\d+%\)", maybe=True)

SECONDS = (
    ChaosRow(name="nan-in-place", what="the loss is lost, once: its process goes on",
        fault="lose-the-loss", spec=IN_PLACE,
        crashes=(Crash("non_finite_loss", "rollback", "NaN", in_place=True),)),
    ChaosRow(name="nan-in-place-again", what="the loss is lost in the same process again",
        fault="lose-the-loss", options=ALWAYS, spec=IN_PLACE, end=ExpectedEnd.STOPPED,
        crashes=(Crash("non_finite_loss", "rollback", in_place=True),
                 Crash("non_finite_loss", "rollback", many=True, maybe=True),
                 Crash("non_finite_loss", "stop")), sentence="infinite again"),
    ChaosRow(name="nan-nobody-answers", what="SIGKILL to the supervisor, and the loss is lost",
        fault="lose-loss-and-supervisor", spec=IN_PLACE, again=1,
        crashes=(Crash("non_finite_loss", "rollback", "NaN"),)),
    ChaosRow(name="oom-in-place-first", what="device memory in the first step: a new process",
        fault="nothing", options=("--hungry",), run=LIMIT, environment=onednn(0),
        spec=IN_PLACE, end=ExpectedEnd.FINISHED, sentence="before its first step",
        crashes=(Crash("device_oom", "microbatch", "OOM when|ran out of memory"),)),
    ChaosRow(name="oom-in-place-restore", what="no memory to give a snapshot back: a new process",
        fault="hoard", options=(*HUNGRY_LATE, "--width", "100000"), run=GIB_LIMIT,
        spec=IN_PLACE, environment=onednn(0), end=ExpectedEnd.FINISHED,
        crashes=(NEARLY_FULL, Crash("device_oom", "microbatch", in_place=True, maybe=True),
            Crash("device_oom", "microbatch"))),
    ChaosRow(name="oom-in-place-again", what="device memory in the step done again: a new process",
        fault="hoard", options=HUNGRY_LATE, run=GIB_LIMIT, spec=IN_PLACE,
        environment=onednn(0), end=ExpectedEnd.FINISHED,
        crashes=(NEARLY_FULL, Crash("device_oom", "microbatch", in_place=True),
            Crash("device_oom", "microbatch|restart"))),
    ChaosRow(name="standby-taken", what="SIGKILL; the next attempt has imported already",
        fault="kill", options=("--at", "55", "--pause", "0.4"), standby=True,
        crashes=(Crash("preempted", "restart"),), sentence="the process that stood by"),
    ChaosRow(name="standby-killed", what="SIGKILL to the standby, then to training",
        fault="kill-standby", standby=True, crashes=(Crash("preempted", "restart"),),
        sentence="no standby for attempt 2: it has ended"),
    ChaosRow(name="standby-out-of-memory", what="the kernel's OOM killer takes the standby first",
        fault="eat-memory", options=("--at", "55", "--pause", "0.4", "--megabytes", "6000"),
        standby=True, needs=MachineNeed.MEMORY_CGROUP, limit_mib=2600,
        crashes=(Crash("host_oom", "go_on", "are used", maybe=True),
            Crash("host_oom", "restart", "OOM")), sentence="no standby for attempt 2"),
    ChaosRow(name="standby-upgraded", what="a package changes that the standby has imported",
        fault="upgrade-package", options=("--path", "{path}"), standby=True,
        needs=MachineNeed.PACKAGE, crashes=(Crash("preempted", "restart"),),
        sentence="starts cold: .*termcolor/__init__.py was changed after it had been imported"),
    ChaosRow(name="standby-of-another", what="another user's directory where a standby is to lie",
        fault="plant-standby", options=("--at", "5", "--code", "65534"), standby=True,
        needs=MachineNeed.ROOT, crashes=(Crash("preempted", "restart"),),
        sentence=r"(?s)no standby for attempt 2: its place, .*planted: 0 files"),
    ChaosRow(name="compilations-damaged", what="all that XLA compiled and is kept, damaged; SIGKILL",
        fault="damage-compilations", spec="[compilation]\ncache = true",
        options=("--hungry", "--jit", "--at", "4"),
        crashes=(Crash("preempted", "restart"),)),
)  # fmt: skip

LIBRARIES = (
    ChaosRow(name="cudnn-alloc", what="cuDNN finds no memory", fault="recorded-cudnn_alloc",
        crashes=(Crash("cudnn_alloc", "settings", "ALLOC_FAILED"),)),
    ChaosRow(name="cudnn-init", what="cuDNN does not start", fault="recorded-cudnn_init",
        crashes=(Crash("cudnn_init", "settings", "NOT_INITIALIZED"),)),
    ChaosRow(name="cudnn-exec", what="cuDNN fails in an operation",
        fault="recorded-cudnn_exec",
        crashes=(Crash("cudnn_exec", "restart", "EXECUTION_FAILED"),)),
    ChaosRow(name="cublas", what="no cuBLAS handle", fault="recorded-cublas",
        crashes=(Crash("cublas", "settings", "cublas|Blas"),)),
    ChaosRow(name="illegal-address", what="an illegal address, then SIGABRT", fast=True,
        fault="recorded-cuda_fault", options=PLAIN, end=ExpectedEnd.FINISHED,
        crashes=(Crash("cuda_fault", "restart", "ILLEGAL_ADDRESS"),)),
    ChaosRow(name="launch-failed", fast=True, what="a failed launch, and cuDNN after it",
        fault="recorded-launch_failed", options=PLAIN, end=ExpectedEnd.FINISHED,
        crashes=(Crash("cuda_fault", "restart", "LAUNCH_FAILED"),)),
    ChaosRow(name="ecc", what="an uncorrectable ECC error, no GPU known", fast=True,
        fault="recorded-ecc", options=PLAIN, end=ExpectedEnd.STOPPED,
        crashes=(Crash("gpu_hardware", "stop", "ECC"),),
        sentence="GPU"),
    ChaosRow(name="nccl", what="a peer that cannot be reached", fault="recorded-nccl",
        crashes=(Crash("nccl", "restart", "NCCL"),)),
    ChaosRow(name="cudnn-version", what="cuDNN of the wrong version",
        fault="recorded-cudnn_version", options=("--plain", *FIRST), end=ExpectedEnd.STOPPED,
        crashes=(Crash("version_mismatch", "stop", "compiled with"),),
        sentence="before its first step"),
    ChaosRow(name="driver-version", fast=True, what="a driver too old", end=ExpectedEnd.STOPPED,
        fault="recorded-driver_version", options=("--plain", *FIRST),
        crashes=(Crash("version_mismatch", "stop", "insufficient"),)),
    ChaosRow(name="no-kernel", what="no code for this GPU", end=ExpectedEnd.STOPPED,
        fault="recorded-no_kernel_image", options=("--plain", *FIRST),
        crashes=(Crash("version_mismatch", "stop", "NO_BINARY"),)),
    ChaosRow(name="looks-terrible", what="warnings that mean nothing", end=ExpectedEnd.FINISHED,
        fault="recorded-looks_terrible", options=PLAIN, fast=True),
)  # fmt: skip


def nvml(*lines: str) -> tuple[str, ...]:
    """A process that was on GPU 0 for some samples, and what NVML then says all at once,
    as options of the fault: it ends in the same moment."""
    told = (part for line in lines for part in ("--nvml", line))
    return ("--on-gpu", "0", *told, "--seconds", "4")


GPUS = (
    ChaosRow(name="gpu-lost", what="GPU 0 of 2 falls off the bus, SIGABRT", fault="abort",
        options=(*PLAIN, *nvml("0.lost=1", "xids=1", "xid.1=0:79")),
        gpus=2, needs=MachineNeed.NVML, end=ExpectedEnd.FINISHED,
        crashes=(Crash("gpu_hardware", "another_gpu"),)),
    ChaosRow(name="gpu-only-one", what="the only GPU falls off the bus", fault="abort",
        options=(*PLAIN, *nvml("0.lost=1", "xids=1", "xid.1=0:79")),
        gpus=1, needs=MachineNeed.NVML, end=ExpectedEnd.STOPPED,
        crashes=(Crash("gpu_hardware", "stop"),), sentence="quarantine"),
    ChaosRow(name="gpu-ecc", what="Xid 48: a double-bit ECC error, SIGABRT", fault="abort",
        options=(*PLAIN, *nvml("0.ecc.volatile.uncorrected=2", "xids=1", "xid.1=0:48")),
        gpus=2, needs=MachineNeed.NVML, end=ExpectedEnd.FINISHED,
        crashes=(Crash("gpu_hardware", "another_gpu"),)),
    ChaosRow(name="gpu-hang", what="Xid 79, and a call of it that never returns: no stall",
        fault="native-wait", options=(*PLAIN, *nvml("xids=1", "xid.1=0:79")),
        gpus=2, needs=MachineNeed.NVML, spec=AT_ONCE, end=ExpectedEnd.FINISHED, fast=True,
        crashes=(Crash("gpu_hardware", "another_gpu", "Xid .*: 79"),)),
    ChaosRow(name="gpu-xid", what="Xid 31: a page fault of the GPU, SIGABRT", fault="abort",
        options=(*PLAIN, *nvml("xids=1", "xid.1=0:31")), fast=True,
        gpus=2, needs=MachineNeed.NVML, end=ExpectedEnd.FINISHED,
        crashes=(Crash("cuda_fault", "restart"),)),
    ChaosRow(name="gpu-tenant", what="somebody else holds the GPU's memory",
        fault="recorded-disguised_oom", gpus=1, needs=MachineNeed.NVML, end=ExpectedEnd.FINISHED,
        options=(*PLAIN, *nvml("0.processes={pid}:1000000:-1,1:130000000000:-1")),
        crashes=(Crash("device_oom", "wait"),), frees=True),
    ChaosRow(name="gpu-of-others", what="Xid 79 on a GPU that it does not use, SIGABRT",
        fault="abort", options=(*PLAIN, *nvml("1.lost=1", "xids=1", "xid.1=1:79")),
        fast=True, gpus=2, needs=MachineNeed.NVML, end=ExpectedEnd.FINISHED,
        crashes=(Crash("native_crash", "restart"),)),
    ChaosRow(name="gpu-wedged", what="a driver call that never returns: training goes on",
        fault="nothing", gpus=1, needs=MachineNeed.NVML, end=ExpectedEnd.FINISHED,
        options=(*PLAIN, "--steps", "400", *nvml("hang.nvmlDeviceGetMemoryInfo_v2=1"))),
    ChaosRow(name="gpu-wedged-abort", what="the same, then SIGABRT: it is not waited for",
        fault="abort", gpus=1, needs=MachineNeed.NVML, end=ExpectedEnd.FINISHED,
        options=(*PLAIN, *nvml("hang.nvmlDeviceGetMemoryInfo_v2=1")),
        crashes=(Crash("native_crash", "restart"),)),
)  # fmt: skip

TABLE = (
    *MEMORY, *PROCESS, *SCRIPT, *HANGS, *OUTPUT, *DISKS, *DATA, *SECONDS, *LIBRARIES,
    *GPUS,
)  # fmt: skip
FAST = tuple(row for row in TABLE if row.fast)
