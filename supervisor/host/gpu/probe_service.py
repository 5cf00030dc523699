"""The GPU probe as a service: ``python -m supervisor.host.gpu.probe_service SOCKET [SECONDS]``.

``trainwarden-gpu.service`` runs it beside a daemon that has no devices itself. It keeps
a probe (``host.gpu.probe_main``) by the rules of ``core.gpu.probe_supervision``, and passes on what it says,
line by line, to everybody who connects to ``SOCKET``; the permissions of the directory
that it lies in decide who that can be. Nobody is read from, and who does not keep up is
cut off. Beside the probe's own lines it says::

    {"kernel": [{"at": …, "text": …}, …]}  lines of the kernel log, see ``ABOUT``
    {"absent": "…"}                        there is no NVML here
    {"hanging": true}                      the probe does not end even by SIGKILL

Whoever connects is told the last Xids and kernel lines again: a daemon that was
restarted has missed them. No call of the driver is made in this process, so it can
always be ended. On a machine without the driver it ends at once, and well.
"""

import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from supervisor.core.gpu.gpu_readings import GpuSample, KernelLine, Logged, Xid
from supervisor.core.gpu.probe_supervision import Limits, Mode, ProbeSupervision
from supervisor.core.text.log_level import LogLevel
from supervisor.host.gpu.kernel_log import KernelLog
from supervisor.host.gpu.probe_runner import ProbeRunner
from supervisor.host.gpu.probe_sources import DRIVER, ChildSource
from supervisor.host.gpu.subscribers import Subscribers
from supervisor.host.process.child_process import wait_for
from supervisor.host.service.clock import Clock
from supervisor.host.service.journal import marked
from supervisor.host.service.nonblocking_writer import NonblockingWriter
from supervisor.host.service.sd_notify import SdNotifier

ABOUT = ("NVRM: ", "Killed process")
"""Of the kernel log only what is evidence about an attempt: Xids, and OOM kills."""
KEPT = 256
"""Xids and kernel lines that are told again."""
TURN_SECONDS = 1.0
_ERRORS = NonblockingWriter(2)


class GpuService:
    """Keeps the probe; ``turn`` again and again, until ``over``."""

    def __init__(
        self,
        path: Path,
        *,
        interval_seconds: float = 1.0,
        limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
        kernel: KernelLog | None = None,
        driver: Path = DRIVER,
    ) -> None:
        """Listen at ``path``. ``environment``: of the probe. Raises OSError."""
        self._running = ProbeRunner(
            begin=partial(
                ChildSource,
                interval_seconds=interval_seconds,
                environment=environment,
            ),
            heed=self._heed,
            say=_say,
            clock=Clock(),
            probe=ProbeSupervision(limits=limits or Limits(absent_seconds=60.0)),
        )
        self._kernel = kernel or KernelLog()
        self._driver = driver
        self.readers = Subscribers(path)
        self._last: tuple[bytes, GpuSample] | None = None
        self._xids: deque[Xid] = deque(maxlen=KEPT)
        self._logged: deque[KernelLine] = deque(maxlen=KEPT)
        self._mode = Mode.RESTING
        self.over = False
        """There is nothing to ask on this machine."""

    @property
    def about(self) -> str:
        """How it is, in a few words."""
        problem = self._running.probe.problem
        if problem or self._last is None:
            return problem or "no answer of the driver yet"
        sample = self._last[1]
        return f"{len(sample.gpus)} GPUs, driver {sample.driver}"

    def turn(self, *, seconds: float = TURN_SECONDS) -> None:
        """Do what is due; then wait for something to happen, so long at most."""
        self._running.tick()
        self._heed_mode()
        sources = [*self.readers.descriptors, *self._running.descriptors]
        if not self.over:
            wait_for(sources, seconds=seconds)
        self._running.read()
        self._read_kernel()
        self.readers.meet(self._welcome)

    def close(self) -> None:
        """End the probe, and listen no more."""
        self._running.close()
        self.readers.close()
        self._kernel.close()

    def _heed(self, line: bytes, said: GpuSample | Logged) -> None:
        if isinstance(said, Logged):  # a probe says no such thing
            return
        first, self._last = self._last is None, (line, said)
        self._xids.extend(said.xids)
        self.readers.tell(self._whole() if first else line + b"\n")

    def _heed_mode(self) -> None:
        """Tell what is new about the probe itself."""
        before, self._mode = self._mode, self._running.probe.mode
        if self._mode is not Mode.ASKED:
            self._last = None
        if self._mode is before:
            return
        if before is Mode.STUCK:
            self.readers.cut()  # for those who were told that it hangs
        if self._mode in {Mode.STUCK, Mode.ABSENT}:
            self.readers.tell(self._state())
        if self._mode is Mode.ABSENT:
            self.over = not self._driver.exists()
            if not self.over:
                _say(f"NVML does not answer: {self._running.probe.problem}")

    def _read_kernel(self) -> None:
        lines = [line for line in self._kernel.poll() if _is_about_faults(line)]
        if lines:
            self._logged.extend(lines)
            self.readers.tell(_kernel(lines))

    def _welcome(self) -> bytes:
        """For one who has just come."""
        kernel = _kernel(self._logged) if self._kernel.readable else b""
        return kernel + self._state() + self._whole()

    def _state(self) -> bytes:
        """What there is to say while there are no samples."""
        probe = self._running.probe
        if probe.mode is Mode.STUCK:
            return _line({"hanging": True})
        if probe.mode is Mode.ABSENT:
            return _line({"absent": probe.problem})
        return b""

    def _whole(self) -> bytes:
        """The newest sample, with all Xids that are remembered."""
        if self._last is None:
            return b""
        xids = [{"code": x.code, "at": x.at, "gpu": x.gpu} for x in self._xids]
        return _line(json.loads(self._last[0]) | {"xids": xids})


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _kernel(lines: "deque[KernelLine] | list[KernelLine]") -> bytes:
    return _line({"kernel": [{"at": at, "text": text} for at, text in lines]})


def _is_about_faults(line: KernelLine) -> bool:
    return any(word in line.text for word in ABOUT)


def _say(text: str) -> None:
    """To the journal, which reads standard error of services: nothing but troubles."""
    with contextlib.suppress(OSError):
        _ERRORS.write(marked(text, LogLevel.WARNING) + "\n")


def main() -> None:
    """Serve until SIGTERM, or until it turns out that there is nothing to ask."""
    notifier = SdNotifier.of(os.environ)
    interval = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    service = GpuService(Path(sys.argv[1]), interval_seconds=interval)
    notifier.send(READY="1")
    about = ""
    while not service.over:
        service.turn()
        if service.about != about:
            about = service.about
            notifier.send(STATUS=about)
        notifier.send(WATCHDOG="1")
    service.close()


if __name__ == "__main__":
    main()
