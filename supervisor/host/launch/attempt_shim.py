"""The shim: parent of one training process, and the one who knows how it ended.

Run as a file by a bare interpreter:
``python -I -S attempt_shim.py [--stdin] [--detached] [--log=HEAD,TAIL,SLACK] ATTEMPT_DIR
-- COMMAND…``.
It stays as small as Python allows, because one lives beside every training: it imports
neither ``dataclasses`` nor ``pathlib`` nor ``subprocess``; ``records.ExitRecord`` is
written field by field here, and a contract test holds the two together.

- It is a subreaper: whatever training leaves behind, also in sessions of its own,
  becomes its child and is ended before the exit record is written.
- Training dies with it (PDEATHSIG), and it drains training when its own parent dies,
  unless it is detached: a daemon may be replaced while training goes on.
- SIGTERM is passed on inside the handler: ``wait4`` is restarted after signals, so
  code after it would not run before training ends. There SIGUSR1 becomes SIGKILL, and
  SIGUSR2 becomes SIGUSR1 (stacks, please): a daemon may not signal the processes of
  another user, but systemd signals us for it.
- With ``--stdin`` training reads what we were given to read; else nothing.
- With ``--log`` it keeps the log small (``log_retention``, in bytes): a daemon may not write to
  the files of another user, or may be stopped for a while.
"""
# ruff: noqa: PTH104, PTH118, PTH123  # pathlib costs 1 MiB, see above

import ctypes
import json
import os
import resource
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""From linux/prctl.h."""

SWEEP_GRACE_SECONDS = 2.0
"""From SIGTERM to SIGKILL for processes that outlived training."""
SWEEP_SECONDS = 30.0
"""After this, what is left does not react to SIGKILL and is reported instead."""
EXEC_FAILED = 127
WAKE_SECONDS = 2.0
"""A signal that comes between Python's last look for one and the wait itself is heard when
that ends, which would be with training: so often it does for a moment."""
LOG_SECONDS = 5.0
"""How often the log is looked at: so long a reader has at least for what is given up."""
PAGE = 4096
PUNCH_HOLE = 0x02 | 0x01
"""From linux/falloc.h: FALLOC_FL_PUNCH_HOLE, which needs FALLOC_FL_KEEP_SIZE."""
RECORD_BYTES = 4096
"""Set aside for the exit record at the start: a disk that training fills must not cost
us how it ended."""
PASSED_ON = {
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGUSR1: signal.SIGKILL,
    signal.SIGUSR2: signal.SIGUSR1,
}


def main(arguments: list[str]) -> None:
    """Run ``COMMAND`` for the attempt in ``ATTEMPT_DIR``; the exit status is 0."""
    options = [word for word in arguments[:3] if word.startswith("--") and word != "--"]
    arguments = arguments[len(options) :]
    directory, command = "".join(arguments[:1]), arguments[2:]
    if arguments[1:2] != ["--"] or not command:
        sys.exit("usage: attempt_shim.py [OPTIONS] ATTEMPT_DIR -- COMMAND...")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if "--detached" not in options:
        die_with_parent(libc, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor decides on Ctrl-C
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    reserve(directory, "exit.json")
    started = time.monotonic_ns()
    kills_before = oom_kills()
    signals = set(PASSED_ON)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    output = open_log(directory)
    pid = spawn(libc, output, command, stdin="--stdin" in options)
    wake_up()
    for option in options:
        if option.startswith("--log="):
            head, tail, slack = map(int, option.removeprefix("--log=").split(","))
            keep_small(libc, output, head=head, tail=tail, slack=slack)
    asked = forward_signals(pid)
    write(directory, "shimmed.json", introduction(pid))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    status, usage = wait_for(pid)
    # Python gives its handlers up before it ends: an alarm then would end us by a signal.
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    ended = time.monotonic_ns()
    swept, left = sweep()
    by_signal = os.WIFSIGNALED(status)
    record: dict[str, object] = {
        "pid": pid,
        "exit_code": None if by_signal else os.WEXITSTATUS(status),
        "signal": os.WTERMSIG(status) if by_signal else None,
        "core_dumped": bool(by_signal and os.WCOREDUMP(status)),
        "max_rss_bytes": usage.ru_maxrss * 1024,
        "user_seconds": usage.ru_utime,
        "system_seconds": usage.ru_stime,
        "started_ns": started,
        "ended_ns": ended,
        "asked_to_stop": bool(asked),
        "swept": swept,
        "unkillable": left,
        "oom_kills": counted_since(kills_before),
    }
    write(directory, "exit.json", record)


def die_with_parent(libc: ctypes.CDLL, number: int) -> None:
    """Get signal ``number`` when the parent dies, also if it is dead already."""
    parent = os.getppid()
    libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def open_log(directory: str) -> int:
    """What training prints into."""
    path = os.path.join(directory, "output.log")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)


def wake_up() -> None:
    """From now on no wait lasts: each signal is heard soon."""
    signal.signal(signal.SIGALRM, lambda _number, _frame: None)
    signal.setitimer(signal.ITIMER_REAL, WAKE_SECONDS, WAKE_SECONDS)


def keep_small(
    libc: ctypes.CDLL, log: int, *, head: int, tail: int, slack: int
) -> None:
    """From now on give the disk back what ``log`` has between ``head`` and ``tail``, and
    has had for a while (``log_retention.LogRetention`` says it with the eyes of a reader).

    In a signal handler: all else we do is to wait, and waits go on after it.
    """
    libc.fallocate.argtypes = (
        ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64
    )  # fmt: skip
    seen, done = 0, head

    def look(_number: int, _frame: object) -> None:
        nonlocal seen, done
        size = os.fstat(log).st_size
        end = (min(seen, size) - tail) // PAGE * PAGE
        seen = size
        if end - done < slack:
            return
        if libc.fallocate(log, PUNCH_HOLE, done, end - done) == 0:
            done = end

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOG_SECONDS, LOG_SECONDS)


def spawn(libc: ctypes.CDLL, output: int, command: list[str], *, stdin: bool) -> int:
    """Start ``command``, printing into ``output``, in a process group of its own; its
    pid. ``stdin``: it alone reads from what is ours."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    pid = os.fork()
    if pid:
        os.dup2(nothing, 0)
        os.close(nothing)
        return pid
    try:
        os.setpgid(0, 0)
        die_with_parent(libc, signal.SIGKILL)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, set(PASSED_ON))
        source_of_input = 0 if stdin else nothing
        for target, source in ((0, source_of_input), (1, output), (2, output)):
            os.dup2(source, target)
        os.execvp(command[0], command)  # noqa: S606  # no shell is wanted
    except BaseException as error:  # noqa: BLE001  # this is the forked child
        os.write(2, f"trainwarden: cannot start {command[0]}: {error}\n".encode())
    finally:
        os._exit(EXEC_FAILED)


def forward_signals(pid: int) -> list[int]:
    """Pass SIGTERM on to ``pid``; the returned list is empty until one came."""
    asked: list[int] = []

    def forward(number: int, _frame: object) -> None:
        if number == signal.SIGTERM:
            asked.append(number)
        try:
            os.kill(pid, PASSED_ON[signal.Signals(number)])
        except ProcessLookupError:
            return

    for number in PASSED_ON:
        signal.signal(number, forward)
    return asked


def wait_for(pid: int) -> tuple[int, resource.struct_rusage]:
    """Wait for ``pid``, reaping orphans meanwhile: (status, rusage)."""
    while True:
        reaped, status, usage = os.wait4(-1, 0)
        if reaped == pid:
            return status, usage


def sweep() -> tuple[int, list[int]]:
    """End every process that is left: (how many there were, pids that remain)."""
    seen: set[int] = set()
    asked_at = time.monotonic()
    while True:
        reap()
        left = children()
        if not left:
            return len(seen), []
        waited = time.monotonic() - asked_at
        if waited > SWEEP_SECONDS:
            return len(seen), sorted(left)
        for pid in left:
            first = pid not in seen
            seen.add(pid)
            if first or waited > SWEEP_GRACE_SECONDS:
                kill(pid, signal.SIGTERM if first else signal.SIGKILL)
        time.sleep(0.02)


def reap() -> None:
    """Collect what has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def children() -> set[int]:
    """The pids of our children: as a subreaper we get every orphan of the attempt."""
    with open("/proc/thread-self/children") as file:
        return {int(pid) for pid in file.read().split()}


def kill(pid: int, number: int) -> None:
    """Signal ``pid``, and wake it if it is stopped: SIGTERM would wait for ever."""
    try:
        os.kill(pid, number)
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def introduction(pid: int) -> dict[str, object]:
    """Who we are and whom we watch: ``records.Shimmed``."""
    return {
        "shim_pid": os.getpid(),
        "shim_started_ticks": started_ticks(os.getpid()),
        "pid": pid,
        "boot_id": boot_id(),
        "started_ticks": started_ticks(pid),
    }


def oom_kills() -> int | None:
    """OOM kills counted in our memory cgroup, of version 1 or 2; None: not known. Asked
    here because a unit's cgroup is gone a moment after us (``cgroup.oom_kills``)."""
    try:
        with open("/proc/self/cgroup") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            base, name = "/sys/fs/cgroup/memory", "memory.oom_control"
        elif not controllers:
            base, name = "/sys/fs/cgroup", "memory.events"
        else:
            continue
        for place in (base + path, base):  # a container sees its own as the root
            count = counted(os.path.join(place, name))
            if count is not None:
                return count
    return None


def counted_since(before: int | None) -> int | None:
    """OOM kills since there were ``before``; None: not known."""
    now = oom_kills()
    return None if before is None or now is None else max(now - before, 0)


def counted(path: str) -> int | None:
    """The number after ``oom_kill`` in the file; None: it has none."""
    try:
        with open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


def boot_id() -> str:
    """What tells this boot of the machine, or of the container, from every other: the
    kernel's id, which a container has from its host, and when PID 1 began (0 where that
    is hidden)."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    try:
        return f"{boot}/{started_ticks(1)}"
    except OSError:
        return f"{boot}/0"


def started_ticks(pid: int) -> int:
    """When ``pid`` began, in clock ticks since boot: field 22 of proc(5)."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def reserve(directory: str, name: str) -> None:
    """Room for a file that is written later; without room now, there may be then."""
    path = os.path.join(directory, name)
    descriptor = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT, 0o640)
    try:
        os.posix_fallocate(descriptor, 0, RECORD_BYTES)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def write(directory: str, name: str, value: dict[str, object]) -> None:
    """Write ``value`` as JSON so that a reader finds all of it or nothing."""
    path = os.path.join(directory, name)
    descriptor = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT, 0o640)
    try:
        size = os.write(descriptor, json.dumps(value).encode())
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(path + ".tmp", path)
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


if __name__ == "__main__":
    main(sys.argv[1:])
