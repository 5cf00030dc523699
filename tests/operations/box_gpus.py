"""The GPU probe's service on a box with systemd: NVIDIA's binding over a double of NVML."""

import json
import os
import time
import urllib.error
import urllib.request

import psutil

from tests.operations.box_extent import WHOLE
from tests.support.fake_nvml import GIB, FakeNvml, build
from tests.support.freezer import frozen
from tests.support.machine import BootedContainer
from tests.support.machine_jobs import (
    attempted,
    await_another,
    finish,
    job,
    main_pid,
    running,
    steps,
    submit,
)

PROBE = "trainwarden-gpu"
METRICS = "http://127.0.0.1:9464/metrics"
"""The machine has our own network."""
AT_LEAST_WITHIN = 60.0
"""Seconds: the machine that tests run on may be busy with other things; the figures
that are printed are what counts."""
FIRST, SECOND = "GPU-00000000-fake", "GPU-00000001-fake"
CONNECTS = """
import socket
socket.socket(socket.AF_UNIX).connect("/run/trainwarden-gpu/probe.sock")
"""
OPENS = """
import errno, os, pathlib, sys
group = pathlib.Path(f"/proc/{sys.argv[1]}/cgroup").read_text()
path = group[group.index("0::") + 3:].split()[0]
pathlib.Path(f"/sys/fs/cgroup{path}/cgroup.procs").write_text(str(os.getpid()))
for name in sys.argv[2:]:
    try:
        os.close(os.open(name, os.O_RDWR))
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"""
"""Joins the cgroup of a process, where its device rules hold, and opens devices."""


def nvml_of(box: BootedContainer) -> FakeNvml:
    """The library that stands in for the driver's inside, and its script."""
    place = box.shared / "nvml"
    place.mkdir(exist_ok=True)
    fake = FakeNvml(build(place), place / "script")
    if fake.script.exists():
        lines = fake.script.read_text().splitlines()
        fake.values = dict(line.split("=", 1) for line in lines)
    return fake


def scraped() -> str:
    """What Prometheus would read; empty: nobody answers."""
    try:
        with urllib.request.urlopen(METRICS, timeout=5.0) as answer:
            text: bytes = answer.read()
            return text.decode()
    except (urllib.error.URLError, OSError):
        return ""


def has_gpus() -> bool:
    """Whether metrics show both GPUs as they are now."""
    text = scraped()
    return all(f'trainwarden_gpu_memory_used_bytes{{gpu="{gpu}"}}' in text
               for gpu in (FIRST, SECOND)) and collects()  # fmt: skip


def collects() -> bool:
    """Whether the collector of NVML says that it succeeds."""
    return 'trainwarden_collector_success{collector="nvml"} 1' in scraped()


def something_new(box: BootedContainer) -> str:
    """A GPU has another temperature from now on; returns what metrics say then."""
    nvml = nvml_of(box)
    celsius = 30 + int(nvml.values.get("1.temperature", "0")) % 50
    nvml.set({"1.temperature": celsius})
    return f'trainwarden_gpu_temperature_celsius{{gpu="{SECOND}"}} {float(celsius)}'


def renewed(box: BootedContainer) -> None:
    """Wait for metrics of which nobody can have known a moment ago."""
    new = something_new(box)
    box.until(lambda: new in scraped() and has_gpus())


def probe_pid(box: BootedContainer) -> int:
    """The process that asks the driver, as numbered inside."""
    keeper = box.property(PROBE, "MainPID")
    return int(box.says("pgrep", "-P", keeper))


def check_a_box_without_gpus_is_quiet(box: BootedContainer) -> None:
    """The unit ends well, without a word and without a second try; nothing fails."""
    box.until(lambda: box.property(PROBE, "ActiveState") == "inactive")
    assert box.property(PROBE, "Result") == "success"
    assert box.property(PROBE, "NRestarts") == "0"
    said = ("journalctl", "-q", "-o", "cat", "-u", PROBE, "_TRANSPORT=stdout")
    assert box.says(*said) == ""
    assert PROBE not in box.says("systemctl", "--failed", "--plain", "--no-legend")
    box.until(lambda: scraped() and 'collector="nvml"' not in scraped())


def equipped(box: BootedContainer) -> None:
    """The machine has two GPUs from now on, and the daemon knows them."""
    settings = box.root / "etc/default/trainwarden-gpu"
    if not settings.exists():
        nvml_of(box).gpus(2)
        settings.write_text(
            "LD_LIBRARY_PATH=/shared/nvml\nFAKE_NVML=/shared/nvml/script\n"
        )
        box.run("systemctl", "start", PROBE)
    box.until(has_gpus)


def check_gpus_are_seen(box: BootedContainer) -> None:
    """By the daemon's metrics and by ``trainwarden gpu``; who is no daemon hears
    nothing from the probe, which runs as a user of its own."""
    equipped(box)
    shown = json.loads(box.trainwarden("gpu", "--json", user="alice").stdout)
    assert [gpu["gpu"] for gpu in shown["gpus"]] == [FIRST, SECOND]
    assert shown["answers"]
    assert "2 GPUs" in box.property(PROBE, "StatusText")
    assert box.property(PROBE, "User") == "trainwarden-gpu"
    python = "/opt/trainwarden/bin/python"
    assert box.run(python, "-c", CONNECTS, user="alice", check=False).returncode == 1
    box.run(python, "-c", CONNECTS)


def check_device_nodes_are_reachable(box: BootedContainer) -> None:
    """NVIDIA's may be opened (here no driver answers: ENXIO), a disk may not (EPERM)."""
    equipped(box)
    for name, number in (("nvidiactl", 255), ("nvidia0", 0), ("nvidia15", 15)):
        box.run("mknod", "--mode=0666", f"/dev/{name}", "c", "195", str(number))
    box.run("mknod", "--mode=0666", "/dev/other", "c", "10", "229")
    said = box.says(
        "/opt/trainwarden/bin/python", "-c", OPENS, box.property(PROBE, "MainPID"),
        "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia15", "/dev/other",
    )  # fmt: skip
    assert said.split("\n") == [
        "/dev/nvidiactl ENXIO", "/dev/nvidia0 ENXIO", "/dev/nvidia15 ENXIO",
        "/dev/other EPERM",
    ]  # fmt: skip
    box.run("rm", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia15", "/dev/other")


def check_metrics_come_back(box: BootedContainer) -> None:
    """After the daemon, the probe, its keeper, or two of them were killed; training goes
    on, and there is no incident."""
    equipped(box)
    submit(box, "unhurt")
    before = running(box, "unhurt")
    all_victims = [
        ["restart"], ["keeper"], ["probe"], ["daemon", "probe"],
        ["daemon"], ["keeper", "probe"], ["daemon", "keeper"],
    ]  # fmt: skip
    for victims in all_victims if WHOLE else all_victims[:4]:
        seconds = _until_back(box, victims)
        load = os.getloadavg()[0]
        told = f"metrics back after {' and '.join(victims)}: {seconds:.2f} s"
        print(f"{told} (load {load:.1f})")  # noqa: T201  # what this is about
        assert seconds < AT_LEAST_WITHIN
    said = box.says("journalctl", "-q", "-o", "cat", "-p", "4", "-u", "trainwarden")
    assert "Traceback" not in said
    after = running(box, "unhurt")
    assert (after["pid"], after["attempt"]) == (before["pid"], 1)
    assert box.trainwarden("incidents", "unhurt").stdout == "no incidents\n"
    finish(box, "unhurt")
    done = steps(box, "unhurt")
    assert done == list(range(len(done)))


def _until_back(box: BootedContainer, victims: list[str]) -> float:
    """Seconds until a scrape tells of what has changed at that moment."""
    box.until(has_gpus)
    daemon = main_pid(box)
    pids = {"daemon": daemon, "keeper": int(box.property(PROBE, "MainPID")),
            "probe": probe_pid(box)}  # fmt: skip
    began = time.monotonic()
    if victims == ["restart"]:
        new = something_new(box)
        box.run("systemctl", "restart", "trainwarden")  # returns when it is ready
    else:
        box.kill(*(pids[name] for name in victims))
        new = something_new(box)
    box.until(lambda: new in scraped() and has_gpus())
    seconds = time.monotonic() - began
    if "daemon" in victims or victims == ["restart"]:
        await_another(box, daemon)
    return seconds


def check_an_attempt_gets_the_word_of_its_gpu(box: BootedContainer) -> None:
    """An Xid that means broken hardware names the GPU at the end of an attempt, which is
    then kept out of use, and the job goes on."""
    equipped(box)
    nvml = nvml_of(box)
    submit(box, "shaken", gpus=1)
    pid = running(box, "shaken")["pid"]
    nvml.set({"0.processes": f"{pid}:{GIB}:4294967295"})
    box.until(lambda: f'gpu="{FIRST}",run="shaken"' in scraped())
    nvml.set({"0.processes": None})
    nvml.xid(0, 79)
    box.run("kill", "-SEGV", str(pid))
    attempted(box, "shaken", 2)
    (incident,) = json.loads(box.trainwarden("incidents", "--json", "shaken").stdout)
    assert incident["cause"] == "gpu_hardware"
    assert any("Xid" in reason["text"] for reason in incident["because"])
    finish(box, "shaken")
    kept = box.trainwarden(
        "quarantine", "--json", "--state-dir", "/var/lib/trainwarden"
    ).stdout
    assert [row["gpu"] for row in json.loads(kept)] == [FIRST]


def check_a_wedged_driver(box: BootedContainer) -> None:
    """A probe that SIGKILL does not end: the daemon answers all the time, the collector
    fails, an incident says that a reboot is needed, and training goes on."""
    equipped(box)
    submit(box, "calm")
    before = running(box, "calm")
    outside = next(
        child.pid
        for child in psutil.Process(box.leader).children(recursive=True)
        if "supervisor.host.gpu.probe_main" in child.cmdline()
    )
    with frozen(outside):
        box.until(lambda: "does not end even by SIGKILL" in told(box))
        box.until(lambda: scraped() and not collects())
        box.run("kill", "-KILL", str(main_pid(box)))
        box.until(lambda: job(box, "calm").get("state") == "running")
        assert job(box, "calm")["pid"] == before["pid"]
    box.until(has_gpus)
    finish(box, "calm")


def told(box: BootedContainer) -> str:
    """What the incidents of the calm job say."""
    found = json.loads(box.trainwarden("incidents", "--json", "calm").stdout)
    return " ".join(
        reason["text"]
        for incident in found
        if incident["happened"] == "driver_stuck"
        for reason in incident["because"]
    )


def check_it_stops_with_the_daemon(box: BootedContainer) -> None:
    """A restart of the daemon leaves the probe alone; a stop ends it, a start brings it."""
    equipped(box)
    before = box.property(PROBE, "MainPID")
    box.run("systemctl", "restart", "trainwarden")
    assert box.property(PROBE, "MainPID") == before
    box.run("systemctl", "stop", "trainwarden")
    box.until(lambda: box.property(PROBE, "ActiveState") == "inactive")
    assert box.run("test", "-e", "/run/trainwarden-gpu", check=False).returncode == 1
    box.run("systemctl", "start", "trainwarden")
    box.until(has_gpus)
