"""The GPUs that this machine has shown since it began, kept in the ledger.

A driver that starts anew names no GPU that has fallen off the bus. Whoever saw it before
knows that it is missing; so does the next daemon, from here.
"""

import contextlib
from dataclasses import dataclass, field
from typing import Any, cast

from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.host.gpu.gpu_monitor import GpuView
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import LedgerError

SETTING = "known_gpus"


@dataclass(slots=True)
class KnownGpus:
    """Of one boot of one machine, or one life of one container: another machine with this
    state directory has other GPUs, and after a boot one may be missing on purpose."""

    book: JobBook
    _boot: str = field(default_factory=boot_id)
    _kept: object = None
    """As the ledger has it."""

    def recall(self) -> tuple[Gpu, ...]:
        """Those that an earlier daemon saw. Raises LedgerError."""
        self._kept = known = self.book.setting(SETTING)
        if not isinstance(known, dict):
            return ()
        kept = cast("dict[str, Any]", known)
        gpus: list[dict[str, Any]] = kept["gpus"]
        here = kept["boot_id"] == self._boot
        return tuple(Gpu(**one) for one in gpus) if here else ()

    def see(self, view: GpuView) -> None:
        """Write down which there are, where that has changed."""
        if view.sample is None:
            return
        kept = {"boot_id": self._boot, "gpus": [_row(one) for one in view.sample.gpus]}
        if kept != self._kept:
            with contextlib.suppress(LedgerError):  # then the next time
                self.book.set(SETTING, kept)
                self._kept = kept


def _row(gpu: Gpu) -> dict[str, Any]:
    """What tells it from the others, and where it is."""
    return {"uuid": gpu.uuid, "index": gpu.index, "name": gpu.name, "bus": gpu.bus}
