"""GPUs that are not there: NVML's library built on its official header, with a script.

The library is loaded by the real binding in a real probe process. ``FakeNvml`` writes
the file that holds its answers, as often as a test likes. Keys::

    count                      how many GPUs
    N.uuid N.name N.bus        who GPU N is (``00000000:3B:00.0``)
    N.total N.used N.reserved  memory, in bytes
    N.utilization N.temperature N.power N.power_limit N.throttle N.replays
    N.lanes N.lanes_most       of the PCIe link
    N.clock.sm N.clock.memory  in MHz; N.clock_limit.sm and .memory; N.energy in mJ
    N.field.ID                 a counter of NVLink, by its number in nvml.h
    N.ecc.volatile.corrected   and so on; N.rows=CORRECTED,UNCORRECTED,PENDING,FAILED
    N.processes                PID:BYTES:INSTANCE,…; N.graphics in the same way
    living=1                   only processes that exist are listed
    N.mig=1, N.mig.M.uuid, N.mig.M.total, N.mig.M.used
    N.lost=1                   it has fallen off the bus
    xids, xid.1 …              GPU:CODE of each event so far
    hang.FUNCTION=1            that call does not return while this stands here
    error.FUNCTION=CODE        that call fails

A key that is missing is something that the device does not support.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
LIBRARY = "libnvidia-ml.so.1"
GIB = 2**30


def header() -> Path | None:
    """The directory of the official ``nvml.h``; None: its package is not installed."""
    try:
        found = files("nvidia-nvml-dev") or []
    except PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in found if file.name == "nvml.h")
    return next((path.parent for path in paths), None)


def build(directory: Path) -> Path:
    """The directory that holds the library, built if it is not there yet."""
    target = directory / LIBRARY
    if target.exists():
        return directory
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler here: NVML's double cannot be built")
    where = header()
    if where is None:
        pytest.fail("nvidia-nvml-dev, which brings nvml.h, is not installed")
    fresh = directory / f"{LIBRARY}.{os.getpid()}"
    subprocess.run(
        [
            *(compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"),
            *("-I", str(where), "-o", str(fresh), str(SOURCE), "-lpthread"),
        ],
        check=True,
        timeout=120,
    )
    fresh.rename(target)
    return directory


@dataclass
class FakeNvml:
    """The script of one library. ``environment`` makes a process use it."""

    library: Path
    script: Path
    values: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def environment(self) -> dict[str, str]:
        """For the process that is to see these GPUs."""
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(self.library),
            "FAKE_NVML": str(self.script),
        }

    def set(self, values: Mapping[str, object] | None = None, **more: object) -> None:
        """Change answers; None takes one away."""
        for key, value in {**(values or {}), **more}.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = str(value)
        fresh = self.script.with_suffix(".new")
        lines = (f"{key}={value}\n" for key, value in self.values.items())
        fresh.write_text("".join(lines))
        fresh.rename(self.script)

    def gpus(self, count: int, **more: object) -> list[str]:
        """So many healthy GPUs; their UUIDs."""
        uuids = [f"GPU-{index:08x}-fake" for index in range(count)]
        values: dict[str, object] = {"count": count}
        for index, uuid in enumerate(uuids):
            values |= {f"{index}.{key}": value for key, value in HEALTHY.items()}
            values |= {f"{index}.{key}": value for key, value in more.items()}
            values[f"{index}.uuid"] = uuid
            values[f"{index}.bus"] = f"00000000:{0x30 + index:02X}:00.0"
        self.set(values)
        return uuids

    def xid(self, gpu: int, code: int) -> None:
        """An Xid happens now."""
        number = int(self.values.get("xids", "0")) + 1
        self.set({"xids": number, f"xid.{number}": f"{gpu}:{code}"})


HEALTHY: dict[str, object] = {
    "name": "NVIDIA H200",
    "total": 141 * GIB,
    "used": 20 * GIB,
    "reserved": GIB,
    "utilization": 97,
    "temperature": 61,
    "power": 512_345,
    "power_limit": 700_000,
    "throttle": 0x4,
    "ecc.volatile.corrected": 3,
    "ecc.volatile.uncorrected": 0,
    "ecc.aggregate.corrected": 5,
    "ecc.aggregate.uncorrected": 1,
    "rows": "1,2,0,0",
    "replays": 7,
    "lanes": 16,
    "lanes_most": 16,
    "clock.sm": 1755,
    "clock.memory": 3201,
    "clock_limit.sm": 1980,
    "clock_limit.memory": 3201,
    "energy": 86_400_000,
    "field.38": 0,
    "field.45": 0,
    "field.52": 2,
    "field.59": 1,
    "field.138": 4096,
    "field.139": 2048,
}
"""What a busy device says."""
