"""The Debian package's files, before they are packed: the units of deploy/, with its paths.

The package itself is built and installed in ``test_debian_package_slow``.
"""

import re
import subprocess
from pathlib import Path

import pytest

import supervisor

PROGRAM = "/usr/lib/trainwarden/"
SCRIPTS = ("preinst", "postinst", "prerm", "postrm", "build.sh")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All but the program itself."""
    to = tmp_path_factory.mktemp("staged")
    build = Path(__file__).parents[2] / "deploy" / "debian" / "build.sh"
    subprocess.run([build, "--files", to], check=True, timeout=60)
    return to


def test_what_is_installed_where(staged: Path) -> None:
    """Debian's places for units, users, directories and rules; two files to edit."""
    docs = staged / "usr/share/doc"
    found = {
        str(path.relative_to(staged))
        for path in staged.rglob("*")
        if path.is_file() and not path.is_relative_to(docs)
    }
    assert found == {
        "etc/default/trainwarden",
        "etc/trainwarden/trainwarden.toml",
        "usr/lib/systemd/system/trainwarden-gpu.service",
        "usr/lib/systemd/system/trainwarden-run@.service",
        "usr/lib/systemd/system/trainwarden.service",
        "usr/lib/systemd/system/trainwarden.slice",
        "usr/lib/systemd/user/trainwarden-ui.service",
        "usr/lib/sysusers.d/trainwarden.conf",
        "usr/lib/tmpfiles.d/trainwarden.conf",
        "usr/lib/trainwarden/share/trainwarden-attempt.service.in",
        "usr/share/lintian/overrides/trainwarden",
        "usr/share/polkit-1/rules.d/50-trainwarden.rules",
    }


def test_units_are_those_of_deploy_but_for_paths(staged: Path, root: Path) -> None:
    """The program is where the package puts it, and the page that units name is there."""
    ours = root / "deploy" / "systemd"
    units = [*(staged / "usr/lib/systemd").glob("*/*")]
    units.append(staged / f"{PROGRAM}share/trainwarden-attempt.service.in".lstrip("/"))
    started = 0
    for unit in units:
        text = unit.read_text()
        assert "/opt/" not in text
        for line in re.findall(r"^ExecStart=(.*)", text, flags=re.MULTILINE):
            assert line.startswith(f"{PROGRAM}bin/"), unit
            started += 1
        for page in re.findall(r"^Documentation=file:/(.*)", text, flags=re.MULTILINE):
            assert (staged / page).is_file(), page
        as_installed = (ours / unit.name).read_text()
        pages = "/opt/trainwarden/share/doc/trainwarden"
        moved = as_installed.replace(pages, "/usr/share/doc/trainwarden")
        assert text == moved.replace("/opt/trainwarden/", PROGRAM)
    assert started == 5


def test_what_would_hide_the_units_of_the_package(staged: Path, root: Path) -> None:
    """Whoever installed from a clone before is told to remove each unit of that."""
    said = (root / "deploy" / "debian" / "preinst").read_text()
    block = said.partition("<<SAY")[2].partition("\nSAY")[0].replace("\\\\\n", " ")
    removed: set[str] = set()
    for place, files in re.findall(r"(?:cd (\S+) && )?rm (?:-f )?([^\n]*)", block):
        removed |= {str(Path("/", place, name)) for name in files.split()}
    units = (staged / "usr/lib/systemd").glob("*/*")
    hidden = {f"/etc/systemd/{unit.parent.name}/{unit.name}" for unit in units}
    assert hidden <= removed


def test_the_changelog_names_this_version(root: Path) -> None:
    """A package is as new as what is in it."""
    newest = (root / "deploy/debian/changelog").read_text().partition("\n")[0]
    assert newest.startswith(f"trainwarden ({supervisor.__version__}) ")


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_parse(root: Path, name: str) -> None:
    """By the shell that Debian runs them with."""
    script = root / "deploy" / "debian" / name
    subprocess.run(["/bin/sh", "-n", script], check=True, timeout=60)
