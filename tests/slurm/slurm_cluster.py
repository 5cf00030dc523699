"""A real Slurm of one node: munged, slurmctld and slurmd, in a directory of its own.

Nothing of it is a service of the machine: the daemons are our children, with a
configuration, a key, ports and spool directories of their own, and end with us. Needs root,
as slurmd does.
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "scancel", "sacct")
PATIENCE = 180.0
KILL_WAIT = 60
"""Seconds from SIGTERM to SIGKILL: Slurm's default is 30."""
GRACE_TIME = 20
"""... where a job is preempted."""
REVOKED_SECONDS = 5.0
"""A credential that is made in the second in which the last one was revoked is, too."""
NODE_TIMEOUT = 8
"""Seconds without a word of slurmd after which its node is down."""

CONFIGURATION = """
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CredType=cred/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobCompType=jobcomp/filetxt
JobCompLoc={root}/ended.txt
AccountingStorageType=accounting_storage/none
JobRequeue=1
RequeueExit=75
KillWait={kill_wait}
SlurmdTimeout={node_timeout}
MessageTimeout=5
MinJobAge=3600
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=2000 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace_time} MaxTime=INFINITE State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF State=UP
"""  # a node, and a partition, is a line


class SlurmError(Exception):
    """Slurm did not do what was asked, or not in time."""


def missing() -> str | None:
    """Why there can be none here; None: there can."""
    if os.geteuid():
        return "slurmd needs root"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


@dataclass
class SlurmCluster:
    """The cluster, while it runs."""

    root: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(
        default_factory=dict[str, subprocess.Popen[bytes]]
    )

    @property
    def environment(self) -> dict[str, str]:
        """For every command of Slurm; daemons and jobs inherit it, and are known by it."""
        return {**os.environ, "SLURM_CONF": str(self.root / "slurm.conf")}

    def call(self, *command: str, directory: Path | None = None) -> str:
        """What a command of Slurm prints. Raises SlurmError."""
        done = subprocess.run(
            command,
            cwd=directory or self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            message = f"{' '.join(command)}: {done.stderr.strip() or done.stdout}"
            raise SlurmError(message)
        return done.stdout

    def submit(self, *arguments: str, directory: Path) -> str:
        """``sbatch``; the id of the job."""
        told = self.call("sbatch", "--parsable", *arguments, directory=directory)
        return told.strip().partition(";")[0]

    def job(self, job: str) -> dict[str, str]:
        """What ``scontrol show job`` tells, by name."""
        words = self.call("scontrol", "show", "job", "--oneliner", job).split()
        return {key: value for key, _, value in (word.partition("=") for word in words)}

    def until(
        self, job: str, wanted: Callable[[dict[str, str]], bool]
    ) -> dict[str, str]:
        """Wait until a job is as ``wanted``. Raises SlurmError."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            told = self.job(job)
            if wanted(told):
                return told
            time.sleep(0.2)
        log = (self.root / "slurmctld.log").read_text()[-3000:]
        message = f"job {job} is {self.job(job)['JobState']} for ever\n{log}"
        raise SlurmError(message)

    def until_requeued(self, job: str) -> None:
        """Wait until a job waits again, and let it begin soon: it would wait for 120 s,
        the lifetime of its credential."""
        self.until(
            job, lambda told: (told["Restarts"], told["JobState"]) == ("1", "PENDING")
        )
        time.sleep(REVOKED_SECONDS)
        self.call("scontrol", "update", f"jobid={job}", "starttime=now")

    def ended(self, job: str) -> str:
        """Wait for the end of a job: its state, such as ``COMPLETED``."""
        over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"}
        return self.until(job, lambda told: told["JobState"] in over)["JobState"]

    def accounted(self, job: str) -> list[str]:
        """The states that ``sacct`` has of each of its ends, the last one last.

        By the completion log: there is no slurmdbd."""
        lines = self.call("sacct", "--completion", "--noheader", "--parsable2").split()
        rows = [line.split("|") for line in lines]
        return [row[6] for row in rows if row[0] == job]

    def start(self, name: str, *command: str) -> None:
        """Start a daemon, in the foreground of its own."""
        with (self.root / f"{name}.out").open("ab") as output:
            self.daemons[name] = subprocess.Popen(
                [name, *command],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def start_node(self) -> None:
        """Start slurmd."""
        self.start("slurmd", "-D", "-f", str(self.root / "slurm.conf"))

    def lose_node(self) -> None:
        """SIGKILL slurmd; its jobs go on, and nobody hears of them."""
        node = self.daemons.pop("slurmd")
        node.kill()
        node.wait()

    def await_node(self) -> None:
        """Until the node takes jobs. Raises SlurmError."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            with contextlib.suppress(SlurmError):
                told = self.call("sinfo", "--noheader", "--format=%t").split()
                if told and set(told) <= {"idle", "mix", "alloc"}:
                    return
            time.sleep(0.2)
        message = f"the node never came up: {(self.root / 'slurmd.log').read_text()}"
        raise SlurmError(message)

    def processes(self) -> Iterator[psutil.Process]:
        """All that belongs to it: daemons, jobs, and steps, which hide their environment
        behind their title."""
        wanted = self.environment["SLURM_CONF"]
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                ours = process.environ().get("SLURM_CONF") == wanted
                if ours or self._is_step(process):
                    yield process

    def _is_step(self, process: psutil.Process) -> bool:
        if not process.name().startswith("slurmstepd"):
            return False
        files = Path(f"/proc/{process.pid}/fd").iterdir()
        log = self.root / "slurmd.log"
        return any(file.readlink() == log for file in files)

    def stop(self) -> None:
        """End everything, by its pid."""
        with contextlib.suppress(SlurmError, subprocess.TimeoutExpired):
            self.call("scancel", "--user=root")
            ends = time.monotonic() + KILL_WAIT + 10
            while self.call("squeue", "--noheader") and time.monotonic() < ends:
                time.sleep(0.5)
        for name in ("slurmd", "slurmctld", "munged"):
            daemon = self.daemons.pop(name, None)
            if daemon is not None:
                daemon.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    daemon.wait(20)
        ours = psutil.Process()
        left = [one for one in self.processes() if one not in (ours, *ours.parents())]
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=10)


@contextlib.contextmanager
def slurm_in(root: Path) -> Generator[SlurmCluster]:
    """A cluster below ``root``, which must be short: a socket lies there."""
    cluster = SlurmCluster(root)
    for name in ("state", "spool"):
        (root / name).mkdir(parents=True)
    text = CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0],
        root=root,
        controller_port=_free_port(),
        node_port=_free_port(),
        kill_wait=KILL_WAIT,
        grace_time=GRACE_TIME,
        node_timeout=NODE_TIMEOUT,
    )
    (root / "slurm.conf").write_text(text)
    key = root / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    files = {"key": "key", "pid": "pid", "seed": "seed", "log": "log"}
    options = [f"--{name}-file={root}/munge.{end}" for name, end in files.items()]
    try:
        socket_option = f"--socket={root}/munge.socket"
        cluster.start("munged", "--foreground", "--force", socket_option, *options)
        cluster.start("slurmctld", "-D", "-f", str(root / "slurm.conf"))
        cluster.start_node()
        cluster.await_node()
        yield cluster
    finally:
        cluster.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
