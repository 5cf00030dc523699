"""Signatures: collectives, the end of processes, schedulers, and disks."""

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.signature import (
    CAUSE,
    EXCEPTION,
    HINT,
    LIBRARY,
    SYMPTOM,
    Role,
    benign,
    cascade,
    ended_with,
    failed_with,
    row,
)

_NCCL = "nccl: src/init.cc (ncclGetErrorString); pytorch: ProcessGroupNCCL.cpp"

TIME_LIMIT = "slurm.time_limit"
PREEMPTION = "slurm.preempted"
CANCELLED = "slurm.cancelled"
_SLURM = "slurm: slurmd/slurmstepd/req.c"

ROWS = (
    # Collectives.
    row(
        "nccl.failed",
        Cause.NCCL,
        LIBRARY - 10,
        rx=r"ncclInvalidUsage|ncclSystemError|ncclInternalError|ncclUnhandledCudaError"
        r"|ncclInvalidArgument|NCCL [Ee]rror|NCCL operation .* failed"
        r"|NCCL failure|Error invoking NCCL|unhandled (?:cuda|system) error"
        r"|ncclCommInit\w+.*failed|NCCL communicator.*(?:fail|error)",
        src=_NCCL,
    ),
    row(
        "nccl.warn",
        Cause.NCCL,
        LIBRARY - 12,
        rx=r"NCCL WARN (?!.*(?:out of memory|illegal memory|open libibverbs|/Plugin)).*"
        r"(?:[Ff]ail|[Ee]rror|[Tt]imed? ?out|[Rr]efused|mismatch|[Cc]lose|No socket"
        r"|[Uu]nreachable|returned \d+ ?\(|errno \d|status=\d)",
        src="nccl: src/debug.cc; without libibverbs or a plugin it goes on over sockets",
    ),
    cascade(
        "nccl.timeout",
        Cause.NCCL,
        EXCEPTION - 3,
        "collective operation timeout",
        "collective timeout",
        "NCCL operations have failed or timed out",
        "NCCL watchdog",
        "watchdog got stuck",
        "Watchdog caught",
        "ncclRemoteError",
        "remote process exited or there was a network error",
        "NCCL communicator was aborted",
        "DistBackendError",
        "NCCL work",
        "waitForInitComplete",
        "monitoredBarrier",
        src=_NCCL,
    ),
    cascade(
        "nccl.logged_as_error",
        Cause.NCCL,
        SYMPTOM + 3,
        rx=r"\[[EF]\S* .{0,40}ProcessGroup(?:NCCL|Gloo|MPI)\.cpp:\d+\]"
        r"|\[[EF] ProcessGroup(?:NCCL|Gloo|MPI)\.cpp:\d+\]",
        src="pytorch: torch/csrc/distributed/c10d, by severity and place",
    ),
    cascade(
        "collective.peer_lost",
        Cause.NCCL,
        EXCEPTION - 4,
        rx=r"gloo/transport/tcp.*(?:closed|reset|timed? ?out|error|refused|unreachable|No route)"
        r"|Connection (?:closed|reset) by peer \[\S+\]:\d+"
        r"|RuntimeError: Socket Timeout|ranks has already checked in|client socket has timed out|client socket has failed to con|server socket has failed to|NoValidAddressesFound|Rendezvous(?:Timeout|Connection|Closed)"
        r"|connection to the C10d store|lost communication with a remote|failed to connect to all"
        r"|unable to reliably start one or more daemons|PMIX ERROR|PMI2_Init failed"
        r"|HCCL.{0,40}(?:[Ee]rror|fail|time)|\bEI000\d\b|Dist(?:Network|Store)Error|TCPStore.*(?:fail|time"
        r"|[Bb]roken)|Collective ops is aborted by"
        r"|CollectiveExecutor::StartAbort (?!OUT_OF_RANGE)|Collective has timed out"
        r"|Barrier timed out\. Id|GetKeyValue\(\) timed out"
        r"|JAX distributed service detected"
        r"|(?:[Cc]oordination service|heartbeat).*(?:[Ee]rror|timeout|fail|DEADLINE_EXC)"
        r"|Failed to disconnect from coordination service|Horovod has been shut down"
        r"|MPI communication peer process has unexpectedly disconnected"
        r"|MPI_ABORT was invoked|called MPI_Abort\(|MPI_ERRORS_ARE_FATAL"
        r"|error occurred in MPI_"
        r"|Heartbeat monitor timed out|imed out initializing process group"
        r"|\|CCL_ERROR\||UCX +ERROR|StatusCode\.UNAVAILABLE|connectFullMesh failed"
        r"|preemption in a connected worker|lame workers found|Cancelled by TearDown"
        r"|Session \w+ is not found",
        src="pytorch: third_party/gloo, c10d; tensorflow: distributed_runtime; nccl: "
        "src/bootstrap.cc; horovod: runner/common/util/network.py; prrte: "
        "errmgr/base/help-errmgr-base.txt; HCCL (EI0006), as people's logs have "
        "it",
    ),
    # Processes that end by themselves.
    cascade(
        "launcher.nonzero_exit",
        Cause.UNKNOWN,
        SYMPTOM - 2,
        rx=failed_with() + r"|no longer alive|\bexited unexpectedly|is 6 feet under"
        r"|^(?:slurmstepd|srun|sbatch): error: (?!.*\b(?:instead|ignor|retrying|_get_joules))"
        r"|replica\(s\) failed",
        src="torchrun, deepspeed, mpirun, srun, kubeflow: of a process they started; "
        "batchgenerators: dataloading/multi_threaded_augmenter.py; nnU-Net, of "
        "its workers",
    ),
    cascade(
        "jupyter.kernel_died",
        Cause.UNKNOWN,
        SYMPTOM - 1,
        rx=r"KernelRestarter: restarting kernel|[Kk]ernel (?:appears to have )?died",
        src="jupyter_client: jupyter_client/restarter.py; notebook",
    ),
    cascade(
        "kernel.oops",
        Cause.UNKNOWN,
        EXCEPTION,
        rx=r"BUG: unable to handle|kernel BUG at |Kernel panic - not syncing"
        r"|\bOops: [0-9a-f]{4} \[#\d|EDAC \w+: \d+ UE "
        r"|Hardware Error\]: .*(?:Uncorrected|Fatal)|no checkins from watchdogd",
        src="linux: arch/x86/mm/fault.c, kernel/panic.c, drivers/edac, of main memory",
    ),
    cascade(
        "container.not_started",
        Cause.UNKNOWN,
        SYMPTOM - 3,
        rx=r"OCI runtime create failed|failed to create (?:shim|containerd) task"
        r"|nodes are available: .*Insufficient|estarting failed container"
        r"|[Pp]hase\W+Failed\b|running=\d+, failed=[1-9]|Reason:\s+(?:\w+Error"
        r"|\w*Failed)\b",
        src="containerd; kubernetes: kubelet, scheduler, and operators of jobs",
    ),
    cascade(
        "log.process_failed",
        Cause.UNKNOWN,
        SYMPTOM - 2,
        rx=r"\b(?:[Jj]ob|[Ww]orker|[Tt]ask|[Tt]rial|[Pp]rocess|[Rr]ank|[Tt]raining"
        r"|[Rr]eplica"
        r"|[Aa]ctor|[Pp]od|[Cc]ontainer|[Kk]ernel|[Ss]ession)s?\b[^.,;]{0,60}"
        r"\b(?:[Ff]ailed|FAILED|died|is dead|[Cc]rashed|restarted)\b"
        r"|\b\d+ / \d+ failed, log is in",
        src="batch systems, kaldi: utils/run.pl, ray, SageMaker, Colab: by who failed",
    ),
    cascade(
        "log.error_failed",
        Cause.UNKNOWN,
        HINT + 1,
        rx=r"(?:\[(?:ERROR|FATAL|CRITICAL)\]|^(?:ERROR|FATAL|CRITICAL|fatal)\b[: ]"
        r"|^E [A-Z])"
        r".{0,80}\b(?:[Ff]ailed|[Cc]rashed|[Aa]borted|[Tt]erminated|does not contain)\b"
        r"(?!.*ignor)",
        src="python: logging and its like: a line of that level that tells of an end",
    ),
    row(
        "ray.guesses",
        Cause.UNKNOWN,
        SYMPTOM - 1,
        "There are some potential root causes",
        src="ray: src/ray/raylet/worker_pool.cc",
        role=Role.GUESS,
    ),
    cascade(
        "process.stacks_dumped",
        Cause.STALLED,
        HINT + 7,
        rx=r"^\s*Thread (?:\S+ )?\((?:idle|active)[^)]*\)(?:: \"|$)",
        src="py-spy dump: people take one of a process that stands still",
    ),
    cascade(
        "errno.no_threads",
        Cause.UNKNOWN,
        SYMPTOM + 2,
        rx=r"(?:hread creation failed|pthread_create\b).*Resource temporarily unav"
        r"|can't start new thread",
        src="libgomp: team.c; OpenBLAS: blas_server.c: EAGAIN, a limit on processes",
    ),
    cascade(
        "process.segmentation_fault",
        Cause.NATIVE_CRASH,
        EXCEPTION + 2,
        rx=r"[Ss]egmentation fault|Fatal Python error: (?!Aborted)|(?<!for )"
        r"(?:SIGSEGV|SIGBUS|SIGILL|SIGFPE)|^(?:.*: )?Bus error|Illegal instruction"
        r"|Floating point exception \("
        r"|caught segfault|Trace/breakpoint trap|EXC_BAD_ACCESS|buffer overflow detected|code=dumped"
        r"|status=(?:11/SEGV|7/BUS|8/FPE|4/ILL|6/ABRT)|fatal error has been detected by the Java"
        r"|segfault at [0-9a-f]+ ip|general protection fault|exited on signal (?:4|7|8"
        r"|11)\b"
        r"|0xC0000(?:005|409|374|01D|0FD)\b"
        r"|access violation|Windows fatal exception: |traps: \S+\[\d+\] trap "
        r"|^(?:zsh: |\[\d+\]\s+(?:[-+]\s+)?\d+ )(?:bus error|illegal hardware|trace trap)"
        r"|"
        + ended_with(-11, -7, -4, -8, 139, 135, 132, 136, 3221225477, 3221226505)
        + "|"
        + ended_with(-1073741819, -1073740791, -1073741571, 3221225725),
        src="linux: arch/x86/kernel/traps.c; bash: jobs.c; cpython: faulthandler.c; "
        "R; glibc; systemd; Java; macOS",
    ),
    cascade(
        "process.heap_corrupted",
        Cause.NATIVE_CRASH,
        EXCEPTION + 2,
        "double free or corruption",
        "free(): ",
        "malloc(): ",
        "munmap_chunk()",
        "corrupted size vs. prev_size",
        "corrupted double-linked list",
        "stack smashing detected",
        "pure virtual method called",
        "realloc(): ",
        "malloc_consolidate",
        "] Attempt to free invalid pointer",
        src="glibc: malloc/malloc.c; gperftools: src/tcmalloc.cc (InvalidFree)",
    ),
    cascade(
        "process.aborted",
        Cause.NATIVE_CRASH,
        SYMPTOM,
        rx=r"^(?:.*: line \d+:\s+\d+ )?Aborted\b|\(core dumped\)|SIGABRT"
        r"|Fatal Python error: Aborted|terminate called (?:after|without)"
        r"|terminating (?:due to|with) uncaught (?:foreign )?exception"
        r"|^F0000 00:00|: F tensorflow/|: F external/|Abort trap: 6|tasks? [\d,-]+: Aborted"
        r"|^(?:zsh: |\[\d+\]\s+(?:[-+]\s+)?\d+ )abort\b"
        r"|^Check failed: |(?:^|\s)F\S*\s.*Check failed:|INTERNAL ASSERT FAILED|LLVM ERROR"
        r"|(?:^|\W)F\d{4} [\d:.]+\s+\d+ \S+(?:\.cc:|\.cpp:|\.cuh?:|\.hpp:|\.h:)\d+\] "
        r"|^(?!.*Error: ).*:\d+: .*Assertion `.*' failed|Assertion failed: \(?.*(?:file|line) |: failed assertion `"
        r"|libprotobuf FATAL|thread '.*' panicked at|^(?!.*Error: ).*\.\w+:\d+: Check failed: "
        r"|\*\*\* Process received signal \*\*\*|" + ended_with(-6, 134),
        src="bash: jobs.c; abseil: log/check.h; libstdc++; glibc and macOS: assert();"
        " protobuf; Rust: panics; slurm: src/srun/launch.c",
    ),
    cascade(
        "process.crashed_translated",
        Cause.NATIVE_CRASH,
        SYMPTOM,
        "Speicherzugriffsfehler",
        "Erreur de segmentation",
        "Violación de segmento",
        "Falha de segmentação",
        "Ошибка сегментирования",
        "段错误",
        "記憶體區段錯誤",
        "세그멘테이션",
        "セグメンテーション違反",
        "Abgebrochen (",
        "Abandon (core dumped)",
        "Abortado (",
        "Аварийный останов",
        "已放弃",
        "중지됨 (",
        src="glibc, bash: po/*.po, strsignal of SIGSEGV and SIGABRT",
    ),
    cascade(
        "process.worker_crashed",
        Cause.NATIVE_CRASH,
        SYMPTOM + 3,
        rx=r"killed by signal: (?:Segm|Abort|Illegal|Float)"
        r"|died with <Signals\.SIG(?:SEGV|ABRT|BUS|ILL|FPE)",
        src="pytorch: torch/csrc/DataLoader.cpp; cpython: subprocess.py",
    ),
    # Ended, or kept from ending, from outside.
    benign(
        "process.ended_with_zero",
        rx=r"(?:finished|exited|completed) with (?:exit )?(?:status )?code:? 0\b",
        src="PyCharm and container runtimes, of the process they ran",
    ),
    row(  # these before scheduler.ended_it, which weighs as much
        TIME_LIMIT,
        Cause.PREEMPTED,
        CAUSE + 5,
        "DUE TO TIME LIMIT",
        src=f"{_SLURM}, at the end of --time",
    ),
    row(
        PREEMPTION,
        Cause.PREEMPTED,
        CAUSE + 5,
        "DUE TO PREEMPTION",
        src=f"{_SLURM}, of a partition or QOS that preempts",
    ),
    row(
        CANCELLED,
        Cause.PREEMPTED,
        CAUSE + 5,
        rx=r"\*\*\* JOB .* CANCELLED AT(?!.*DUE TO)",
        src=f"{_SLURM}, by scancel, which gives no reason",
    ),
    row(
        "scheduler.ended_it",
        Cause.PREEMPTED,
        CAUSE + 5,
        rx=r"\*\*\* JOB .* CANCELLED AT .*DUE TO"
        r"|DUE TO NODE FAILURE|TERM_(?:RUNLIMIT|PREEMPT|OWNER|ADMIN)|killed: walltime"
        r"|Spot Instance interruption|TERMINATE_ON_HOST_MAINTENANCE"
        r"|(?:was|being|been) preempted|reempted by|reemption (?:notice|signal)"
        r"|^job preempted|^Job deleted at request of|[Ss]pot interruption|(?:[Ii]nstance|VM) will be (?:terminated|stopped)"
        r"|termination is imminent|Power key pressed|System is powering down"
        r"|The system (?:is going down|will (?:reboot|power off|suspend))",
        src="slurm: slurmd/slurmstepd; LSF; Torque: resmom/mom_main.c (job killed), "
        "its server's mails; systemd: src/login/logind-action.c; clouds' notices",
    ),
    cascade(
        "scheduler.ended_step",
        Cause.PREEMPTED,
        SYMPTOM - 4,
        rx=r"\*\*\* STEP .* CANCELLED AT(?!.*DUE TO)",
        src="slurm: slurmstepd; srun ends a step also where one of its tasks failed",
    ),
    # A process of the version before met this one's files: by the names that are no more.
    row(
        "process.installed_over",
        Cause.PREEMPTED,
        CAUSE + 5,
        rx=r"No module named 'trainers\.(?:data_pipelines|fit_supervised|memory\.pool"
        r"|session_supervised)'|module 'trainers\.microbatch' has no attribute",
        src="trainwarden 3e06fd9: modules that were imported late",
    ),
    cascade(
        "process.asked_to_end",
        Cause.PREEMPTED,
        EXCEPTION + 1,
        rx=r"^\W*KeyboardInterrupt\b|[Rr]eceived (?:signal )?SIGTERM|got signal: \d+"
        r"|^\s*(?:.*: line \d+:\s+\d+ )?Terminated\b|Signal 15 \(SIGTERM\) received"
        r"|\bSIGHUP\b.*(?:received|closing)"
        r"|killed by signal: (?:Terminated|Hangup|Interrupt)"
        r"|(?:[Rr]eceived|[Cc]aught|[Gg]ot|[Hh]andling)\W+(?:\w+\W+)?SIG(?:TERM|INT|HUP|USR1)\b"
        r"|\*\*\* SIG(?:TERM|INT|HUP) \(@|\(Termination signal\)|aborting due to control-C event"
        r"|tasks? [\d,-]+: Terminated|Detected KeyboardInterrupt|[Rr]eceived signal\W+(?:15|2)\b|exit request"
        r"|^(?:zsh: |\[\d+\]\s+(?:[-+]\s+)?\d+ )terminated\b|Received \d+ death signal",
        src="cpython; bash: jobs.c; torch: elastic/multiprocessing/api.py, "
        "DataLoader.cpp; lightning: pytorch/trainer/call.py; paddle (Termination "
        "signal) and Intel's Fortran (control-C event), as people's logs have it",
    ),
    row(
        "kernel.unkillable",
        Cause.UNKILLABLE,
        CAUSE + 5,
        "Processes still around after SIGKILL",
        "still around after final SIGKILL",
        "JOB NOT ENDING WITH SIGNALS",
        "Kill task failed",
        "uninterruptible sleep",
        "did not receive an exit event",
        "UNKILLABLE",
        src="systemd: src/core/service.c; slurm: slurmstepd; docker",
    ),
    cascade(
        "kernel.hung_task",
        Cause.UNKILLABLE,
        EXCEPTION - 2,
        rx=r"task \S+:\d+ blocked for more than \d+ seconds|task:\S+\s+state:D\s",
        src="linux: kernel/hung_task.c",
    ),
    cascade(
        "process.stalled",
        Cause.STALLED,
        EXCEPTION - 2,
        rx=r"nfs: server \S+ not responding|^\W*Timeout \(\d+:\d\d:\d\d\S*\)!|soft lockup|hard LOCKUP"
        r"|Termination timeout for|deadlock detected|no progress for \d+",
        src="cpython: faulthandler.c; xla: service/rendezvous.cc; linux: watchdog.c; "
        "NFS's client",
    ),
    cascade(
        "xla.rendezvous_slow",
        Cause.STALLED,
        HINT,
        "may be stuck",
        "One or more tensors were submitted to be reduced",
        src="xla: service/rendezvous.cc; it often says 'unstuck' a little later; "
        "horovod: common/stall_inspector.cc",
    ),
    # Disks.
    row(
        "errno.no_space",
        Cause.DISK_FULL,
        CAUSE + 5,
        rx=r"No space left on device|Errno (?:28|122)\]|errno = 28\b|\bENOSPC\b"
        r"|isk quota exceeded|not enough space on the disk|WinError 112\]"
        r"|database or disk is full|out of disk space|No usable temporary directory|OutOfDiskError|condition: \[DiskPressure|\bEDQUOT\b"
        r"|Usage of EmptyDir volume|iostream error"
        r"|Insufficient disk space"
        r"|resource: ephemeral-storage|local storage usage exceeds",
        src="errno.h ENOSPC, EDQUOT; hdf5: H5FDsec2.c; sqlite; cpython: tempfile.py; "
        "ray; kubernetes; libstdc++: iostream error, as people's logs have it of "
        "a full disk",
    ),
    row(
        "tf.file_resources",
        Cause.DISK_FULL,
        CAUSE + 1,
        rx=r"(?:esource exhausted|RESOURCE_EXHAUSTED|ResourceExhaustedError"
        r"(?: \(see above for traceback\))?): [^\s:;]*/[^\s;]*(?:[\s;]|$)",
        src="tensorflow: tsl/platform/default/posix_file_system.cc (IOError): a status "
        "that begins with a path is about a file, ENOSPC and EDQUOT most often",
    ),
    row(
        "torch.writer_failed",
        Cause.DISK_FULL,
        CAUSE,
        rx=r"PytorchStreamWriter failed writing|inline_container\.cc:\d+\] ?\. unexpected"
        r" pos",
        src="pytorch: caffe2/serialize/inline_container.cc",
    ),
    benign(
        "python.ends_while_locked",
        "at interpreter shutdown, possibly due to daemon threads",
        src="cpython, of an exit while a thread held the stream",
    ),
    benign(
        "torch.loader_of_another",
        "can only test a child process",
        src="cpython: multiprocessing/process.py, from a data loader's finaliser",
    ),
    benign(
        "nccl.slower_path",
        "failed to IPC register userbuff",
        src="nccl: transport/p2p.cc, before 2.26; it goes on without",
    ),
    benign(
        "glib.logged",
        rx=r"-(?:CRITICAL|WARNING) \*\*: ",
        src="glib, of the desktop's libraries",
    ),
    benign(
        "scheduler.quiet",
        rx=r"Sending process \d+ closing signal SIGTERM|closing signal SIGTERM",
        src="pytorch: distributed/elastic/multiprocessing/api.py",
    ),
)
