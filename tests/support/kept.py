"""The service that keeps the GPU probe, in a thread of the test."""

import threading
from pathlib import Path

from supervisor.host.gpu.kernel_log import KernelLog
from supervisor.host.gpu.probe_service import GpuService
from tests.support.watched import QUICK


class Kept:
    """A service from its making to ``close``. ``driver``: is there if one is loaded."""

    def __init__(
        self, path: Path, environment: dict[str, str], kernel: Path, driver: Path
    ) -> None:
        self.service = GpuService(
            path,
            interval_seconds=0.1,
            limits=QUICK,
            environment=environment,
            kernel=KernelLog(kernel),
            driver=driver,
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="kept")
        self._thread.start()

    def close(self) -> None:
        """End it in order."""
        self._closing.set()
        self._thread.join()
        self.service.close()

    def _serve(self) -> None:
        while not (self._closing.is_set() or self.service.over):
            self.service.turn(seconds=0.1)
