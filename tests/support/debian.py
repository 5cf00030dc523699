"""A fresh Debian with a real systemd, for tests of the package: what it depends on, and
nothing else.

Needs root and Debian's ``debootstrap``, ``dpkg-dev`` and what ``machine`` needs.
"""

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.machine import BootedContainer, alone, boot, end, needed, overlay

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "deploy" / "debian" / "build.sh"
TOOLS = ("debootstrap", "dpkg-deb", "dpkg-shlibdeps", "dpkg-parsechangelog")
PROGRAM = "/usr/bin/trainwarden"
LOGIND = "libpam-systemd"
"""What polkitd means by "logind": debootstrap knows no packages by what they provide."""
BUILT_IN_SECONDS = 1800.0
"""A Debian is fetched from its mirror, a package compressed."""


def needed_for_packages() -> None:
    """Skip, or fail in CI, where a fresh Debian cannot be had."""
    needed()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing and os.environ.get("CI"):
        pytest.fail(f"not installed: {', '.join(missing)}")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def ended_well(*words: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints that has to end well."""
    done = subprocess.run(
        words,
        cwd=cwd,
        check=False,
        capture_output=True,
        text=True,
        timeout=BUILT_IN_SECONDS,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def build_package(out: Path) -> Path:
    """The package of this checkout, in ``out``."""
    return Path(ended_well(BUILD, sys.executable, out))


def field(package: Path, name: str) -> str:
    """A field of a package's control file."""
    return ended_well("dpkg-deb", "--field", package, name)


def as_later_version(
    package: Path, version: str, aside: Path, *, more: str | None = None
) -> Path:
    """The same program under another version, as the next release would come; with a line
    more in one of its files."""
    ended_well("dpkg-deb", "--raw-extract", package, aside)
    control = aside / "DEBIAN" / "control"
    text = control.read_text()
    control.write_text(
        re.sub("^Version: .*", f"Version: {version}", text, flags=re.MULTILINE)
    )
    (ours,) = aside.glob("usr/lib/trainwarden/lib/python3.*/site-packages/supervisor")
    main = ours / "__init__.py"
    source = main.read_text()
    main.write_text(re.sub('__version__ = ".*"', f'__version__ = "{version}"', source))
    shutil.rmtree(ours / "__pycache__")
    if more is not None:
        with (aside / more.lstrip("/")).open("a") as file:
            file.write("# of the next release\n")
    later = package.with_name(f"trainwarden_{version}_all.deb")
    ended_well("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", aside, later)
    shutil.rmtree(aside)
    return later


def bootstrap(root: Path, package: Path) -> None:
    """This machine's release of Debian, with what ``package`` depends on."""
    depends = {LOGIND} | {
        re.split(r"[ (|:]", words.strip())[0]
        for words in field(package, "Depends").split(",")
    }
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    mirrors = ended_well(
        "apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages",
        f"Codename: {release}", "Component: main",
    ).splitlines()  # fmt: skip
    program = str(shutil.which("debootstrap"))
    done = subprocess.run(
        [program, "--variant=minbase", f"--include={','.join(sorted(depends))}",
         release, str(root), *mirrors[:1]],
        check=False, capture_output=True, text=True, timeout=BUILT_IN_SECONDS,
    )  # fmt: skip
    fetched = (root / "var/lib/dpkg/status").exists()
    if done.returncode and not fetched and not os.environ.get("CI"):
        pytest.skip(f"debootstrap: {done.stdout.splitlines()[-1:]}")
    assert done.returncode == 0, done.stdout[-2000:]


@contextlib.contextmanager
def debian_in(directory: Path, package: Path) -> Generator[BootedContainer]:
    """A Debian that has been booted; ``TRAINWARDEN_DEBIAN`` names one made before."""
    given = os.environ.get("TRAINWARDEN_DEBIAN")
    base = Path(given) if given else directory / "debian"
    shared, root = directory / "shared", directory / "root"
    with contextlib.ExitStack() as held:
        held.enter_context(alone())
        if not base.exists():
            bootstrap(base, package)
        held.enter_context(overlay(directory, root, lower=base))
        shared.mkdir(mode=0o777)
        shared.chmod(0o777)
        machine = boot(root, shared)
        machine.program = PROGRAM
        held.callback(end, machine)
        yield machine
