"""Xids from two sources, each told once: NVML's events and the kernel log.

NVML tells of an Xid while somebody listens; the kernel log keeps what happened while
nobody did. Most are told by both, a moment apart.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from supervisor.core.gpu.gpu_readings import Gpu, Xid, short_bus

SAME_SECONDS = 3.0
"""Two tellings of one GPU and number within this time are one Xid."""
KEPT = 256
"""Of the newest, so that a storm does not fill memory."""

_LINE = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
    r"[^)]*\): (?P<code>\d{1,4})\b"
)
"""As in ``NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off
the bus.`` (NVIDIA: docs.nvidia.com/deploy/xid-errors)"""


def parse_xid(text: str, *, at: float) -> Xid | None:
    """The Xid in a line of the kernel log; None: the line is about something else."""
    found = _LINE.search(text)
    if found is None:
        return None
    code, bus = int(found["code"]), short_bus(found["bus"])
    return Xid(code=code, at=at, bus=bus, text=text[:300])


@dataclass(frozen=True, slots=True)
class Known:
    """One Xid, and which sources told of it."""

    xid: Xid
    sources: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class XidLog:
    """What was heard. ``counts``: all there ever were, by GPU and number."""

    newest: tuple[Known, ...] = ()
    counts: Mapping[tuple[str, int], int] | None = None

    @property
    def xids(self) -> tuple[Xid, ...]:
        """The newest ones, in the order in which they were heard of."""
        return tuple(known.xid for known in self.newest)

    def since(self, at: float) -> tuple[Xid, ...]:
        """Those that happened at ``at`` or later (monotonic seconds)."""
        return tuple(xid for xid in self.xids if xid.at >= at)

    def count(self, gpu: str) -> int:
        """How many there were on the GPU of this UUID."""
        return sum(self.codes(gpu).values())

    def codes(self, gpu: str) -> dict[int, int]:
        """How many of each number there were on it."""
        counts = (self.counts or {}).items()
        return {code: count for (name, code), count in counts if name == gpu}

    def last(self, gpu: str) -> Xid | None:
        """The newest on the GPU of this UUID."""
        return next((xid for xid in reversed(self.xids) if xid.gpu == gpu), None)


def heard(
    log: XidLog, xids: Iterable[Xid], *, source: str, gpus: Iterable[Gpu]
) -> XidLog:
    """``log`` with ``xids`` that ``source`` tells of; ``gpus`` give them their names, and
    also those that were heard of before anybody had said which GPUs there are."""
    uuids = {gpu.bus: gpu.uuid for gpu in gpus if gpu.bus}
    buses = {uuid: bus for bus, uuid in uuids.items()}
    log = _named(log, uuids)
    for xid in xids:
        uuid = xid.gpu or uuids.get(xid.bus)
        bus = xid.bus or buses.get(uuid or "", "")
        log = _with(log, replace(xid, gpu=uuid, bus=bus), source)
    return log


def _named(log: XidLog, uuids: Mapping[str, str]) -> XidLog:
    """``log``, its GPUs by UUID where they are known by now."""
    if not any(
        known.xid.gpu is None and known.xid.bus in uuids for known in log.newest
    ):
        return log
    counts: dict[tuple[str, int], int] = {}
    for (gpu, code), count in (log.counts or {}).items():
        key = (uuids.get(gpu, gpu), code)
        counts[key] = counts.get(key, 0) + count
    newest = (
        replace(
            known,
            xid=replace(known.xid, gpu=known.xid.gpu or uuids.get(known.xid.bus)),
        )
        for known in log.newest
    )
    return XidLog(newest=tuple(newest), counts=counts)


def _with(log: XidLog, xid: Xid, source: str) -> XidLog:
    for place, known in enumerate(log.newest):
        if _same(known, xid, source):
            both = Known(
                replace(known.xid, text=known.xid.text or xid.text),
                known.sources | {source},
            )
            newest = (*log.newest[:place], both, *log.newest[place + 1 :])
            return replace(log, newest=newest)
    key = (xid.gpu or xid.bus, xid.code)
    counts = dict(log.counts or {})
    counts[key] = counts.get(key, 0) + 1
    newest = (*log.newest, Known(xid, frozenset({source})))[-KEPT:]
    return XidLog(newest=newest, counts=counts)


def _same(known: Known, xid: Xid, source: str) -> bool:
    """Whether another source has told of this very one."""
    old = known.xid
    return (
        source not in known.sources
        and old.code == xid.code
        and (old.gpu or old.bus) == (xid.gpu or xid.bus)
        and abs(old.at - xid.at) <= SAME_SECONDS
    )


def as_kernel_line(xid: Xid) -> str:
    """``xid`` as the driver writes it into the kernel log: what signatures read."""
    return xid.text or f"NVRM: Xid (PCI:{xid.bus or xid.gpu}): {xid.code}"
