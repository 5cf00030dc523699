"""A process that holds main memory."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

SCRIPT = """
import sys
own = bytearray(b"x") * int(sys.argv[1])
print("there", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(size: int) -> Generator[subprocess.Popen[str]]:
    """A child that has written so many bytes of its own, until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "there\n"
        try:
            yield child
        finally:
            child.communicate()
