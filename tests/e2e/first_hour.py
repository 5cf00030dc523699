"""What somebody gets wrong in their first hour, and the answer that they should get.

They have read the README and nothing else. Each row was written as they would like to read
it, before it was tried: ``says`` is the sentence, ``do`` what to do next. What holds for
every answer is asked in ``test_first_hour``.
"""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from supervisor.host.ledger.ledger import Ledger
from supervisor.host.service.lock import acquire
from tests.support.small_disk import fill, mounted
from tests.support.stranger import (
    Arrange,
    Place,
    as_user,
    directory,
    env,
    file,
    link,
    nobody,
    of_root,
    pipe,
    spec,
    without,
)

HISTORY = "TRAINWARDEN_TESTS_HISTORY"
"""Where the test keeps a state directory in which ``train`` finished and ``bad`` failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that they try."""

    name: str
    line: str
    """As typed, after ``trainwarden``; with ``by_shell`` the whole line. ``<HERE>``, ``<STATE>``
    and ``<PORT>`` (one that is taken) are filled in."""
    code: int = 2
    says: str
    """A regular expression for the sentence."""
    do: str = ""
    """... and for what to do next. Empty: all is well, and there is nothing to do."""
    given: tuple[Arrange, ...] = ()
    names: tuple[str, ...] = ()
    """What is wrong, by its name: one of these is said. Empty: a word of the line is."""
    starts: bool = False
    """Something may begin, and leave traces: a run, at least."""
    by_shell: bool = False
    """As a shell does it, and with a Python that starts."""
    terminal: bool = False
    """On a terminal."""
    listed: bool = False
    """A list of commands is the answer."""
    slow: bool = False
    """It trains, or takes long: ``make test-slow``."""


def ran(place: Place) -> None:
    """One job has finished, and another one failed (incident 1)."""
    shutil.copytree(os.environ[HISTORY], place.state)


def running(place: Place) -> None:
    """Somebody runs ``train`` just now."""
    lock = place.state / "jobs" / "train" / "lock"
    lock.parent.mkdir(parents=True)
    held = acquire(lock)
    assert held is not None
    place.stack.callback(held.release)


def small(size: str, name: str, *options: str) -> Arrange:
    """A file system of its own, from the working directory."""

    def arrange(place: Place) -> None:
        disk = place.stack.enter_context(mounted(place.here / name, size))
        for option in options:
            if option == "full":
                fill(disk / "fill")
            else:
                remount(disk, option)

    return arrange


def remount(disk: Path, option: str) -> None:
    """Mount it otherwise."""
    mount = shutil.which("mount")
    assert mount is not None
    subprocess.run([mount, "-o", f"remount,{option}", disk], check=True)


def socket_left(place: Place) -> None:
    """A daemon died, and its socket is still there."""
    place.state.mkdir(parents=True)
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(place.state / "control.sock"))
    left.close()


def ledger_from_the_future(place: Place) -> None:
    """A newer version has been here."""
    place.state.mkdir(parents=True)
    path = place.state / "ledger.sqlite"
    Ledger(path).close()
    content = bytearray(path.read_bytes())
    content[60:64] = (999).to_bytes(4, "big")  # user_version: sqlite.org/fileformat
    path.write_bytes(content)


def in_state(name: str, content: str) -> Arrange:
    """A file in the state directory."""

    def arrange(place: Place) -> None:
        place.state.mkdir(parents=True, exist_ok=True)
        (place.state / name).write_text(content)

    return arrange


def deeper(parts: int) -> Arrange:
    """``TRAINWARDEN_STATE_DIR`` has a very long path."""

    def arrange(place: Place) -> None:
        place.environment["TRAINWARDEN_STATE_DIR"] = str(
            place.root.joinpath(*["a-rather-long-name"] * parts)
        )

    return arrange


OPTION = r"No such option"
HELP = r"Try 'trainwarden[ a-z-]* --help' for help"
JOBS = r"see `trainwarden status`"


def rows() -> Iterator[Row]:
    """All of them."""
    yield from command_rows()
    yield from option_rows()
    yield from script_rows()
    yield from module_rows()
    yield from interpreter_rows()
    yield from value_rows()
    yield from name_rows()
    yield from spec_rows()
    yield from project_rows()
    yield from state_rows()
    yield from asking_rows()
    yield from page_rows()
    yield from daemon_rows()
    yield from notify_rows()
    yield from tool_rows()
    yield from failing_rows()
    yield from terminal_rows()


def command_rows() -> Iterator[Row]:
    """Which command?"""
    yield Row(name="nothing at all", line="", says="Commands:", do="run +Run a script",
              names=("trainwarden",), listed=True)  # fmt: skip
    yield Row(name="run forgotten", line="train.py --epochs 3",
              says="no command 'train.py'", do="trainwarden run train.py")  # fmt: skip
    yield Row(name="a slip in the command", line="rnu train.py",
              says="no command 'rnu'", do="did you mean 'run'")  # fmt: skip
    yield Row(name="a command of another tool", line="train train.py",
              says="no command 'train'", do="trainwarden --help")  # fmt: skip
    yield Row(name="help as a command", line="help", says="no command 'help'",
              do="trainwarden --help")  # fmt: skip
    yield Row(name="help of a command", line="help run", says="no command 'help'",
              do="trainwarden run --help|trainwarden --help")  # fmt: skip
    yield Row(name="completion as a command", line="completion bash",
              says="no command 'completion'",
              do=r'eval "\$\(_TRAINWARDEN_COMPLETE=bash_source trainwarden\)"')  # fmt: skip
    yield Row(name="python first", line="run python train.py",
              says="python is an interpreter", do="leave it out")  # fmt: skip
    yield Row(name="the version", line="--version", code=0, says=r"\d+\.\d+")
    yield Row(name="a slip in the version", line="--verison", says=OPTION,
              do="--version")  # fmt: skip
    yield Row(
        name="a group alone", line="ledger", says="Commands:", do="backup", listed=True
    )
    yield Row(name="a wrong command of a group", line="ledger restore x",
              says="no command 'restore'", do="ledger --help")  # fmt: skip


def option_rows() -> Iterator[Row]:
    """Flags, and where they stand."""
    yield Row(name="the script's flag first", line="run --epochs 3 train.py",
              says=f"{OPTION} '?--epochs", do="after the script")  # fmt: skip
    yield Row(name="a slip in a flag", line="run --nmae x train.py",
              says=f"{OPTION} '?--nmae", do="--name")  # fmt: skip
    yield Row(name="our flag after the script", line="run --dry-run train.py --quiet",
              code=0, slow=True, says="command: .*--quiet")  # fmt: skip
    yield Row(name="a flag of submit", line="run --gpu-count 1 train.py",
              says=f"{OPTION} '?--gpu-count", do="--gpus|--help")  # fmt: skip
    yield Row(name="a flag without its value", line="run --name",
              says="--name' requires an argument", do="argument", names=("--name",))  # fmt: skip
    yield Row(name="a job as a flag", line="status --job train",
              says=f"{OPTION} '?--job", do=HELP)  # fmt: skip
    yield Row(name="two jobs", line="status train bad", says="unexpected extra arg",
              do=HELP, given=(ran,))  # fmt: skip
    yield Row(name="no job", line="logs", says="Missing argument 'JOB'", do=HELP,
              names=("JOB",))  # fmt: skip
    yield Row(name="no script", line="run", says="which script",
              do=r"trainwarden run \[OPTIONS\] SCRIPT", names=("SCRIPT",))  # fmt: skip
    yield Row(name="two that exclude each other", line="run --fresh --requeued train.py",
              says="--fresh would throw away", do="choose one")  # fmt: skip


def script_rows() -> Iterator[Row]:
    """What is no script."""
    yield Row(name="a script that is not there", line="run trian.py",
              says="there is no script trian.py in <HERE>",
              do="did you mean train.py")  # fmt: skip
    yield Row(name="a script elsewhere", line="run nowhere/x.py",
              says="no script nowhere/x.py", do="<HERE>|absolute path|you are in")  # fmt: skip
    yield Row(name="a path that no shell expanded", line="run '~/train.py'",
              says="no script ~/train.py", do="quote|<HERE>")  # fmt: skip
    yield Row(name="a pattern that matched nothing", line="run '*.ipy'",
              says=r"no script \*\.ipy", do="<HERE>|you are in")  # fmt: skip
    yield Row(name="an empty name", line="run ''", says="script", do="which script|SCRIPT",
              names=("SCRIPT", "script"))  # fmt: skip
    yield Row(name="a notebook", line="run notes.ipynb", says="notes.ipynb is a notebook",
              do="jupyter nbconvert --to script notes.ipynb",
              given=(file("notes.ipynb", "{}"),))  # fmt: skip
    yield Row(name="a notebook that is not there", line="run nots.ipynb",
              says="no script nots.ipynb", do="did you mean notes.ipynb|<HERE>",
              given=(file("notes.ipynb", "{}"),))  # fmt: skip
    yield Row(name="a directory", line="run project", says="project is a directory",
              do="name the script in it", given=(directory("project"),))  # fmt: skip
    yield Row(name="a directory to be run", line="run project/",
              says="project/ is a directory", do="such as project/__main__.py",
              given=(file("project/__main__.py", ""),))  # fmt: skip
    yield Row(name="this directory", line="run .", says=r"\. is a directory",
              do="name the script in it", names=(". is",))  # fmt: skip
    yield Row(name="a program", line="run binary", says="binary is no Python script",
              do="name a Python script|text",
              given=(file("binary", b"\x7fELF\0\1", mode=0o755),))  # fmt: skip
    yield Row(name="a compiled module", line="run train.pyc",
              says="train.pyc is no Python script", do="the source, train.py",
              given=(file("train.pyc", b"\xa7\r\r\n\0\0\0\0"),))  # fmt: skip
    yield Row(name="a shell script", line="run start.sh --epochs 3",
              says="start.sh is a shell script", do="the Python script that it starts",
              given=(file("start.sh", "#!/bin/sh\npython train.py\n"),))  # fmt: skip
    yield Row(name="a shell script by its first line", line="run start",
              says="start is a shell script", do="the Python script that it starts",
              given=(file("start", "#!/usr/bin/env bash\npython train.py\n"),))  # fmt: skip
    yield Row(name="a spec as the script", line="run job.toml",
              says="job.toml is no Python script",
              do="--spec job.toml", given=(spec('script = "train.py"\n'),))  # fmt: skip
    yield Row(name="a link that leads nowhere", line="run link.py",
              says="link.py leads to .*gone.py", do="not there",
              given=(link("link.py", "gone.py"),))  # fmt: skip
    yield Row(name="links in a circle", line="run a.py", says="a.py",
              do="link", given=(link("a.py", "b.py"), link("b.py", "a.py")))  # fmt: skip
    yield Row(name="a pipe", line="run feed.py", says="feed.py: it is no regular file",
              do="name a file", given=(pipe("feed.py"),))  # fmt: skip
    yield Row(name="standard input", line="run -", says="no script -|standard input",
              do="file", names=("-",))  # fmt: skip
    yield Row(name="a stream", line="trainwarden run <(echo 'print(1)')", by_shell=True,
              says="no script /dev/fd/.*: a stream", do="write it to a file",
              names=("/dev/fd/",))  # fmt: skip
    yield Row(name="a device", line="run /dev/null", says="/dev/null: it is no regular file",
              do="name a file")  # fmt: skip
    yield Row(name="unreadable", line="run secret.py", says="cannot read the script "
              "secret.py: Permission denied", do="chmod|may read it",
              given=(file("secret.py", ""), nobody, of_root("secret.py", 0o600)))  # fmt: skip
    yield Row(name="a directory in the way", line="run train.py/x.py",
              says="no script train.py/x.py|train.py/x.py", do="<HERE>|not a directory")  # fmt: skip
    yield Row(name="a name longer than any", line=f"run {'x' * 300}.py",
              says="[Nn]ame too long", do="name a file", names=("xxx.py",))  # fmt: skip


def module_rows() -> Iterator[Row]:
    """``-m``."""
    package = file("package/train.py", "from . import rate\nprint('rate', rate)\n")
    init = file("package/__init__.py", "rate = 3\n")
    yield Row(name="-m alone", line="run -m", says="which module",
              do="trainwarden run -m package.train", names=("-m",))  # fmt: skip
    yield Row(name="-m and a file", line="run -m train.py",
              says="train.py is a file|'train.py' is not the name of a module",
              do="leave -m out|-m train")  # fmt: skip
    yield Row(name="-m and a path", line="run -m package/train.py",
              says="'package/train.py' is (not|no)", do="-m package.train",
              given=(package, init))  # fmt: skip
    yield Row(name="-m and what is not there", line="run -m package.nothing",
              says="no module package.nothing", do="working directory",
              given=(package, init))  # fmt: skip
    yield Row(name="-m and a package without a main", line="run -m package",
              says="no module package|package is a package", do="__main__.py",
              given=(package, init))  # fmt: skip
    yield Row(name="-m and an installed one", line="run -m json.tool",
              says="no module json.tool", do="working directory")  # fmt: skip
    yield Row(name="-m and dots", line="run -m .train", says="'.train' is not the name",
              do="pkg.train|package.train")  # fmt: skip
    yield Row(name="-m as it should be", line="run -m package.train", code=0,
              says="rate 3", given=(package, init), starts=True)  # fmt: skip
    yield Row(name="a relative import", line="run package/train.py", code=1,
              says="gave up", do="trainwarden run -m package.train|-m",
              given=(package, init), starts=True)  # fmt: skip


def interpreter_rows() -> Iterator[Row]:
    """``--python`` and ``--env``."""
    no = "cannot run the interpreter"
    yield Row(name="an interpreter that is not there", line="run --python /no/py train.py",
              says=f"{no} /no/py", do="no such program|--python")  # fmt: skip
    yield Row(name="an environment as the interpreter", line="run --python ./env train.py",
              says="interpreter ./env is a directory", do="env/bin/python",
              given=(file("env/bin/python", "#!/bin/sh\n", mode=0o755),))  # fmt: skip
    yield Row(name="an interpreter by a wrong name", line="run --python python9 train.py",
              says=f"{no} python9", do="no such program|--python")  # fmt: skip
    yield Row(name="an interpreter that may not be run", line="run --python ./py train.py",
              says=f"{no} ./py", do="may not be executed|chmod",
              given=(file("py", "#!/bin/sh\n", mode=0o644),))  # fmt: skip
    yield Row(name="no Python", line="run --python /bin/cat train.py", code=2,
              says="/bin/cat is no Python", do="such as ~/venv/bin/python")  # fmt: skip
    yield Row(name="a program that fails as the interpreter", code=2,
              line="run --python /bin/false train.py", says="/bin/false is no Python",
              do="such as ~/venv/bin/python")  # fmt: skip
    yield Row(name="a variable without a value", line="run --env SEED train.py",
              says="--env takes NAME=VALUE.*got 'SEED'", do="--env SEED=7")  # fmt: skip
    yield Row(name="a value without a variable", line="run --env =7 train.py",
              says="--env takes NAME=VALUE.*got '=7'", do="--env SEED=7")  # fmt: skip
    yield Row(name="the script as a variable", line="run --env train.py",
              says="--env takes NAME=VALUE|which script", do="--env SEED=7|SCRIPT")  # fmt: skip


def value_rows() -> Iterator[Row]:
    """Sizes, durations, addresses, GPUs."""
    size, time = "a size such as 600MiB", "an interval such as 30s, 5min or 200steps"
    for text in ("lots", "0", "600", "-1GiB", "1,5GiB", "600 parsecs"):
        yield Row(name=f"memory of {text}", line=f"run --cpu-memory='{text}' train.py",
                  says=f"--cpu-memory: expected {size}", do=f"got '{text}'",
                  names=(text,))  # fmt: skip
    for text in ("5", "0s", "-5s", "5parsecs", "0steps", "often"):
        yield Row(name=f"snapshots every {text}",
                  line=f"run --snapshot-every='{text}' train.py",
                  says=f"--snapshot-every: expected {time}", do=f"got '{text}'",
                  names=(text,))  # fmt: skip
    for text in ("9464", "localhost", "0.0.0.0:99999", "http://x:1/metrics"):
        yield Row(name=f"metrics at {text}", line=f"run --metrics {text} train.py",
                  says="--metrics: expected HOST:PORT", do="127.0.0.1:9464")  # fmt: skip
    yield Row(name="two that are wrong", says="the options cannot be used",
              line="run --cpu-memory lots --snapshot-every 5 train.py",
              do=f"--cpu-memory: expected {size}.*\n.*--snapshot-every: expected")  # fmt: skip
    yield Row(name="metrics at a taken port", line="run --metrics 127.0.0.1:<PORT> train.py",
              says="cannot (serve|listen).*127.0.0.1:<PORT>.*in use",
              do="another (port|address)|--metrics", starts=True)  # fmt: skip
    yield Row(name="metrics of another machine", line="run --metrics 192.0.2.1:9464 train.py",
              says="cannot (serve|listen).*192.0.2.1:9464",
              do="another (port|address)|--metrics", starts=True)  # fmt: skip
    yield Row(name="a GPU that is not there", line="run --gpus 7 train.py",
              says="there is no GPU", do="see `trainwarden gpu`", names=("GPU",))  # fmt: skip
    yield Row(name="GPUs by a word", line="run --gpus all train.py",
              says="--gpus: expected", do="index, such as 0, or its UUID", names=("all",))  # fmt: skip
    yield Row(name="GPUs by nothing", line="run --gpus '' train.py",
              says="--gpus: expected", do="index, such as 0, or its UUID", names=("--gpus",))  # fmt: skip
    yield Row(name="a negative GPU", line="run --gpus=-1 train.py",
              says="--gpus: expected.*got '-1'", do="index, such as 0", names=("-1",))  # fmt: skip
    yield Row(name="a port beyond all", line="ui --port 99999", says="99999 is not in",
              do="0<=x<=65535")  # fmt: skip
    yield Row(name="a time in words", line="history --since yesterday",
              says="expected a date.*got 'yesterday'", do="7d")  # fmt: skip
    yield Row(name="a time beyond all", line="history --since 999999999d",
              says="--since", do="a date|7d", names=("999999999d",))  # fmt: skip
    yield Row(name="a state that is none", line="history --state done",
              says="'done' is not one of", do="'finished'")  # fmt: skip
    yield Row(name="looks without a pause", line="top --every 0", says="0.*not in the range",
              do="x>=0.1")  # fmt: skip
    yield Row(name="kills beyond all", line="certify --kills 0 train.py",
              says="0 is not in the range", do="1<=x<=100")  # fmt: skip


def name_rows() -> Iterator[Row]:
    """Names of scripts and jobs."""
    text = "print('trained')\n"
    for name in (
        "my train.py",
        "🚀.py",
        "zwei\nzeilen.py",
        "ночь.py",
        f"{'x' * 80}.py",
    ):
        yield Row(name=f"a script named {name[:12]!r}", line=f"run '{name}'",
                  says="cannot be the name of a job", do="--name", names=(name[:-3],
                  repr(name[:-3])), given=(file(name, text),))  # fmt: skip
    yield Row(name="such a script with a name", line="run --name rocket '🚀 1.py'",
              code=0, says="trained", given=(file("🚀 1.py", text),), starts=True)  # fmt: skip
    for name in ("", "a/b", "a\nb", "🚀", "..", "x" * 65, "my run"):
        yield Row(name=f"a job named {name[:8]!r}", line=f"run --name '{name}' train.py",
                  says="--name: expected a name of letters", do="at most 64",
                  names=(name, repr(name)[1:-1]))  # fmt: skip
    yield Row(name="a job like a flag", line="run --name=-x train.py",
              says="--name: expected a name of letters", do="not beginning with",
              names=("-x",))  # fmt: skip
    yield Row(name="bytes that are no text", line="run '\udcff.py'", says=r"ff\.py|\?\.py|�",
              do="--name|UTF-8", names=(".py",),
              given=(file("\udcff.py", text),))  # fmt: skip
    yield Row(name="a name of somebody else's", line="run --name bad train.py",
              says="'bad' belongs to .*bad.py", do="--name, or .*--fresh", given=(ran,))  # fmt: skip
    yield Row(name="it runs already", line="run train.py",
              says=r"'train' is already run by process \d+", do=f"{JOBS}|--name",
              given=(running,))  # fmt: skip
    yield Row(name="it runs already, asked for a plan", line="run --dry-run train.py",
              says=r"'train' is already run by process \d+", do=f"{JOBS}|--name",
              given=(running,))  # fmt: skip


def spec_rows() -> Iterator[Row]:
    """``--spec``."""
    line = "run --spec job.toml"
    yield Row(name="a spec that is not there", line="run --spec none.toml",
              says="cannot read the spec none.toml: No such file", do="No such file")  # fmt: skip
    yield Row(name="a directory as a spec", line="run --spec .", says="'.' is a directory",
              do=HELP)  # fmt: skip
    yield Row(name="a spec that is no TOML", line=line, says="job.toml is not valid TOML",
              do="line 2", given=(spec('script = "train.py"\nname = \n'),))  # fmt: skip
    yield Row(name="a spec that is JSON", line=line, says="job.toml is not valid TOML",
              do="line 1", given=(spec('{"script": "train.py"}\n'),))  # fmt: skip
    yield Row(name="a spec that is no text", line=line, says="job.toml: it is not UTF-8",
              do="UTF-8", given=(file("job.toml", b"script = '\xff'\n"),))  # fmt: skip
    yield Row(name="a spec with a BOM", line=line, code=0, starts=True,
              says="trained",
              given=(file("job.toml", b"\xef\xbb\xbfscript = 'train.py'\n"),))  # fmt: skip
    yield Row(name="an empty spec", line=line, says="job.toml.*cannot be used",
              do="script: is required", given=(spec(""),))  # fmt: skip
    yield Row(name="a slip in a key", line=line, says="job.toml.*cannot be used",
              do="scirpt: is not a key here; did you mean 'script'",
              given=(spec('scirpt = "train.py"\n'),))  # fmt: skip
    yield Row(name="a key in the wrong table", line=line, says="snapshots.grace",
              do="known: |did you mean|drain",
              given=(spec('script = "train.py"\n[snapshots]\ngrace = "1min"\n'),))  # fmt: skip
    yield Row(name="a list that is none", line=line, says="args: expected a list",
              do="got '--epochs 3'",
              given=(spec('script = "train.py"\nargs = "--epochs 3"\n'),))  # fmt: skip
    yield Row(name="a number as an argument", line=line, says=r"args\[1\]: expected text",
              do="got 3",
              given=(spec('script = "train.py"\nargs = ["--epochs", 3]\n'),))  # fmt: skip
    yield Row(name="a duration without a unit", line=line,
              says="drain.grace: expected a duration such as 30s", do="got 60",
              given=(spec('script = "train.py"\n[drain]\ngrace = 60\n'),))  # fmt: skip
    yield Row(name="a size in words", line=line, says="memory.cpu: expected a size",
              do="got 'half'",
              given=(spec('script = "train.py"\n[memory]\ncpu = "half"\n'),))  # fmt: skip
    yield Row(name="a script in a spec that is not there", line=line,
              says="no script none.py", do="<HERE>", names=("none.py",),
              given=(spec('script = "none.py"\n'),))  # fmt: skip
    yield Row(name="a working directory that is not there", line=line,
              says="no working directory /nowhere|/nowhere", do="working_directory",
              names=("/nowhere",),
              given=(spec('script = "train.py"\nworking_directory = "/nowhere"\n'),))  # fmt: skip
    yield Row(name="an interpreter in a spec that is not there", line=line,
              says="cannot run the interpreter /no/py", do="python|no such program",
              names=("/no/py",),
              given=(spec('script = "train.py"\npython = "/no/py"\n'),))  # fmt: skip
    yield Row(name="a spec of another user", line=line, says="'job.toml' is not readable",
              do="'--spec'",
              given=(spec('script = "train.py"\n'), nobody, of_root("job.toml", 0o600)))  # fmt: skip
    yield Row(name="credentials in a spec", line=line, says="snapshots.remote",
              do="environment|credentials|expected", names=("snapshots.remote",),
              given=(spec('script = "train.py"\n'
                          '[snapshots]\nremote = "s3://KEY:SECRET@bucket"\n'),))  # fmt: skip
    yield Row(name="a remote that is not mounted", line=line, code=1,
              says="/nowhere/runs is not there", do="is it mounted", names=("/nowhere/runs",),
              given=(spec('script = "train.py"\nname = "train"\n[snapshots]\nremote = '
                          '"file:///nowhere/runs"\n'),), starts=True)  # fmt: skip
    yield Row(name="a remote without a name", line=line, says="snapshots.remote needs a name",
              do="--name", names=("snapshots.remote",),
              given=(spec('script = "train.py"\n[snapshots]\nremote = '
                          '"file:///nowhere/runs"\n'),))  # fmt: skip
    yield Row(name="a plan by a spec", line=f"{line} --dry-run", code=0, slow=True,
              says="nothing was started; without --dry-run it is",
              given=(spec('script = "train.py"\n'),))  # fmt: skip
    yield Row(name="a check by a spec that is not there", line="check --spec none.toml",
              says="cannot read the spec none.toml: No such file", do="No such file")  # fmt: skip
    yield Row(name="a policy by a spec that is not there", line="policy --spec none.toml",
              says="cannot read the spec none.toml: No such file", do="No such file")  # fmt: skip


def project_rows() -> Iterator[Row]:
    """``[tool.trainwarden]``."""
    line, name = "run train.py", "pyproject.toml"
    yield Row(name="a project that is no TOML", line=line, says="pyproject.toml is not valid "
              "TOML", do="line 2", names=(name,),
              given=(file(name, "[tool.trainwarden]\nname = \n"),))  # fmt: skip
    yield Row(name="a project of others that is no TOML", line=line, code=0, says="trained",
              given=(file(name, "[tool.black]\nline = \n"),), starts=True)  # fmt: skip
    yield Row(name="a project's table that is none", line=line, says="is no table",
              do=r"write \[tool.trainwarden\]", names=(name,),
              given=(file(name, "[tool]\ntrainwarden = 3\n"),))  # fmt: skip
    yield Row(name="a slip in a project's key", line=line,
              says=r"\[tool.trainwarden\] of <HERE>/pyproject.toml",
              do="nmae: is not a key here; did you mean 'name'", names=("nmae",),
              given=(file(name, '[tool.trainwarden]\nnmae = "x"\n'),))  # fmt: skip
    yield Row(name="a project's bad duration", line=line,
              says=r"\[tool.trainwarden\] of <HERE>/pyproject.toml",
              do="snapshots.every: expected an interval", names=("snapshots.every",),
              given=(file(name, "[tool.trainwarden.snapshots]\nevery = 5\n"),))  # fmt: skip
    yield Row(name="a project of another user", line="run --dry-run train.py", code=0,
              says="job: train\n", given=(file(name, '[tool.trainwarden]\nname = "x"\n'),
              nobody, lambda p: os.chown(p.here / name, 12345, 12345)))  # fmt: skip


def state_rows() -> Iterator[Row]:
    """``TRAINWARDEN_STATE_DIR`` and ``--state-dir``."""
    line, other = "run train.py", "--state-dir"
    yield Row(name="a state directory that is a file", line=line,
              says="state directory <HERE>/train.py|<HERE>/train.py' is a file", do=other,
              names=("train.py",), given=(env(TRAINWARDEN_STATE_DIR="<HERE>/train.py"),))  # fmt: skip
    yield Row(name="a state directory below a file", line=line,
              says="state directory <HERE>/train.py/x: Not a directory", do=other,
              names=("train.py/x",),
              given=(env(TRAINWARDEN_STATE_DIR="<HERE>/train.py/x"),))  # fmt: skip
    yield Row(name="a state directory below a file, a plan", line="run --dry-run train.py",
              says="state directory <HERE>/train.py/x: Not a directory", do=other,
              names=("train.py/x",),
              given=(env(TRAINWARDEN_STATE_DIR="<HERE>/train.py/x"),))  # fmt: skip
    yield Row(name="a state directory that is read only", line=line,
              says="state directory <HERE>/disk/x: Read-only file system", do=other,
              names=("disk/x",), given=(small("64k", "disk", "ro"),
              env(TRAINWARDEN_STATE_DIR="<HERE>/disk/x")))  # fmt: skip
    yield Row(name="a state directory on a full disk", line=line,
              says="disk of the state directory <HERE>/disk/x is full",
              do="make room, or .*--state-dir", names=("disk/x",),
              given=(small("64k", "disk", "full"),
              env(TRAINWARDEN_STATE_DIR="<HERE>/disk/x")), starts=True)  # fmt: skip
    yield Row(name="a state directory of another user", line=line,
              says="<HERE>/theirs' is not readable", do=other,
              names=("theirs",), given=(directory("theirs"), nobody,
              of_root("theirs", 0o700), env(TRAINWARDEN_STATE_DIR="<HERE>/theirs")))  # fmt: skip
    yield Row(name="another user's, to look at", line="status --state-dir theirs",
              says="'theirs' is not readable", do=other,
              given=(directory("theirs/jobs"), nobody, of_root("theirs", 0o700)))  # fmt: skip
    yield Row(name="below another user's", line="status --state-dir theirs/x",
              code=1, says="cannot use .*theirs/x.*: Permission denied", do="theirs",
              names=("theirs/x",),
              given=(directory("theirs/x"), nobody, of_root("theirs", 0o700)))  # fmt: skip
    yield Row(name="below another user's, to train", line="run train.py",
              says="state directory <HERE>/theirs/x: Permission denied", do=other,
              names=("theirs/x",), given=(directory("theirs/x"), nobody,
              of_root("theirs", 0o700), env(TRAINWARDEN_STATE_DIR="<HERE>/theirs/x")))  # fmt: skip
    yield Row(name="another user's, for its log", line="logs --state-dir theirs train",
              says="'theirs' is not readable", do=other,
              given=(directory("theirs/jobs"), nobody, of_root("theirs", 0o700)))  # fmt: skip
    yield Row(name="an empty state directory", line=line, code=0, says="trained",
              given=(env(TRAINWARDEN_STATE_DIR=""),), starts=True)  # fmt: skip
    yield Row(name="a state directory with a strange name", line=f"{line} 'x y'", code=0,
              says="trained", given=(env(TRAINWARDEN_STATE_DIR="<HERE>/a b\n🚀"),),
              starts=True)  # fmt: skip
    yield Row(name="a state directory with a long path", slow=True, line=line, code=0,
              says="trained", given=(deeper(12),), starts=True)  # fmt: skip
    yield Row(name="a long path, and what is there", line="status", says="a-rather-long",
              do="nothing ran there yet", names=("a-rather-long-name",),
              given=(deeper(12),))  # fmt: skip
    yield Row(name="a slip in the state directory", line="status --state-dir stat",
              says="no state directory .*stat", do="nothing ran there yet")  # fmt: skip
    yield Row(name="no home, and no name", line=line, says="HOME",
              do="--state-dir|TRAINWARDEN_STATE_DIR", names=("HOME",),
              given=(without("HOME"), as_user(54321)))  # fmt: skip
    yield Row(name="no home, and no name: status", line="status", says="HOME",
              do="--state-dir|TRAINWARDEN_STATE_DIR", names=("HOME",),
              given=(without("HOME"), as_user(54321)))  # fmt: skip
    yield Row(name="a home that cannot be", line=line, says="state directory "
              "/nonexistent/.local/state/trainwarden", do=other, names=("/nonexistent",),
              given=(env(HOME="/nonexistent"), nobody))  # fmt: skip
    yield Row(name="no name, but a home", line="incidents --ack 1", code=0, says="^$",
              given=(ran, as_user(54321)), starts=True)  # fmt: skip
    yield Row(name="the ledger of a newer version", line="status", code=1,
              says="written by a newer version", do="upgrade", names=("ledger.sqlite",),
              given=(ledger_from_the_future,))  # fmt: skip
    yield Row(name="a ledger that is none", line="status", code=1,
              says="ledger.sqlite (cannot be used|is damaged)",
              do="backup|another --state-dir|move it away", names=("ledger.sqlite",),
              given=(in_state("ledger.sqlite", "no database at all\n" * 100),))  # fmt: skip
    yield Row(name="to train with a ledger that is none", line=line, code=1,
              says="ledger.sqlite (cannot be used|is damaged)", starts=True,
              do="backup|another --state-dir|move it away", names=("ledger.sqlite",),
              given=(in_state("ledger.sqlite", "no database at all\n" * 100),))  # fmt: skip


def asking_rows() -> Iterator[Row]:
    """What is there, and what is not."""
    for command in ("status", "logs", "incidents", "snapshots", "memory", "forget"):
        yield Row(name=f"{command} of nobody", line=f"{command} nobody",
                  says="no job 'nobody'", do=JOBS, given=(ran,))  # fmt: skip
        yield Row(name=f"{command} before anything ran", line=f"{command} train",
                  says="no state directory|no job 'train'", names=("<STATE>",),
                  do=f"nothing ran there yet|{JOBS}")  # fmt: skip
    yield Row(name="status before anything ran, of all", line="status", code=2,
              says="no state directory <STATE>", do="nothing ran there yet|trainwarden run",
              names=("<STATE>",))  # fmt: skip
    yield Row(name="a slip in a job", line="status trian", says="no job 'trian'", do=JOBS,
              given=(ran,))  # fmt: skip
    yield Row(name="a job like a path", line="status ../train",
              says=r"no job '\.\./train'", do=JOBS, given=(ran,))  # fmt: skip
    yield Row(name="a job with a newline", line="logs 'a\nb'", says=r"no job 'a\\nb'",
              do=JOBS, names=("a\\nb",), given=(ran,))  # fmt: skip
    yield Row(name="an attempt that never was", line="logs --attempt 7 train",
              says="train has had (one|1) attempt", do="not 7", given=(ran,))  # fmt: skip
    yield Row(name="an attempt in words", line="logs --attempt two train",
              says="'two' is not a valid integer", do=HELP, given=(ran,))  # fmt: skip
    yield Row(name="explain in words", line="explain bad", says="number of an incident",
              do="`trainwarden incidents`", given=(ran,))  # fmt: skip
    yield Row(name="explain what never was", line="explain 99", says="no incident 99",
              do="see `trainwarden incidents`", given=(ran,))  # fmt: skip
    yield Row(name="explain before anything ran", line="explain",
              says="no state directory", do="nothing ran there yet", names=("<STATE>",))  # fmt: skip
    yield Row(name="explain the newest", line="explain", code=0, says="KeyError",
              given=(ran,), starts=True)  # fmt: skip
    yield Row(name="seen what never was", line="incidents --ack 99",
              says="no incident 99", do="see `trainwarden incidents`", given=(ran,))  # fmt: skip
    yield Row(name="all is well", line="incidents train", code=0, says="no incidents",
              given=(ran,))  # fmt: skip
    yield Row(name="memory that nobody looked at", line="memory train", code=0,
              says="train|no figures|never", given=(ran,))  # fmt: skip
    yield Row(name="a word that is none", line="snapshots exprot train 10 x.keras",
              says="snapshots export JOB STEP FILE", do="snapshots verify JOB",
              names=("snapshots",), given=(ran,))  # fmt: skip
    yield Row(name="a step in words", line="snapshots export train ten x.keras",
              says="'ten'", do="number|STEP", given=(ran,))  # fmt: skip
    yield Row(name="an export that leaves things out", line="snapshots export train",
              says="snapshots export JOB STEP FILE", do="STEP FILE", names=("export",),
              given=(ran,))  # fmt: skip
    yield Row(name="a step that was not saved", line="snapshots export train 10 x.keras",
              says="no snapshot of step 10", do="there are: none|trained|none",
              given=(ran,))  # fmt: skip
    yield Row(name="a file of another kind", line="snapshots export train 10 x.h5",
              says="x.h5 should end in", do=r"\.keras or \.weights\.h5", given=(ran,))  # fmt: skip
    yield Row(name="a file that is there", line="snapshots export train 10 x.keras",
              says="x.keras (is there|exists) already", do="another|remove", given=(ran,
              file("x.keras", "of yesterday")))  # fmt: skip
    yield Row(name="a remote that is none", line="status --remote bucket",
              says="--remote: expected", do="s3://|file:///", names=("bucket",))  # fmt: skip
    yield Row(name="a remote that is not there", line="status --remote file:///nowhere",
              code=1, says="/nowhere", do="mounted", names=("/nowhere",))  # fmt: skip


def page_rows() -> Iterator[Row]:
    """``report`` and ``ui``."""
    yield Row(name="a report to nowhere", line="report train", says="Missing option '-o'",
              do=HELP, names=("-o",), given=(ran,))  # fmt: skip
    yield Row(name="a report of nobody", line="report nobody -o x.html",
              says="no job 'nobody'", do=JOBS, given=(ran,))  # fmt: skip
    yield Row(name="a report before anything ran", line="report train -o x.html",
              says="nothing has run in <STATE>|no state directory <STATE>",
              do="yet|trainwarden run", names=("<STATE>",))  # fmt: skip
    yield Row(name="a report into no directory", line="report train -o no/x.html", code=1,
              says="cannot write no/x.html", do="No such file or directory", given=(ran,))  # fmt: skip
    yield Row(name="a report into a directory", line="report train -o .",
              says="'.' is a directory", do=HELP, given=(ran,))  # fmt: skip
    yield Row(name="a report onto a full disk", line="report train -o disk/x.html", code=1,
              says="cannot write disk/x.html", do="No space left", starts=True,
              given=(ran, small("64k", "disk", "full")))  # fmt: skip
    yield Row(name="a report", line="report train -o x.html", code=0, says="wrote x.html",
              given=(ran,), starts=True)  # fmt: skip
    yield Row(name="a page at a taken port", line="ui --port <PORT>", code=1,
              says="cannot listen on 127.0.0.1:<PORT>: Address already in use",
              do="another with --port", names=("<PORT>",), given=(ran,))  # fmt: skip


def daemon_rows() -> Iterator[Row]:
    """What only a daemon does, and where there is none."""
    no, start = "no daemon answers at", "trainwarden daemon"
    sock = ("control.sock",)
    yield Row(name="submit without a daemon", line="submit train.py", code=1, says=no,
              do=start, names=sock)  # fmt: skip
    yield Row(name="submit to what is left of one", line="submit train.py", code=1, says=no,
              do=start, names=sock, given=(socket_left,))  # fmt: skip
    yield Row(name="status and what is left of one", line="status", code=0,
              says="no job has run in <STATE> yet", given=(socket_left,))  # fmt: skip
    yield Row(name="a socket that is a file", line="drain train", code=1, says=no, do=start,
              names=sock, given=(in_state("control.sock", ""),))  # fmt: skip
    yield Row(name="a socket too far down", line="submit train.py", code=1, says=no,
              do=start, names=sock, given=(deeper(12),))  # fmt: skip
    yield Row(name="submit a script that is not there", line="submit trian.py",
              says="no script trian.py", do="did you mean train.py")  # fmt: skip
    for command in ("drain", "stop"):
        yield Row(name=f"{command} what", line=command, says="which job",
                  do="--all for every job", names=(command,))  # fmt: skip
        yield Row(name=f"{command} both", line=f"{command} --all train",
                  says="not both", do="name of a job, or --all")  # fmt: skip
        yield Row(name=f"{command} without a daemon", line=f"{command} train", code=1,
                  says=no, do=f"{start}|Ctrl-C", names=sock)  # fmt: skip
    yield Row(name="start without a daemon", line="start train", code=1, says=no, do=start,
              names=sock)  # fmt: skip
    yield Row(name="pause without a daemon", line="pause", code=1, says=no, do=start,
              names=sock)  # fmt: skip
    yield Row(name="a daemon's configuration that is not there",
              line="daemon --config no.toml", says="no configuration no.toml",
              do="no configuration")  # fmt: skip
    yield Row(name="a daemon's configuration that is no TOML",
              line="daemon --config job.toml", says="job.toml.*", do="not valid TOML",
              given=(spec("state_dir = \n"),))  # fmt: skip
    yield Row(name="a slip in a daemon's configuration", line="daemon --config job.toml",
              says="job.toml cannot be used", do="did you mean 'state_dir'",
              given=(spec('state_dri = "/x"\n'),))  # fmt: skip
    yield Row(name="a daemon where a file is", line="daemon --config job.toml", code=1,
              says="<HERE>/train.py", do="name another as state_dir", names=("train.py",),
              given=(spec('state_dir = "<HERE>/train.py"\n'),))  # fmt: skip
    yield Row(name="a user that is none", line="enable-user 'no body'",
              says="'no body' cannot be used", do="expected")  # fmt: skip
    yield Row(name="a GPU that is in use", line="quarantine --return GPU-1",
              says="GPU-1 is not quarantined", do="trainwarden quarantine")  # fmt: skip


def notify_rows() -> Iterator[Row]:
    """``notify``."""
    told, line = '[notify]\naddresses = "<HERE>/who"\n', "notify --spec job.toml"
    yield Row(name="nobody to tell", line="notify", says="nobody is notified",
              do=r"\[notify\].*docs/running.md", names=("[notify]",))  # fmt: skip
    yield Row(name="told by what is not there", line="notify --spec none.toml",
              says="cannot read the spec none.toml", do="No such file")  # fmt: skip
    yield Row(name="told by two", line="notify --spec a --config b",
              says="--spec or --config", do="not both")  # fmt: skip
    yield Row(name="no addresses", line=line, says="addresses <HERE>/who cannot be read",
              do="No such file", names=("<HERE>/who",), given=(spec(told),))  # fmt: skip
    yield Row(name="addresses for all to read", line=line, says="others may read",
              do="chmod 600 <HERE>/who", names=("<HERE>/who",),
              given=(spec(told), file("who", "ntfy://x\n")))  # fmt: skip
    yield Row(name="an empty file of addresses", line=line, says="<HERE>/who names none",
              do="one a line", names=("<HERE>/who",),
              given=(spec(told), file("who", "", mode=0o600)))  # fmt: skip
    yield Row(name="addresses by a relative path", line=line,
              says="notify.addresses: expected the absolute path", do="or off",
              names=("who",), given=(spec('[notify]\naddresses = "who"\n'),))  # fmt: skip
    yield Row(name="a command that is not there", line=f"{line} --test", code=2,
              says="the command of notify /no/tell", do="is no program to be run",
              names=("/no/tell",),
              given=(spec('[notify]\ncommand = ["/no/tell"]\n'),))  # fmt: skip
    yield Row(name="a run that could tell nobody", line="run --spec job.toml",
              says="addresses <HERE>/who cannot be read", do="No such file",
              names=("<HERE>/who",), given=(spec(f'script = "train.py"\n{told}'),))  # fmt: skip


def tool_rows() -> Iterator[Row]:
    """``diagnose``, ``ledger``, ``check``, ``certify``, completion."""
    yield Row(name="a log that is not there", line="diagnose no.log",
              says="cannot read no.log", do="No such file")  # fmt: skip
    yield Row(name="a directory as a log", line="diagnose .", says=r"cannot read \.",
              do="[Dd]irectory", names=("cannot read .",))  # fmt: skip
    yield Row(name="an end that is none", line="diagnose --exit banana train.py",
              says="got 'banana'", do="1, 137, SIGSEGV")  # fmt: skip
    yield Row(name="a log that shows nothing", line="diagnose train.py", code=0,
              says="this log shows no failure")  # fmt: skip
    yield Row(name="no ledger to copy", line="ledger backup x", says="no state directory",
              do="nothing ran there yet", names=("<STATE>",))  # fmt: skip
    yield Row(name="a copy into no directory", line="ledger backup no/x", code=1,
              says="backup no/x cannot be written|no/x cannot be written",
              do="No such file", given=(ran,))  # fmt: skip
    yield Row(name="a copy onto a full disk", line="ledger backup disk/x", code=1,
              says="backup <HERE>/disk/x cannot be written", do="full", starts=True,
              given=(ran, small("64k", "disk", "full")))  # fmt: skip
    yield Row(name="a look with no Python", line="check --python /no/py",
              says="cannot run the interpreter /no/py", do="name the Python")  # fmt: skip
    yield Row(name="to certify what is not there", line="certify trian.py",
              says="no script trian.py", do="did you mean train.py")  # fmt: skip
    yield Row(name="to certify where nothing can be kept", line="certify train.py",
              says="state directory <HERE>/train.py/x", do="--state-dir",
              names=("train.py/x",),
              given=(env(TRAINWARDEN_STATE_DIR="<HERE>/train.py/x"),))  # fmt: skip
    yield Row(name="to certify what trains nothing", slow=True, line="certify train.py", code=1,
              says="train", do="fit|step", starts=True, names=("step", "fit"))  # fmt: skip
    complete = env(_TRAINWARDEN_COMPLETE="bash_complete", COMP_CWORD="2",
                   COMP_WORDS="trainwarden status t")  # fmt: skip
    yield Row(name="completion", line="", code=0, says="^plain,train$",
              given=(ran, complete), names=("train",))  # fmt: skip
    yield Row(name="completion before anything ran", line="", code=0, says="^$",
              given=(complete,), names=("",))  # fmt: skip
    yield Row(name="completion with a ledger that is none", line="", code=0, says="^$",
              given=(in_state("ledger.sqlite", "no database at all\n" * 100), complete),
              names=("",))  # fmt: skip
    yield Row(name="completion of a shell that is none", line="", says="tcsh", do="bash, zsh and fish", names=("tcsh",),
              given=(env(_TRAINWARDEN_COMPLETE="tcsh_source"),))  # fmt: skip


def failing_rows() -> Iterator[Row]:
    """Scripts that begin, and fail or end in their own way."""
    gave = "gave up: training failed before its first step; a restart cannot help"
    line = "run x.py"

    def script(
        name: str,
        text: str | bytes,
        *,
        code: int = 1,
        says: str = gave,
        do: str = "what to do: .+",
        slow: bool = False,
    ) -> Row:
        return Row(
            name=name,
            line=line,
            code=code,
            says=says,
            do="" if code == 0 else do,
            given=(file("x.py", text),),
            starts=True,
            slow=slow,
        )

    yield script("an empty script", "", code=0, says="finished in one attempt")
    yield script("a script with CRLF", "x = 1\r\nprint('ok',\r\n  x)\r\n", code=0,
                 says="^ok 1$")  # fmt: skip
    yield script(
        "a script with a BOM", b"\xef\xbb\xbfprint('ok')\n", code=0, says="^ok$"
    )
    yield script("a script with a shebang", "#!/usr/bin/env python3\nprint('ok')\n",
                 code=0, says="^ok$")  # fmt: skip
    yield script("a script in Latin-1", b"print('caf\xe9')\n",
                 do="what to do: .*UTF-8|what to do: .*script")  # fmt: skip
    yield script("a script with its encoding", b"# coding: latin-1\nprint('caf\xe9')\n",
                 code=0, says="^café$", slow=True)  # fmt: skip
    yield script("a syntax error", "def train(:\n    pass\n", do="what to do: .*script")
    yield script("Python 2", "print 'hello'\n", do="what to do: .*script", slow=True)
    yield script("a module that is not there", "import nothing_of_this_name\n",
                 do="what to do: .*--python PATH")  # fmt: skip
    yield script(
        "a file that is not there",
        "open('data.csv')\n",
        says="gave up: .*data.csv",
        do="what to do: .*missing",
        slow=True,
    )
    yield script("sys.exit(0)", "import sys; sys.exit(0)\n", code=0, says="finished")
    yield script(
        "sys.exit()", "import sys; sys.exit()\n", code=0, says="finished", slow=True
    )
    yield script("sys.exit(3)", "import sys; sys.exit(3)\n", do="what to do: .+")
    yield script("sys.exit of a sentence", "import sys; sys.exit('no data in /data')\n",
                 do="no data in /data")  # fmt: skip
    yield script("os._exit(7)", "import os; os._exit(7)\n", slow=True,
                 says="gave up: 3 restarts", do="what to do: .*exit status")  # fmt: skip
    yield script("an interrupt of its own", "raise KeyboardInterrupt\n", slow=True,
                 says="gave up: 3 restarts", do="what to do: .+")  # fmt: skip
    yield script("an answer that nobody gives", "input('epochs? ')\n",
                 do="what to do: .+")  # fmt: skip
    yield script("a script that goes", "import os; os.remove('x.py'); print('ok')\n",
                 code=0, says="^ok$")  # fmt: skip


def terminal_rows() -> Iterator[Row]:
    """Streams, locales, terminals, and Ctrl-C."""
    run = "trainwarden run train.py"
    plain = env(LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    yield Row(name="no standard input", line=f"{run} <&-", code=0, says="trained",
              by_shell=True, starts=True)  # fmt: skip
    yield Row(name="no standard output", line=f"{run} >&-", code=0, says="finished",
              by_shell=True, starts=True)  # fmt: skip
    yield Row(name="no standard error", slow=True, line=f"{run} 2>&-", code=0, says="trained",
              by_shell=True, starts=True)  # fmt: skip
    yield Row(name="output that is full", line=f"{run} >/dev/full", code=0, says="finished",
              by_shell=True, starts=True)  # fmt: skip
    yield Row(name="an answer onto a full disk", line="trainwarden policy >/dev/full",
              code=1, says="cannot write the answer to standard output", do="disk is full",
              names=("standard output",), by_shell=True)  # fmt: skip
    yield Row(name="the first line is enough", code=0, says="^1$",
              line="trainwarden policy | true; echo ${PIPESTATUS[0]}", by_shell=True)  # fmt: skip
    yield Row(name="the first line of a run is enough", code=0,
              line="trainwarden run x.py | head -1", says="^0$", by_shell=True, starts=True,
              given=(file("x.py", "for i in range(100000): print(i)\n"),))  # fmt: skip
    yield Row(name="no home", line=run, code=0, says="trained", by_shell=True, starts=True,
              given=(without("HOME"), env(XDG_STATE_HOME="<HERE>/state")))  # fmt: skip
    yield Row(name="plain ASCII", line="trainwarden incidents", code=0, says="bad",
              by_shell=True, given=(ran, plain))  # fmt: skip
    yield Row(name="plain ASCII, a policy", slow=True, line="trainwarden policy", code=0,
              says="device_oom|memory", names=("memory",), by_shell=True, given=(plain,))  # fmt: skip
    yield Row(name="plain ASCII, a name that is not", line="trainwarden run 🚀.py",
              says="SCRIPT: expected text", do="UTF-8", by_shell=True, names=(".py",),
              given=(file("🚀.py", ""), plain))  # fmt: skip
    yield Row(name="an encoding that is none", slow=True, line="trainwarden incidents", code=0,
              says="bad", by_shell=True, given=(ran, env(PYTHONIOENCODING="ascii")))  # fmt: skip
    yield Row(name="Ctrl-C before the start", code=130, says="interrupted",
              line="set -m; trainwarden run --requeued train.py & "
              "until grep -q 'SigCgt:.*[4-7c-f]...$' /proc/$!/status; do sleep 0.02; done; "
              "sleep 0.2; kill -INT $!; wait $!", by_shell=True, given=(running,),
              names=("interrupted",), do="interrupted")  # fmt: skip
    yield Row(name="SIGTERM before the start", code=75, says="ended before anything had begun",
              line="set -m; trainwarden run --requeued train.py & "
              "until grep -q 'SigCgt:.*[4-7c-f]...$' /proc/$!/status; do sleep 0.02; done; "
              "kill -TERM $!; wait $!", by_shell=True, given=(running,),
              names=("SIGTERM",), do="ended before")  # fmt: skip
    yield Row(name="a directory that is gone", starts=True,
              says="the directory that you are in is gone",
              line="mkdir x; cd x; rmdir ../x; trainwarden run train.py", by_shell=True,
              do="change to one that exists", names=("directory",))  # fmt: skip
    yield Row(name="a terminal", line="run train.py", code=0, says="trained",
              terminal=True, starts=True, given=(env(TERM="xterm"),))  # fmt: skip
    yield Row(name="a terminal without a kind", slow=True, line="run train.py", code=0, starts=True,
              says="trained", terminal=True, given=(without("TERM"),))  # fmt: skip
    yield Row(name="a terminal without colours", line="run train.py", code=0, starts=True,
              says="trained", terminal=True, given=(env(NO_COLOR="1", TERM="xterm"),))  # fmt: skip
    yield Row(name="a dumb terminal", line="history", code=0, says="gave_up",
              terminal=True, given=(ran, env(TERM="dumb")))  # fmt: skip
    yield Row(name="a wrong width", line="history", code=0, says="train",
              given=(ran, env(COLUMNS="wide")))  # fmt: skip


ROWS = tuple(rows())


@contextlib.contextmanager
def taken_port() -> Generator[int]:
    """A port of loopback on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])
