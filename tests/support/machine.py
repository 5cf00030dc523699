"""A real systemd for tests: this machine's own root, booted in a container.

An overlay over ``/`` takes what is written, so nothing of it stays. Needs root and
Debian's ``systemd-container``, ``dbus`` and ``polkitd``.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

PATIENCE = 240.0
"""Seconds for a command: a whole training takes above 90 on a slow and busy machine."""
NSPAWN = "/usr/bin/systemd-nspawn"
TOOLS = (NSPAWN, "nsenter", "dbus-daemon", "pkaction", "mount")
WRITTEN = "size=1g,mode=0755"
"""The tmpfs that takes what is written."""
OURS = Path(__file__).parents[2]
OPT = Path("/opt/trainwarden")
LIBRARY = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
PACKAGES = OPT / "packages"
"""This environment's, bound there: it may lie where the container has its own /tmp."""


@dataclass
class BootedContainer:
    """A booted container."""

    root: Path
    shared: Path
    """``/shared`` inside."""
    process: subprocess.Popen[bytes]
    leader: int
    """Its PID 1, as we number it."""
    options: tuple[str, ...] = ()
    """What ``boot`` was given."""
    program: str = f"{OPT}/bin/trainwarden"
    """The installed command, inside."""

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/"}

    def command(self, *words: str, user: str | None = None) -> list[str]:
        """A command line that runs inside, as root or as ``user``."""
        enter = ["nsenter", "--target", str(self.leader), "--all", "--"]
        become = [
            "setpriv",
            f"--reuid={user}",
            f"--regid={user}",
            "--init-groups",
            "--",
        ]
        return [*enter, *(become if user else []), *words]

    def run(
        self, *words: str, user: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside to its end."""
        done = subprocess.run(
            self.command(*words, user=user),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
            env=self._environment,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done

    def begin(self, *words: str, user: str | None = None) -> subprocess.Popen[bytes]:
        """Start a command inside that is waited for later."""
        return subprocess.Popen(
            self.command(*words, user=user),
            stdin=subprocess.DEVNULL,
            env=self._environment,
        )

    def kill(self, *pids: int) -> None:
        """SIGKILL to all of them at once; some may have gone with another by then."""
        done = self.run("kill", "-KILL", *map(str, pids), check=False)
        gone = done.stderr.count("No such process")
        assert done.returncode == 0 or 0 < gone < len(pids), done.stderr

    def says(self, *words: str, user: str | None = None) -> str:
        """What a command inside prints."""
        return self.run(*words, user=user).stdout.strip()

    def trainwarden(
        self, *words: str, user: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """The installed command, inside."""
        return self.run(self.program, *words, user=user, check=check)

    def property(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.says("systemctl", "show", f"--property={name}", "--value", unit)

    def until(self, wanted: Callable[[], object]) -> None:
        """Wait until it is so; else show what the journal says."""
        deadline = time.monotonic() + PATIENCE
        while not wanted():
            if time.monotonic() > deadline:
                said = self.run("journalctl", "--no-pager", "-n", "60", check=False)
                pytest.fail(f"it never came\n{said.stdout}")
            time.sleep(0.1)

    def power_off(self) -> None:
        """Shut down in order."""
        self.run("systemctl", "poweroff", check=False)
        self.process.wait(PATIENCE)


def needed() -> None:
    """Skip, or fail in CI, where a real systemd cannot be had."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    because = f"not installed: {', '.join(missing)}" if missing else ""
    if os.geteuid() != 0:
        because = "booting a container needs root"
    if because and os.environ.get("CI"):
        pytest.fail(because)
    if because:
        pytest.skip(because)


@contextlib.contextmanager
def machine_in(directory: Path) -> Generator[BootedContainer]:
    """A machine with systemd; nothing of it is left afterwards."""
    needed()
    shared, root = directory / "shared", directory / "root"
    with contextlib.ExitStack() as held:
        held.enter_context(alone())
        held.enter_context(overlay(directory, root))
        shared.mkdir(mode=0o777)
        shared.chmod(0o777)
        prepare(root)
        packages = Path(sys.prefix) / LIBRARY
        machine = boot(root, shared, f"--bind-ro={packages}:{PACKAGES}")
        held.callback(end, machine)
        yield machine


@contextlib.contextmanager
def alone() -> Generator[None]:
    """One machine at a time: they would share our own cgroup."""
    path = Path(tempfile.gettempdir()) / "trainwarden-test-machine.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def overlay(directory: Path, root: Path, *, lower: Path = Path("/")) -> Generator[None]:
    """This machine's root, or ``lower``, with everything written elsewhere."""
    layer = directory / "layer"
    for path in (layer, root):
        path.mkdir()
    _call("mount", "-t", "tmpfs", "-o", WRITTEN, "tmpfs", str(layer))
    try:
        for name in ("upper", "work"):
            (layer / name).mkdir()
        options = f"lowerdir={lower},upperdir={layer}/upper,workdir={layer}/work"
        _call("mount", "-t", "overlay", "-o", options, "overlay", str(root))
        try:
            yield
        finally:
            _call("umount", "--recursive", str(root))
    finally:
        _call("umount", str(layer))


def prepare(root: Path) -> None:
    """Our program where it is installed, from this environment; names for users."""
    opt = root / OPT.relative_to("/")
    shutil.rmtree(opt, ignore_errors=True)
    ours = opt / LIBRARY
    (opt / "bin").mkdir(parents=True)
    ours.mkdir(parents=True)
    (ours / "trainwarden.pth").write_text(f"{OPT}/src\n{PACKAGES}\n")
    for name in ("supervisor", "trainers", "deploy", "docs", "tests"):
        shutil.copytree(OURS / name, opt / "src" / name)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(OURS / name, opt / "src")
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}"
    (opt / "bin" / "python").symlink_to(base.resolve())
    (opt / "pyvenv.cfg").write_text(f"home = {base.resolve().parent}\n")
    command = opt / "bin" / "trainwarden"
    command.write_text(
        f"#!{OPT}/bin/python\nfrom supervisor.cli.entry import main\nmain()\n"
    )
    command.chmod(0o755)
    for home in {path for path in base.resolve().parents if path != Path("/")}:
        inside = root / home.relative_to("/")
        inside.chmod(inside.stat().st_mode | 0o055)  # users run it too
    reaches = [
        root / f"etc/systemd/system/{unit}.service.d"
        for unit in ("trainwarden", "trainwarden-gpu")
    ]
    for reach in reaches:
        reach.mkdir(parents=True)
    # An interpreter in somebody's home, as here perhaps, is out of the service's sight.
    hidden = base.resolve().is_relative_to("/root") or base.resolve().is_relative_to(
        "/home"
    )
    for reach in reaches if hidden else ():
        (reach / "test.conf").write_text("[Service]\nProtectHome=read-only\n")


def boot(root: Path, shared: Path, *options: str) -> BootedContainer:
    """Boot it, with more ``options`` of systemd-nspawn, and wait until it is up.

    With cgroups of version 2 only, as on training boxes, and with bpf(2): by that
    systemd enforces which devices a unit may open.
    """
    process = subprocess.Popen(
        [NSPAWN, "-q", "-D", str(root), "--register=no", "--keep-unit",
         "--system-call-filter=bpf", "--capability=CAP_BPF",
         f"--bind={shared}:/shared", *options, "--private-users=no", "-b",
         "systemd.unit=multi-user.target"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        for child in children.split():
            machine = BootedContainer(root, shared, process, int(child), options)
            state = machine.run("systemctl", "is-system-running", check=False).stdout
            if state.strip() in {"running", "degraded"}:
                return machine
        time.sleep(0.2)
    process.kill()
    pytest.fail("the container did not boot")


def end(machine: BootedContainer) -> None:
    """Whatever state it is in: it ends."""
    if machine.process.poll() is None:
        os.kill(machine.leader, signal.SIGRTMIN + 14)  # poweroff --force of PID 1
        try:
            machine.process.wait(20)
        except subprocess.TimeoutExpired:
            machine.process.kill()
            machine.process.wait()


def _call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE)
