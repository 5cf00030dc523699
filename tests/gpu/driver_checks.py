"""Checks of the driver: what NVML tells, beside what ``nvidia-smi`` tells."""

import json
import subprocess
import time
from typing import Any

from supervisor.core.gpu.gpu_readings import THROTTLES, Gpu
from supervisor.host.gpu.gpu_monitor import GpuMonitor
from tests.gpu.driver_probe import probing
from tests.gpu.gpu_check import GIB, CheckFacts, CheckPlace, GpuCheck, until

MIB = 2**20
ASKED: dict[str, str] = {
    "uuid": "uuid",
    "name": "name",
    "bus": "pci.bus_id",
    "total": "memory.total",
    "reserved": "memory.reserved",
    "used": "memory.used",
    "temperature": "temperature.gpu",
    "power": "power.draw.instant",
    "power_limit": "enforced.power.limit",
    "throttle": "clocks_event_reasons.active",
    "ecc_volatile_corrected": "ecc.errors.corrected.volatile.total",
    "ecc_volatile_uncorrected": "ecc.errors.uncorrected.volatile.total",
    "ecc_aggregate_corrected": "ecc.errors.corrected.aggregate.total",
    "ecc_aggregate_uncorrected": "ecc.errors.uncorrected.aggregate.total",
    "lanes": "pcie.link.width.current",
    "lanes_most": "pcie.link.width.max",
    "clock_sm": "clocks.sm",
    "clock_memory": "clocks.mem",
    "clock_limit_sm": "clocks.max.sm",
    "clock_limit_memory": "clocks.max.memory",
    "mig": "mig.mode.current",
}
"""Our name of a figure, and that of ``nvidia-smi --help-query-gpu``."""
NEAR = {"used": 64.0, "temperature": 5.0, "power": 60.0}
"""What moves by itself, and how far within a second: MiB, °C, W."""
MOVING = {"clock_sm", "clock_memory", "throttle"}
"""Nobody knows what these are a second later."""


def told_by_nvidia_smi() -> dict[str, str | None]:
    """Of the first GPU, by our names; None: it does not support it.

    Raises OSError or subprocess.SubprocessError.
    """
    command = ["nvidia-smi", "--id=0", "--format=csv,noheader,nounits"]
    asked = f"--query-gpu={','.join(ASKED.values())}"
    done = subprocess.run(
        [*command, asked], capture_output=True, text=True, timeout=60, check=True
    )
    values = [value.strip() for value in done.stdout.strip().split(",")]
    return {
        name: None if value.startswith("[") else value
        for name, value in zip(ASKED, values, strict=True)
    }


def told_by_us(gpu: Gpu) -> dict[str, float | str | None]:
    """The same, as the metrics and the commands have it."""
    memory, lanes = gpu.memory, gpu.pcie_lanes

    def mib(nbytes: int | None) -> float | None:
        return None if nbytes is None else nbytes / MIB

    def megahertz(hertz: float | None) -> float | None:
        return None if hertz is None else hertz / 1e6

    return {
        "uuid": gpu.uuid,
        "name": gpu.name,
        "bus": gpu.bus,
        "total": mib(memory.total if memory else None),
        "reserved": mib(memory.reserved if memory else None),
        "used": mib(memory.used if memory else None),
        "temperature": gpu.temperature_celsius,
        "power": gpu.power_watts,
        "power_limit": gpu.power_limit_watts,
        "throttle": ",".join(sorted(gpu.throttled)) if gpu.throttled is not None else None,
        **{f"ecc_{span}_{kind}": count for (span, kind), count in gpu.ecc.items()},
        "lanes": lanes[0] if lanes else None,
        "lanes_most": lanes[1] if lanes else None,
        "clock_sm": megahertz(gpu.clocks_hertz.get("sm")),
        "clock_memory": megahertz(gpu.clocks_hertz.get("memory")),
        "clock_limit_sm": megahertz(gpu.clock_limits_hertz.get("sm")),
        "clock_limit_memory": megahertz(gpu.clock_limits_hertz.get("memory")),
        "mig": "Enabled" if gpu.mig else "Disabled",
    }  # fmt: skip


def agrees(name: str, ours: float | str | None, theirs: str | None) -> bool:
    """Whether two answers about one figure are the same."""
    if ours is None or theirs is None:
        return ours is theirs is None or (name == "mig" and theirs is None)
    if name in MOVING:
        return True
    if name == "bus":  # the kernel log has four digits of the domain, and no function
        return str(ours).lower() in theirs.lower()
    if isinstance(ours, str):
        return ours == theirs
    return abs(ours - float(theirs)) <= NEAR.get(name, 1.0)


def figures(_place: CheckPlace) -> CheckFacts:
    """Every figure of the first GPU, from both."""
    seen = CheckFacts()
    with probing(0.5) as probe:
        line = probe.line()
        theirs = told_by_nvidia_smi()
        line = probe.line()
    ours = told_by_us(line.first)
    seen.facts = {"sample": line.raw, "nvidia_smi": theirs}
    for name, told in theirs.items():
        mine = ours.get(name)
        seen.expect(agrees(name, mine, told), f"{name}: we say {mine}, it says {told}")
    names = {name for _, name in THROTTLES}
    seen.expect((line.first.throttled or set()) <= names, "a throttle without a name")
    for name, problem in line.first.problems.items():
        seen.problems.append(f"{name}: {problem}")
    return seen


def processes(place: CheckPlace) -> CheckFacts:
    """One that holds 4 GiB is listed; once killed, its memory is seen to be free."""
    seen = CheckFacts()
    with probing() as probe:
        before = probe.now().first
        with place.holding(4 * GIB) as pid:
            line = probe.now()
            listed = [p for p in line.first.processes or () if p.pid == pid]
        killed = time.monotonic()
        line, _ = probe.until(
            lambda line: all(p.pid != pid for p in line.first.processes or ())
        )
        unlisted = time.monotonic() - killed
        most = (before.memory.used if before.memory else 0) + 64 * MIB
        line, _ = probe.until(
            lambda line: (
                line.first.memory is not None and line.first.memory.used <= most
            )
        )
        free = time.monotonic() - killed
    seen.facts = {
        "listed": [{"bytes": one.bytes, "name": one.name} for one in listed],
        "unlisted_after_seconds": unlisted,
        "free_after_seconds": free,
        "seconds_of_a_sample": line.sample.seconds,
    }
    held = sum(one.bytes or 0 for one in listed)
    seen.expect(held >= 4 * GIB, f"it holds 4 GiB, we say {held} bytes")
    return seen


def xids(place: CheckPlace) -> CheckFacts:
    """A kernel of another process faults: the Xid is heard of, with its GPU."""
    seen = CheckFacts()
    said: list[str] = []
    monitor = GpuMonitor(
        say=said.append,
        interval_seconds=0.2,
        environment=place.environment({}),  # its probe starts elsewhere
    )
    monitor.start()
    try:
        until(lambda: monitor.latest().sample is not None, 30)
        sampled = monitor.latest().sample is not None
        done = place.python(place.script("fault"))
        until(lambda: bool(monitor.refresh().xids.xids), 10)
        view = monitor.refresh()
    finally:
        monitor.close()
    seen.facts = {
        "driver_code": done.stdout.strip(),
        "said": said,
        "kernel_log_readable": view.kernel_readable,
        "xids": [
            {"code": xid.code, "gpu_known": xid.gpu is not None, "text": xid.text}
            for xid in view.xids.xids
        ],
    }
    seen.expect(sampled, f"no sample in 30 s: {said}")
    seen.expect("700" in done.stdout, f"no fault: {done.stdout}")  # ILLEGAL_ADDRESS
    seen.expect(view.xids.xids, "no Xid was heard of")
    seen.expect(all(xid.gpu for xid in view.xids.xids), "an Xid of no GPU")
    return seen


def commands(place: CheckPlace) -> CheckFacts:
    """``trainwarden check`` and ``trainwarden gpu``, as an operator would look first."""
    seen = CheckFacts()
    checked = place.trainwarden("check", "--json")
    told = place.trainwarden("gpu", "--json")
    seen.facts = {"check": lines_of(checked.stdout), "gpu": lines_of(told.stdout)}
    seen.expect(
        told.returncode == 0, f"gpu ended with {told.returncode}: {told.stdout}"
    )
    return seen


def lines_of(text: str) -> Any:
    """JSON, or the lines where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text.splitlines()


CHECKS = (
    GpuCheck(
        name="figures",
        what="NVML's figures are those of nvidia-smi",
        run=figures,
    ),
    GpuCheck(
        name="processes",
        what="a process is listed, and its memory is seen free once it is dead",
        run=processes,
    ),
    GpuCheck(name="xids", what="a kernel that faults is heard of as an Xid", run=xids),
    GpuCheck(name="commands", what="check and gpu answer", run=commands),
)
