"""The shim sees how often the kernel's OOM killer struck, to the very end."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from supervisor.host.launch import attempt_shim
from supervisor.host.process import cgroup
from supervisor.wire.records.end_records import ExitRecord

MEMORY = Path("/sys/fs/cgroup/memory")
ENTERS = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
EATS = "blocks = []\nwhile True: blocks.append(bytearray(os.urandom(4096)) * 4096)"


def test_a_kill_in_its_own_cgroup_is_in_the_record(tmp_path: Path) -> None:
    """Even where the cgroup is gone a moment later, as a unit's is."""
    base = MEMORY if MEMORY.is_dir() else MEMORY.parent
    try:
        group = Path(tempfile.mkdtemp(prefix="shim-", dir=base))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made: {error}")
    try:
        name = "memory.limit_in_bytes" if base is MEMORY else "memory.max"
        if not (group / name).exists():
            pytest.skip("the cgroup has no memory limit")
        (group / name).write_text(str(96 * 2**20))
        command = [sys.executable, "-c", f"import os\n{EATS}"]
        shimmed = [
            sys.executable,
            "-I",
            "-S",
            attempt_shim.__file__,
            str(tmp_path),
            "--",
        ]
        entering = [sys.executable, "-c", ENTERS, str(group / "cgroup.procs")]
        subprocess.run([*entering, *shimmed, *command], check=True, timeout=120)
    finally:
        os.rmdir(group)  # noqa: PTH106  # a cgroup: its files go with it
    record = ExitRecord.from_json(json.loads((tmp_path / "exit.json").read_text()))
    assert record is not None
    assert record.signal == 9
    assert (record.oom_kills or 0) >= 1


def test_a_record_of_an_older_version_is_read() -> None:
    """Its shim may still be there when a new daemon takes over."""
    made = ExitRecord(
        pid=1, exit_code=0, signal=None, core_dumped=False, max_rss_bytes=1,
        user_seconds=0.0, system_seconds=0.0, started_ns=0, ended_ns=1,
        asked_to_stop=False, swept=0, unkillable=(), oom_kills=2,
    )  # fmt: skip
    value = made.to_json()
    assert ExitRecord.from_json(value) == made
    del value["oom_kills"]
    old = ExitRecord.from_json(value)
    assert old is not None
    assert old.oom_kills is None
    del value["pid"]
    assert ExitRecord.from_json(value) is None


def test_it_counts_as_the_supervisor_does(tmp_path: Path) -> None:
    """The shim imports nothing of ours, so both know where the count stands."""
    assert attempt_shim.oom_kills() == cgroup.oom_kills()
    for text in ("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "low 0\n", ""):
        path = tmp_path / "memory.events"
        path.write_text(text)
        assert attempt_shim.counted(str(path)) == cgroup.parse_oom_kills(text)
    assert attempt_shim.counted(str(tmp_path / "none")) is None
