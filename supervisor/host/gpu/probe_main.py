"""The probe: asks NVML and writes one JSON line a sample to its standard output.

``python -m supervisor.host.gpu.probe_main [SECONDS]``

A process of its own, because a driver call may block for ever, and in a way that even
SIGKILL does not end: the supervisor must be able to go on without it. It ends with its
parent, or when nobody reads any more. It waits for Xids between two samples, and an
Xid is followed by a sample at once.
"""

import ctypes
import json
import os
import signal
import sys
import time
from typing import Any

from supervisor.host.gpu.nvml import AbsentError, Nvml

PR_SET_PDEATHSIG = 1
"""linux/prctl.h"""


def main() -> None:
    """Sample until the reader is gone."""
    interval = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    _end_with_parent()
    try:
        nvml = Nvml()
    except AbsentError as error:
        _write({"absent": str(error)})
        return
    xids = nvml.wait(seconds=0.0)
    while True:
        began = time.monotonic()
        _write(nvml.sample() | {"xids": xids})
        xids = nvml.wait(seconds=max(interval - (time.monotonic() - began), 0.0))


def _write(value: dict[str, Any]) -> None:
    """One whole line. Raises SystemExit where nobody reads any more."""
    line = json.dumps(value, separators=(",", ":")).encode() + b"\n"
    view = memoryview(line)
    try:
        while view:
            view = view[os.write(sys.stdout.fileno(), view) :]
    except BrokenPipeError:
        raise SystemExit from None


def _end_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was told
        raise SystemExit


if __name__ == "__main__":
    main()
