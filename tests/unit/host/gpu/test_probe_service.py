"""The service that keeps the GPU probe, and the line to it: what goes wrong between them.

Real probe processes, sockets, and NVIDIA's binding over a library of the tests.
"""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from supervisor.host.exporter.host_collector import HostView
from supervisor.host.exporter.machine_monitor import machine_of
from supervisor.host.gpu.gpu_monitor import GpuView
from supervisor.host.gpu.probe_sources import NoSourceError, linked
from supervisor.host.gpu.subscribers import (
    MOST_BEHIND,
    MOST_READERS,
    Subscribers,
)
from tests.support.fake_nvml import FakeNvml
from tests.support.kept import Kept
from tests.support.watched import DEADLINE_SECONDS, Watched

SERVICE = [sys.executable, "-m", "supervisor.host.gpu.probe_service"]
QUICKLY = "0.1"
"""Seconds from one sample to the next."""
SAMPLE: dict[str, object] = {"taken": 1.0, "seconds": 0.1, "driver": "580", "gpus": []}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the service listens."""
    return tmp_path / "probe.sock"


@pytest.fixture
def kept(nvml: FakeNvml, kernel: Path, path: Path, tmp_path: Path) -> Iterator[Kept]:
    """The service, over two healthy GPUs."""
    with closing(Kept(path, nvml.environment, kernel, tmp_path)) as made:
        yield made


@contextmanager
def daemon(path: Path) -> Generator[Watched]:
    """The watch of one daemon, which reads no kernel log itself."""
    watched = Watched({}, path.with_name("none"), link=path)
    with closing(watched.watch):
        yield watched


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Generator[None]:
    """Afterwards it is gone, however the test went."""
    try:
        yield
    finally:
        process.kill()
        process.wait()


def until(ask: Callable[[], object]) -> None:
    """Wait until it is so."""
    ends = time.monotonic() + DEADLINE_SECONDS
    while not ask():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_a_restarted_daemon_hears_what_it_missed(
    kept: Kept, nvml: FakeNvml, kernel: Path, path: Path
) -> None:
    """Xids and kernel lines of the time without one, each once, at its own time."""
    with daemon(path) as watched:
        watched.sampled()
    del kept
    nvml.xid(1, 79)
    killed = "Killed process 4711 (python3) total-vm:1kB"
    with kernel.open("a") as log:
        log.write(f"6,1,5000000,-;{killed}\n6,2,5000001,-;usb 1-1: new device\n")
    with daemon(path) as watched:
        view = watched.until(lambda view: view.xids.xids, "the Xid is told again")
        assert [(x.code, x.gpu) for x in view.xids.xids] == [(79, "GPU-00000001-fake")]
        view = watched.until(lambda view: view.kernel, "the line is told again")
        assert [(line.at, line.text) for line in view.kernel] == [(5.0, killed)]


def test_nothing_is_heard_twice(kept: Kept, nvml: FakeNvml, path: Path) -> None:
    """A daemon that lost the line for a moment counts no Xid again."""
    with daemon(path) as watched:
        watched.sampled()
        nvml.xid(1, 31)
        watched.until(lambda view: view.xids.xids, "the Xid is heard of")
        kept.service.readers.cut()  # what a full buffer would do
        watched.until(lambda _: watched.sampled().sample, "it is there again")
        nvml.xid(1, 31)
        watched.until(
            lambda view: view.xids.count("GPU-00000001-fake") == 2, "the second one"
        )
        assert len(watched.sampled().xids.xids) == 2


def test_a_killed_service_is_missed_until_there_is_another(
    nvml: FakeNvml, path: Path
) -> None:
    """The daemon says why, waits for nobody, and goes on with the next; the probe of
    the killed one ends with it."""
    first = subprocess.Popen([*SERVICE, str(path), QUICKLY], env=nvml.environment)
    with ended(first), daemon(path) as watched:
        watched.sampled()
        (child,) = psutil.Process(first.pid).children()
        first.kill()
        first.wait()
        view = watched.until(lambda view: view.problem, "it is missed")
        assert not view.absent
        assert not view.reboot
        _, alive = psutil.wait_procs([child], timeout=DEADLINE_SECONDS)
        assert alive == []
        second = subprocess.Popen([*SERVICE, str(path), QUICKLY], env=nvml.environment)
        try:
            watched.until(lambda view: not view.problem, "another one answers")
        finally:
            second.terminate()
            assert second.wait() == -signal.SIGTERM


def test_a_service_that_stands_still(nvml: FakeNvml, path: Path) -> None:
    """Stopped, it is missed; nobody waits for it, and when it goes on, so does all."""
    service = subprocess.Popen([*SERVICE, str(path), QUICKLY], env=nvml.environment)
    try:
        with daemon(path) as watched:
            watched.sampled()
            service.send_signal(signal.SIGSTOP)
            watched.until(lambda view: view.problem, "it is missed")
            service.send_signal(signal.SIGCONT)
            watched.until(lambda view: not view.problem, "it answers again")
    finally:
        service.kill()
        service.wait()


def test_a_machine_without_a_driver(path: Path, tmp_path: Path) -> None:
    """The service ends at once, well, and says nothing."""
    if Path("/sys/module/nvidia").exists():
        pytest.skip("this machine has a driver")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [*SERVICE, str(path)],
        env=environment,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not path.exists()


def test_a_driver_without_its_library(
    nvml: FakeNvml, kernel: Path, path: Path, tmp_path: Path
) -> None:
    """Where a driver is loaded and NVML fails, the service stays, and asks again."""
    nvml.set({"error.nvmlInit_v2": 18})
    with closing(Kept(path, nvml.environment, kernel, tmp_path)) as kept:
        with daemon(path) as watched:
            view = watched.until(lambda view: view.problem, "it says why")
            assert "mismatch" in view.problem
        assert not kept.service.over


def test_nobody_listens(path: Path, tmp_path: Path) -> None:
    """With a driver that is a failure, without one there is nothing to ask."""
    with pytest.raises(FileNotFoundError):
        linked(path, driver=tmp_path)
    with pytest.raises(NoSourceError):
        linked(path, driver=tmp_path / "none")


def test_a_box_without_gpus_has_no_collector(path: Path) -> None:
    """No service and no driver: quiet, and nothing is reported as failing."""
    if Path("/sys/module/nvidia").exists():
        pytest.skip("this machine has a driver")
    with daemon(path) as watched:
        view = watched.until(lambda view: view.absent, "it has looked")
        assert watched.said == []
        machine = machine_of(view, HostView(), now=0.0, expected=False)
        assert "nvml" not in machine.collectors


def test_once_seen_it_is_expected(kept: Kept, path: Path) -> None:
    """A service that goes away after it was there makes the collector fail."""
    with daemon(path) as watched:
        watched.sampled()
        kept.close()
        path.unlink(missing_ok=True)

        def failing(view: GpuView) -> bool:
            later = time.monotonic() + 3600.0
            machine = machine_of(view, HostView(), now=later, expected=False)
            return bool(view.problem) and not machine.collectors["nvml"].success

        watched.until(failing, "the collector fails")


def test_hostile_lines(path: Path) -> None:
    """Whatever comes over the line is read as far as it makes sense, and no further."""
    lines = [
        b"\xff\xfe\n", b"[]\n", b"7\n", b'{"taken": "soon"}\n', b"[" * 100_000 + b"\n",
        b'{"kernel": 7}\n', b'{"kernel": [7, {"at": "x"}, {"at": 1e999, "text": ""}]}\n',
        b'{"kernel": [{"at": 3.0, "text": "NVRM: %s"}]}\n' % (b"x" * 10_000),
        b"x" * 3_000_000 + b"\n",
        json.dumps(SAMPLE | {"gpus": [None, {"uuid": 7}], "xids": [1]}).encode() + b"\n",
    ]  # fmt: skip
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with daemon(path) as watched:
            channel, _ = listener.accept()
            with channel:
                channel.sendall(b"".join(lines))
                view = watched.until(lambda view: view.sample, "the last is read")
                assert view.sample is not None
                assert view.sample.gpus == ()
                assert [line.at for line in view.kernel] == [3.0]
                assert len(view.kernel[0].text) == 1024
                assert watched.said == []


def test_who_may_connect(kept: Kept, path: Path) -> None:
    """Its own user and group, beside root."""
    del kept
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_readers_that_do_not_behave(path: Path) -> None:
    """One that reads nothing, one that speaks, and more than there may be are cut off;
    another one hears everything."""

    def welcome() -> bytes:
        return b"hello\n"

    with closing(Subscribers(path)) as readers:
        good, deaf, talker = (_connected(path) for _ in range(3))
        readers.meet(welcome)
        talker.send(b"GET /")
        readers.meet(welcome)
        assert len(readers) == 2
        assert talker.recv(6) == b"hello\n"
        line = b"x" * (256 * 1024 - 1) + b"\n"
        heard = good.recv(6)
        for _ in range(MOST_BEHIND // len(line) + 4):
            readers.tell(line)
            wanted = len(heard) + len(line)
            while len(heard) < wanted:
                heard += good.recv(1024 * 1024)
                readers.tell(b"")
        assert len(readers) == 1
        others = [_connected(path) for _ in range(MOST_READERS - 1)]
        readers.meet(welcome)
        late = _connected(path)
        readers.meet(welcome)
        assert len(readers) == MOST_READERS
        assert late.recv(100) == b"hello\n"
        assert late.recv(100) == b""
        for channel in (good, deaf, talker, late, *others):
            channel.close()
        readers.meet(welcome)
        assert len(readers) == 0


def _connected(path: Path) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(DEADLINE_SECONDS)
    channel.connect(str(path))
    return channel


def test_systemd_is_told(nvml: FakeNvml, path: Path, tmp_path: Path) -> None:
    """That it is up, how it is, and that it is alive."""
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(address))
        listener.settimeout(DEADLINE_SECONDS)
        environment = nvml.environment | {"NOTIFY_SOCKET": str(address)}
        service = subprocess.Popen([*SERVICE, str(path), QUICKLY], env=environment)
        try:
            assert listener.recv(4096) == b"READY=1\n"
            assert path.exists()
            said = set[bytes]()

            def told(what: bytes) -> bool:
                said.add(listener.recv(4096))
                return any(what in one for one in said)

            until(lambda: told(b"WATCHDOG=1"))
            until(lambda: told(b"STATUS=2 GPUs, driver"))
        finally:
            service.kill()
            service.wait()
