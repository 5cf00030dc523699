"""``run`` as a place to watch: the script's own output, and beside it what we say."""

import contextlib
import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.command import PATIENCE, Trainwarden
from tests.support.samples import sampled

BYTES = """
import os
os.write(1, b"\\r 1/2 \\x1b[32m==\\x1b[0m\\b\\b\\xff\\xfe\\0")
os.write(2, b"\\x1b]0;title\\x07 no newline")
"""
LARGE = 3 << 20


def wait_for(path: Path) -> None:
    """Until it is there."""
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.05)


def ran(trainwarden: Trainwarden, *arguments: str | Path) -> tuple[bytes, str]:
    """What a run that finishes writes to both of its streams."""
    done = subprocess.run(
        trainwarden.command("run", *arguments),
        cwd=trainwarden.directory,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.decode()


def test_a_pipe_gets_what_the_script_prints_and_nothing_else(
    trainwarden: Trainwarden,
) -> None:
    """Byte for byte, both of its streams in their order; our lines are marked, and go to
    standard error."""
    script = trainwarden.script(BYTES)
    out, said = ran(trainwarden, script)
    assert out == b"\r 1/2 \x1b[32m==\x1b[0m\b\b\xff\xfe\0\x1b]0;title\x07 no newline"
    assert all(line.startswith(("trainwarden: ", "  ")) for line in said.splitlines())
    quiet, said = ran(trainwarden, "--fresh", "--quiet", script)
    assert (quiet, said) == (out, "")
    out, said = ran(trainwarden, "--fresh", "--no-output", script)
    assert out == b""
    assert "finished in one attempt" in said


def test_all_of_it_comes_through_a_slow_pipe(trainwarden: Trainwarden) -> None:
    """Who reads later than it is printed misses nothing, and holds nothing up."""
    script = trainwarden.script(
        f"import pathlib\nprint('x' * {LARGE})\npathlib.Path('over').touch()\n"
    )
    process = subprocess.Popen(
        trainwarden.command("run", script),
        cwd=trainwarden.directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    wait_for(trainwarden.directory / "over")
    trainwarden.until(lambda status: status["state"] == "finished")
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out == b"x" * LARGE + b"\n"


def test_a_terminal_that_takes_nothing_holds_nothing_up(
    trainwarden: Trainwarden,
) -> None:
    """Stopped with Ctrl-S, say: the script goes on to its end, and so does the run; the
    command waits to show the rest. Closed then, it ends."""
    script = trainwarden.script(
        "import pathlib\n"
        "for n in range(20000): print(n, 'x' * 50)\n"
        "pathlib.Path('over').touch()\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.chdir(trainwarden.directory)
        command = trainwarden.command("run", script)
        os.execv(command[0], command)  # noqa: S606  # no shell is wanted
    wait_for(trainwarden.directory / "over")
    trainwarden.until(lambda status: status["state"] == "finished")
    os.close(terminal)
    os.waitpid(pid, 0)


READS = """
import os, pathlib, sys
print("who?", flush=True)
print("got", input(), sys.stdin.readline())
if not pathlib.Path("again").exists():
    pathlib.Path("again").touch()
    os.kill(os.getpid(), 9)
print("left", repr(sys.stdin.read()))
"""


@pytest.mark.parametrize("kind", sampled(["pipe", "file"], "pipe"))
def test_standard_input_is_the_same_for_each_attempt(
    trainwarden: Trainwarden, kind: str
) -> None:
    """A restart finds what the attempt that was killed had read."""
    script, text = trainwarden.script(READS), b"one\ntwo\nthree\n"
    given = trainwarden.directory / "given"
    given.write_bytes(text)
    reader, writer = os.pipe()
    os.write(writer, text)
    os.close(writer)
    with given.open("rb") as file:
        done = subprocess.run(
            trainwarden.command("run", script),
            cwd=trainwarden.directory,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            stdin=file if kind == "file" else reader,
        )
    os.close(reader)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"who?\ngot one two\n\n" * 2 + b"left 'three\\n'\n"


def test_what_the_script_does_not_read_stays_there(trainwarden: Trainwarden) -> None:
    """``while read …; do trainwarden run …; done`` goes round for each line."""
    script = trainwarden.script("print('trained')")
    reader, writer = os.pipe()
    os.write(writer, b"for who reads next\n")
    done = subprocess.run(
        trainwarden.command("run", script),
        cwd=trainwarden.directory,
        stdin=reader,
        timeout=PATIENCE,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"trained\n"
    os.close(writer)
    assert os.read(reader, 100) == b"for who reads next\n"
    os.close(reader)


def test_what_is_typed_reaches_the_script(trainwarden: Trainwarden) -> None:
    """On a terminal, as soon as the script waits for it."""
    script = trainwarden.script("print('hello', input('name? ').upper())")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.chdir(trainwarden.directory)
        command = trainwarden.command("run", script)
        os.execv(command[0], command)  # noqa: S606  # no shell is wanted
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other side has closed it
        while chunk := os.read(terminal, 4096):
            asked = b"name? " in shown
            shown += chunk
            if b"name? " in shown and not asked:
                os.write(terminal, b"ada\n")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"hello ADA" in shown
    assert b"\x1b[1;23r" in shown, "the status row has a place of its own"
    assert b"\x1b[r" in shown, "and gives it back"
