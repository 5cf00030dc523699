"""Building the allocator's operations: once, whoever asks, and never in vain twice."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainers.backends.tensorflow.allocator import op_build
from trainers.process.environment import user_cache

COMPILER = """#!{python}
import pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
with open({calls!r}, "a") as calls:
    calls.write("called\\n")
time.sleep(0.3)
if {fails!r}:
    sys.exit("bfc_allocator.h: no such file")
out.write_bytes(b"library")
"""

ASK = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from trainers.backends.tensorflow.allocator import op_build as build
build.TRIAL = Path({trial!r})
print(build.get(build.Recipe(version="1", flags=("-I/x",), libraries="/lib"), {env!r}))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A cache of its own, and a compiler that works."""
    compiler(tmp_path, fails=False)
    return {
        "PATH": os.environ["PATH"],
        "CXX": str(tmp_path / "c++"),
        user_cache.CACHE: str(tmp_path / "cache"),
    }


@pytest.fixture(autouse=True)
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trial that is passed; the real one needs TensorFlow."""
    path = tmp_path / "trial.py"
    path.write_text("")
    monkeypatch.setattr(op_build, "TRIAL", path)
    return path


def compiler(directory: Path, *, fails: bool) -> None:
    """A compiler that notes each call."""
    path = directory / "c++"
    path.unlink(missing_ok=True)
    text = COMPILER.format(
        python=sys.executable, calls=str(directory / "calls"), fails=fails
    )
    path.write_text(text)
    path.chmod(0o755)


def calls(directory: Path) -> int:
    """How often it was called."""
    path = directory / "calls"
    return len(path.read_text().splitlines()) if path.exists() else 0


RECIPE = op_build.Recipe(version="1", flags=("-I/x",), libraries="/lib")


def test_several_jobs_build_it_once(
    tmp_path: Path, environment: dict[str, str], trial: Path
) -> None:
    """Of processes that start together one builds, and all get the same library."""
    text = ASK.format(
        root=str(Path(__file__).parents[6]), trial=str(trial), env=environment
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    answers = {child.communicate(timeout=60)[0] for child in children}
    assert calls(tmp_path) == 1
    (answer,) = answers
    assert answer.strip().endswith(".so")
    assert [p.name for p in (tmp_path / "cache").glob("*.tmp")] == []


def test_another_version_is_another_library(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """TensorFlow or the compiler changed: what was built before is of no use."""
    first = op_build.get(RECIPE, environment)
    other = op_build.Recipe(version="2", flags=("-I/x",), libraries="/lib")
    assert op_build.get(other, environment) != first
    compiler(tmp_path, fails=False)
    os.utime(tmp_path / "c++", ns=(1, 1))
    assert op_build.get(RECIPE, environment) != first
    assert calls(tmp_path) == 3


def test_a_failure_is_told_once(tmp_path: Path, environment: dict[str, str]) -> None:
    """The next attempt does not compile in vain, and is no news; a day later it is."""
    compiler(tmp_path, fails=True)
    first = op_build.get(RECIPE, environment)
    assert isinstance(first, op_build.Failure)
    assert first.news
    assert "bfc_allocator.h: no such file" in first.because
    again = op_build.get(RECIPE, environment)
    assert again == op_build.Failure(first.because, news=False)
    assert calls(tmp_path) == 1
    (kept,) = (tmp_path / "cache").glob("*.failed")
    long_ago = time.time() - 2 * op_build.FAILED_SECONDS
    os.utime(kept, (long_ago, long_ago))
    assert op_build.get(RECIPE, environment) == first
    assert calls(tmp_path) == 2


def test_no_compiler(environment: dict[str, str]) -> None:
    """A machine without one is told so."""
    failure = op_build.get(RECIPE, {**environment, "CXX": "/none/c++"})
    assert failure == op_build.Failure("there is no C++ compiler", news=True)
    bare = {**environment, "PATH": "/none"}
    del bare["CXX"]
    assert op_build.compiler(bare) is None


def test_what_fails_its_trial_is_not_kept(
    tmp_path: Path, environment: dict[str, str], trial: Path
) -> None:
    """A library that takes its process down is never loaded by training."""
    trial.write_text("import os; os.abort()")
    failure = op_build.get(RECIPE, environment)
    assert isinstance(failure, op_build.Failure)
    assert "ended with -6" in failure.because
    assert list((tmp_path / "cache").glob("*.so")) == []


def test_a_cache_that_cannot_be_used(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """A file in its place, or nobody's home: a failure, and no exception."""
    (tmp_path / "file").write_text("")
    blocked = {**environment, user_cache.CACHE: str(tmp_path / "file" / "cache")}
    failure = op_build.get(RECIPE, blocked)
    assert isinstance(failure, op_build.Failure)
    assert "the cache cannot be used" in failure.because


def test_a_cache_that_others_may_write_to(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """What somebody else may have put there is not loaded."""
    library = op_build.get(RECIPE, environment)
    assert isinstance(library, Path)
    assert op_build.get(RECIPE, environment) == library
    (tmp_path / "cache").chmod(0o777)
    failure = op_build.get(RECIPE, environment)
    assert isinstance(failure, op_build.Failure)
    assert "others may write" in failure.because


def test_where_the_cache_is() -> None:
    """By the XDG base directory specification, unless the environment says otherwise."""
    own, xdg = {user_cache.CACHE: "/own"}, {"XDG_CACHE_HOME": "/xdg"}
    assert user_cache.cache_directory(own) == Path("/own")
    assert user_cache.cache_directory(xdg) == Path("/xdg/trainwarden")
    assert user_cache.cache_directory({}) == Path.home() / ".cache" / "trainwarden"
