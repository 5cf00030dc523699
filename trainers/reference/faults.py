"""The faults that ``misbehave.py`` commits: each a function, called as the fault is.

They are real where they can be without a GPU; what only a GPU can do is printed and
raised as the libraries do (``recorded.py``). How much, how long and where, ``options``
says: the command line of whoever commits them.
"""

import argparse
import contextlib
import ctypes
import functools
import json
import mmap
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

from recorded import RECORDED, replay

MIB = 1024 * 1024
STANDBY_SECONDS = 8.0
"""Enough for a standby to import, and for its supervisor to see what became of it."""

options = argparse.Namespace()
"""To be filled in before a fault is committed."""

training: dict[str, Any] = {}
"""The model, for the faults that touch it."""

Fault = Callable[[], object]


class OwnError(Exception):
    """An exception of the script's own."""


# --- ends of the process --------------------------------------------------------------


def segmentation_fault() -> None:
    """Read address 0."""
    ctypes.string_at(0)


def bus_error() -> None:
    """Read a page of a file that was cut off behind the mapping."""
    with Path("cut-off").open("w+b") as file:
        file.write(bytes(mmap.PAGESIZE))
        file.flush()
        mapped = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        print(mapped[0])


def illegal_instruction() -> None:
    """Run the bytes 0f 0b (``ud2``; on other machines they are as bad)."""
    flags = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=flags)
    page.write(b"\x0f\x0b" * 8)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(None)(address)()


def double_free() -> None:
    """Give the same block back twice: glibc aborts."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    block = ctypes.c_void_p(libc.malloc(5000))
    libc.malloc(5000)  # so that the block does not melt into the top of the heap
    libc.free(block)
    libc.free(block)


def uncaught_in_cpp() -> None:
    """``operator new`` for more than there is, which nobody catches."""
    library = ctypes.CDLL("libstdc++.so.6")
    library._Znwm.argtypes = [ctypes.c_size_t]  # noqa: SLF001  # operator new(size_t)
    library._Znwm(1 << 62)  # noqa: SLF001  # as above


def kill() -> None:
    """SIGKILL, as from outside."""
    os.kill(os.getpid(), signal.SIGKILL)


def terminate() -> None:
    """SIGTERM to training alone, which its supervisor did not ask for."""
    os.kill(os.getpid(), signal.SIGTERM)


def terminate_supervisor() -> None:
    """SIGTERM to whoever started the parent of this process."""
    os.kill(_grandparent(), signal.SIGTERM)


def kill_supervisor() -> None:
    """SIGKILL to whoever started the parent of this process."""
    os.kill(_grandparent(), signal.SIGKILL)


def kill_shim() -> None:
    """SIGKILL to the parent of this process."""
    os.kill(os.getppid(), signal.SIGKILL)


def _grandparent() -> int:
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])  # field 4 of proc(5)


def os_exit() -> NoReturn:
    """``os._exit``, past every handler."""
    os._exit(options.code)


def sys_exit() -> NoReturn:
    """``sys.exit``."""
    sys.exit(options.code)


# --- exceptions -----------------------------------------------------------------------


def key_error() -> None:
    """A mistake in the script."""
    print({"rate": 0.1}["learning_rate"])


def own_exception() -> NoReturn:
    """An exception of the script's own type, with text that is not UTF-8."""
    message = "the run is \udcff not what it was: \U0001f525"
    raise OwnError(message)


def recursion() -> None:
    """RecursionError."""
    recursion()


def interrupt() -> NoReturn:
    """KeyboardInterrupt, from nobody's keyboard."""
    raise KeyboardInterrupt


def import_nothing() -> None:
    """A package that is not there."""
    __import__("a_package_that_is_not_installed")


# --- main memory ----------------------------------------------------------------------


def memory_error() -> None:
    """NumPy is refused memory: the address space has a limit."""
    import numpy as np  # noqa: PLC0415  # plain faults need no NumPy

    used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * MIB, resource.RLIM_INFINITY))
    np.ones(1 << 30)


def eat_memory() -> None:
    """Take memory until the kernel's OOM killer comes (in a cgroup with a limit)."""
    _enter("memory")
    block = os.urandom(4096) * (16 * MIB // 4096)
    eaten = [bytearray(block) for _ in range(options.megabytes // 16)]
    print(f"{len(eaten)} blocks were not enough to be killed")


def _enter(controller: str) -> None:
    """Move this process into the cgroup at ``--path``, where there is one."""
    if options.path is not None and controller in options.path.parts:
        (options.path / "cgroup.procs").write_text(str(os.getpid()))


# --- hangs ----------------------------------------------------------------------------


def deadlock() -> None:
    """Two threads, two locks, in opposite order; the main thread waits for them."""
    locks = threading.Lock(), threading.Lock()
    ready = threading.Barrier(2)

    def take(first: threading.Lock, second: threading.Lock) -> None:
        with first:
            ready.wait()
            with second:
                print("never")

    threading.Thread(target=take, args=locks, daemon=True).start()
    take(locks[1], locks[0])


def native_deadlock() -> None:
    """A native mutex taken twice, while the interpreter's lock is held."""
    _lock_twice(ctypes.PyDLL(None))


def native_wait() -> None:
    """A native mutex taken twice; other Python threads go on (as in a hung NCCL)."""
    _lock_twice(ctypes.CDLL(None))


def _lock_twice(library: Any) -> None:
    mutex = ctypes.create_string_buffer(64)
    library.pthread_mutex_init(mutex, None)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def busy_loop() -> None:
    """Compute for ever."""
    while True:
        pass


def stop() -> None:
    """SIGSTOP; a child wakes this process up again after ``--seconds``."""
    pid = os.getpid()
    if os.fork() == 0:
        time.sleep(options.seconds)
        os.kill(pid, signal.SIGCONT)
        os._exit(0)
    os.kill(pid, signal.SIGSTOP)
    os.wait()


def freeze() -> None:
    """Freeze this process in the cgroup (v1 freezer) at ``--path``: D state."""
    (options.path / "cgroup.procs").write_text(str(os.getpid()))
    (options.path / "freezer.state").write_text("FROZEN")
    time.sleep(600)


def freeze_worker() -> None:
    """A data worker in such a cgroup, for ever; then SIGKILL for this process."""
    worker = os.fork()
    if worker == 0:
        time.sleep(600)
        os._exit(0)
    (options.path / "cgroup.procs").write_text(str(worker))
    (options.path / "freezer.state").write_text("FROZEN")
    kill()


# --- other processes ------------------------------------------------------------------


def breed() -> None:
    """Many children, half of them in sessions of their own, then a crash."""
    for number in range(options.count):
        if os.fork() == 0:
            if number % 2:
                os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
            os._exit(0)
    segmentation_fault()


def zombies() -> None:
    """Children that ended and that nobody waits for."""
    for _ in range(options.count):
        if os.fork() == 0:
            os._exit(0)
    time.sleep(0.2)


def escaped_worker() -> None:
    """A data worker that left session and parent, then SIGKILL for this process."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
    kill()


# --- output ---------------------------------------------------------------------------


def flood() -> None:
    """As much on standard error as ``--megabytes`` says, as fast as it goes."""
    os.write(2, b"the flood begins\n")
    line = b"W lots of words about nothing in particular, over and over again\n"
    block = line * (MIB // len(line))
    for _ in range(options.megabytes * MIB // len(block)):
        os.write(2, block)
    os.write(2, b"the flood ends\n")


def flood_and_die() -> None:
    """The flood, then the line that says why, then SIGABRT."""
    flood()
    replay("cuda_fault")


def garbage() -> None:
    """Bytes that are no UTF-8, NULs, terminal codes."""
    os.write(1, bytes(range(256)) * 200 + b"\x1b[2J\x1b]0;title\x07\n")


def no_newline() -> None:
    """Megabytes without a newline, and the error in the middle of them."""
    os.write(1, b"." * (options.megabytes * MIB))
    os.write(2, b"F gpu: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was ")
    os.write(2, b"encountered")
    os.write(1, b"." * MIB)
    os.abort()


# --- files ----------------------------------------------------------------------------


def missing_file() -> None:
    """Open what is not there."""
    Path("data-that-is-not-there.csv").read_text()


def fill_disk() -> None:
    """Write into ``--path`` until there is no room (the script's own file)."""
    with (options.path / "checkpoint.bin").open("wb", buffering=0) as file:
        for _ in range(options.megabytes):
            file.write(bytes(MIB))


def fill_silently() -> None:
    """Fill the file system at ``--path``, and go on training."""
    try:
        fill_disk()
    except OSError as error:
        print(f"filled: {error.strerror}")


def damage_snapshot() -> None:
    """Flip a bit in the newest snapshot on disk, then SIGKILL."""
    directive = json.loads(Path(os.environ["TRAINWARDEN_DIRECTIVE"]).read_text())
    tensors = Path(directive["snapshot_directory"]).glob("*/*.safetensors")
    newest = max(tensors, key=lambda path: path.parent.name)
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    newest.write_bytes(content)
    kill()


def damage_compilations() -> None:
    """Flip a bit in all that XLA compiled and is kept, then SIGKILL."""
    directive = json.loads(Path(os.environ["TRAINWARDEN_DIRECTIVE"]).read_text())
    kept = Path(directive["compilation_directory"])
    files = [path for path in kept.rglob("*") if path.is_file()]
    for path in files:
        content = bytearray(path.read_bytes()) or bytearray(1)
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    print(f"{len(files)} files were damaged")
    kill()


def kill_standby() -> None:
    """SIGKILL to the process that stands by to be the next attempt, then to this one."""
    for process in _standby():
        os.kill(process, signal.SIGKILL)
    time.sleep(STANDBY_SECONDS)
    kill()


def upgrade_package() -> None:
    """Another version of the package in ``--path``, while a process stands by that has
    imported it; then SIGKILL to this one."""
    directive = json.loads(Path(os.environ["TRAINWARDEN_DIRECTIVE"]).read_text())
    told = Path(directive["attempt_directory"]).parents[1] / "standby.json"
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline:
        if told.exists() and "waits" in told.read_text():
            break
        time.sleep(0.1)
    (source,) = options.path.glob("*/__init__.py")
    source.write_text(source.read_text() + "# of another version\n")
    kill()


def plant_standby() -> None:
    """Where processes stand by lies what is another user's: a link to a directory that
    everybody may write into. Then SIGKILL, once that was noticed."""
    directive = json.loads(Path(os.environ["TRAINWARDEN_DIRECTIVE"]).read_text())
    planted = Path("planted").absolute()
    planted.mkdir()
    planted.chmod(0o777)
    os.chown(planted, options.code, options.code)
    run = Path(directive["attempt_directory"]).parents[1]
    (run / "standby").symlink_to(planted)
    time.sleep(2 * STANDBY_SECONDS)
    print(f"planted: {len(list(planted.iterdir()))} files of a standby lie there")
    kill()


def _standby() -> list[int]:
    """Its processes, as soon as it had time to import."""
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline:
        found = [one for one in map(_stands_by, Path("/proc").iterdir()) if one]
        if found:
            time.sleep(STANDBY_SECONDS)
            return found
        time.sleep(0.1)
    return []


def _stands_by(process: Path) -> int | None:
    """Its number, if it stands by for the run of this process."""
    try:
        words = (process / "cmdline").read_bytes()
        near = (process / "cwd").readlink() == Path.cwd()
    except OSError:
        return None
    return int(process.name) if b"--standby" in words and near else None


def lose_loss_and_supervisor() -> None:
    """SIGKILL to the supervisor, and then a loss that is lost: nobody answers."""
    kill_supervisor()
    lose_the_loss()


def jump_clock() -> None:
    """Tell the preloaded library (tests/chaos/clock_jump.c) to move the clock."""
    Path(os.environ["CLOCK_JUMP"]).write_text(str(options.seconds))


# --- the allocator and the model ------------------------------------------------------


def fragment() -> None:
    """Leave much memory free in small pieces, then ask for a large one."""
    import tensorflow as tf  # noqa: PLC0415  # plain faults need no TensorFlow

    pieces = [tf.fill((2, MIB // 4), 1.0) for _ in range(options.megabytes // 2)]
    del pieces[::2]
    print(f"{len(pieces)} pieces are kept")
    tf.fill((len(pieces), MIB // 4), 1.0)


def one_tensor_too_many() -> None:
    """Ask for a tensor that is larger than the whole device."""
    import tensorflow as tf  # noqa: PLC0415  # plain faults need no TensorFlow

    tf.fill((options.megabytes, MIB // 4), 1.0)


def hoard() -> None:
    """Take all of the device's memory but crumbs, and keep it where nobody looks."""
    import tensorflow as tf  # noqa: PLC0415  # plain faults need no TensorFlow

    kept: list[Any] = []
    setattr(tf.debugging, "hoard", kept)  # noqa: B010  # of a library: no part of a state
    for size in (MIB, MIB // 8):  # each time TensorFlow waits ten seconds for more
        with contextlib.suppress(tf.errors.ResourceExhaustedError):
            while True:
                kept.append(tf.fill((size // 4,), 1.0))


def lose_the_loss() -> None:
    """Weights that are no numbers, as after a step that was too large.

    Those of the output: on some processors ReLU makes 0 of NaN.
    """
    kernel = training["model"].layers[-1].kernel
    kernel.assign(kernel * float("nan"))


FAULTS: dict[str, Fault] = {
    **{
        name.replace("_", "-"): fault
        for name, fault in list(globals().items())
        if isinstance(fault, FunctionType)
        and fault.__module__ == __name__
        and not name.startswith(("_", "import"))
    },
    "nothing": lambda: None,
    "abort": os.abort,
    "import": import_nothing,
    **{f"recorded-{name}": functools.partial(replay, name) for name in RECORDED},
}
