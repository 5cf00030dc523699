"""The build of the allocator's operations, once for each TensorFlow and compiler.

TensorFlow's wheel brings its headers, not a stable interface: what was compiled against
one version belongs to it alone. So the library is built where it is used, kept in a
cache of the user, and tried in a process of its own before any training loads it.

A failure is kept too, for a day: a machine without a compiler is told about it once,
not at every attempt.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainers.process.environment.user_cache import cache_directory

SOURCE = Path(__file__).with_name("allocator_ops.cc")
TRIAL = Path(__file__).with_name("load_check.py")

COMPILERS = ("c++", "g++", "clang++")
COMPILE_SECONDS = 300.0
TRIAL_SECONDS = 120.0
FAILED_SECONDS = 86400.0
"""How long a failure is believed."""
MAX_SAID = 400
"""Characters of a compiler's complaint that are passed on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to build, and against what."""

    version: str
    """Of TensorFlow, everything that tells one build of it from another."""
    flags: tuple[str, ...]
    """Of its headers, as ``tf.sysconfig.get_compile_flags`` has them."""
    libraries: str
    """The directory of its shared libraries."""


@dataclass(frozen=True, slots=True)
class Failure:
    """There is no library; ``news``: nobody was told before."""

    because: str
    news: bool


class _BuildError(Exception):
    """Why it could not be built, in a sentence."""


def compiler(environment: Mapping[str, str]) -> str | None:
    """The C++ compiler: ``$CXX``, or the first of the usual ones; None: there is none."""
    chosen = environment.get("CXX")
    for name in (chosen,) if chosen else COMPILERS:
        found = shutil.which(name, path=environment.get("PATH"))
        if found is not None:
            return found
    return None


def key(recipe: Recipe, compiler_path: str | None) -> str:
    """The name of the library: another one for whatever would make it differ."""
    parts = [recipe.version, platform.machine(), str(compiler_path)]
    if compiler_path is not None:
        binary = Path(compiler_path).resolve()
        known = binary.stat()
        parts += [str(binary), str(known.st_size), str(known.st_mtime_ns)]
    digest = hashlib.sha256("\0".join(parts).encode() + SOURCE.read_bytes())
    return f"allocator-{digest.hexdigest()[:24]}"


def get(recipe: Recipe, environment: Mapping[str, str]) -> Path | Failure:
    """The library, built if nobody has before. May take a minute; never raises."""
    try:
        directory = cache_directory(environment)
        path = compiler(environment)
        name = key(recipe, path)
        return _cached(directory, name, recipe, path, environment)
    except (OSError, RuntimeError) as error:
        said = getattr(error, "strerror", None) or str(error)
        return Failure(f"the cache cannot be used: {said}", news=True)


def _cached(
    directory: Path,
    name: str,
    recipe: Recipe,
    path: str | None,
    environment: Mapping[str, str],
) -> Path | Failure:
    library, failed = directory / f"{name}.so", directory / f"{name}.failed"
    if _ours(library):
        return library
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (directory / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever comes second finds it built
        if _ours(library):
            return library
        known = _believed(failed)
        if known is not None:
            return Failure(known, news=False)
        try:
            _build(library, recipe, path, environment)
        except _BuildError as error:
            failed.write_text(str(error), encoding="utf-8")
            return Failure(str(error), news=True)
    return library


def _ours(library: Path) -> bool:
    """Whether it is there, and nobody else can have written it: it will be loaded."""
    try:
        found = [library.stat(), library.parent.stat()]
    except OSError:
        return False
    writable = stat.S_IWGRP | stat.S_IWOTH
    trusted = {os.getuid(), 0}
    if all(one.st_uid in trusted and not one.st_mode & writable for one in found):
        return True
    message = f"others may write to {library.parent}"
    raise RuntimeError(message)


def _believed(failed: Path) -> str | None:
    """The failure of not long ago, if there is one."""
    try:
        age = time.time() - failed.stat().st_mtime
        return failed.read_text(encoding="utf-8") if age < FAILED_SECONDS else None
    except (OSError, ValueError):
        return None


def _build(
    library: Path, recipe: Recipe, path: str | None, environment: Mapping[str, str]
) -> None:
    if path is None:
        message = "there is no C++ compiler"
        raise _BuildError(message)
    made = library.with_suffix(".tmp")  # under the lock: nobody else makes it
    try:
        _run(compile_command(recipe, path, made), environment, COMPILE_SECONDS)
        made.chmod(0o500)
        _run(
            [sys.executable, str(TRIAL), str(made)], _alone(environment), TRIAL_SECONDS
        )
        made.rename(library)
    finally:
        made.unlink(missing_ok=True)


def compile_command(recipe: Recipe, path: str, out: Path) -> list[str]:
    """The command that makes ``out``; as in TensorFlow's guide "Create an op"."""
    return [
        *_gently(),
        path, "-std=c++17", "-O2", "-w", "-shared", "-fPIC", str(SOURCE), "-o", str(out),
        *recipe.flags,
        f"-L{recipe.libraries}",
        "-l:libtensorflow_framework.so.2",
        "-l:libtensorflow_cc.so.2",
    ]  # fmt: skip


def _gently() -> list[str]:
    """Training goes on beside it, and lives longer where memory is short."""
    nice, choom = shutil.which("nice"), shutil.which("choom")
    command = [] if nice is None else [nice, "-n", "19"]
    return command if choom is None else [*command, choom, "-n", "1000", "--"]


def _alone(environment: Mapping[str, str]) -> dict[str, str]:
    """For the trial: the same allocator on the CPU, and no GPU."""
    return {
        **environment,
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": "64",
        "CUDA_VISIBLE_DEVICES": "",
    }


def _run(
    command: Sequence[str], environment: Mapping[str, str], seconds: float
) -> None:
    """Run ``command`` to its end. Raises _BuildError unless it ends well."""
    try:
        done = subprocess.run(  # noqa: S603  # the user's own compiler, and ours
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        message = f"{command[0]} took more than {seconds:.0f} s"
        raise _BuildError(message) from None
    except OSError as error:
        message = f"{command[0]} cannot be run: {error.strerror}"
        raise _BuildError(message) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[:MAX_SAID]
        message = f"{Path(command[-1]).name} ended with {done.returncode}: {said}"
        raise _BuildError(message)
