"""A sampler of the training thread: how often it is found standing in a write.

What a script prints or logs goes to the kernel by calls that return at once, unless the
disk, or whoever reads the pipe, is slower than the script. A thread that stands in such a
call shows it in /proc (``proc_pid_syscall(5)``): looked at with each heartbeat, which takes
0.2 ms and nothing of the training thread.
"""

import platform
import threading
from collections import Counter
from pathlib import Path

WRITES = {
    "x86_64": {1: "write", 18: "pwrite", 20: "writev", 74: "fsync", 75: "fdatasync"},
    "aarch64": {64: "write", 68: "pwrite", 66: "writev", 82: "fsync", 83: "fdatasync"},
}
"""Numbers of system calls that write, by machine: their first argument is a descriptor."""
NO_FILES = ("socket:", "anon_inode:")
"""What stands for a descriptor that is neither a file nor a pipe."""

NAMED = 64
"""So many files are counted by name; the others together."""


class WriteSampler:
    """Looks at the thread that made it."""

    def __init__(self) -> None:
        thread = threading.get_native_id()
        self._path = Path(f"/proc/self/task/{thread}/syscall")
        self._writes = WRITES.get(platform.machine(), {})
        self.looks = 0
        self.found: Counter[str] = Counter()
        """How often it stood in a write to each file."""

    def look(self) -> None:
        """Once. Where /proc does not say, nothing is counted."""
        try:
            words = self._path.read_text(encoding="ascii").split()
            self.looks += 1
            if not words[0].isdigit() or int(words[0]) not in self._writes:
                return
            target = str(Path(f"/proc/self/fd/{int(words[1], 16)}").readlink())
        except (OSError, IndexError):
            return
        if target.startswith(NO_FILES):
            return
        known = target in self.found or len(self.found) < NAMED
        self.found[target if known else ""] += 1
