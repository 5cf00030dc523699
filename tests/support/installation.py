"""An installation of Trainwarden of its own, which can be replaced as ``pip`` does it.

A virtual environment with what this interpreter has installed, and our two packages in
the version that was put there last: processes that run on it keep what they have loaded.
"""

import io
import os
import shutil
import subprocess
import sysconfig
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("supervisor", "trainers")
NO_HISTORY = "the history of the repository is not here (a shallow clone, or no clone)"
PROGRAM = """#!{python}
from supervisor.cli.entry import main
main()
"""


@dataclass(frozen=True)
class Installation:
    """A virtual environment."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> "Installation":
        """One without our packages yet."""
        venv.create(root, symlinks=True)
        made = cls(root)
        # Our own .pth files are not read from a directory that a .pth file names: what
        # is installed here is found, the checkout is not.
        here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (made.packages / "here.pth").write_text("\n".join(sorted(here)))
        program = Path(made.program)
        program.write_text(PROGRAM.format(python=made.python))
        program.chmod(0o755)
        return made

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.root / "bin" / "python"

    @property
    def program(self) -> str:
        """The command."""
        return str(self.root / "bin" / "trainwarden")

    @property
    def packages(self) -> Path:
        """Where packages are installed."""
        (found,) = self.root.glob("lib/python*/site-packages")
        return found

    def put_commit(self, commit: str) -> None:
        """Our packages as they were in ``commit``; skips without, and fails in CI."""
        made = subprocess.run(
            ["git", "archive", commit, *PACKAGES],  # noqa: S607  # whichever git there is
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        if made.returncode and os.environ.get("CI"):
            pytest.fail(f"{NO_HISTORY}: {made.stderr.decode()}")
        if made.returncode:
            pytest.skip(NO_HISTORY)
        self.remove()
        with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
            archive.extractall(self.packages, filter="data")

    def put_checkout(self) -> None:
        """Our packages as they are here."""
        self.remove()
        for name in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, self.packages / name, ignore=ignored)

    def remove(self) -> None:
        """Take our packages away."""
        for name in PACKAGES:
            shutil.rmtree(self.packages / name, ignore_errors=True)
