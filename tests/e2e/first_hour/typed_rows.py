"""What is typed wrong: commands, options, scripts, modules, interpreters, values, names."""

from collections.abc import Iterator

from tests.e2e.first_hour.first_hour_row import (
    HELP,
    JOBS,
    OPTION,
    FirstHourRow,
    ran,
    running,
)
from tests.support.stranger import (
    directory,
    file,
    link,
    nobody,
    of_root,
    pipe,
    spec,
)


def command_rows() -> Iterator[FirstHourRow]:
    """Which command?"""
    yield FirstHourRow(name="nothing at all", line="", says="Commands:", do="run +Run a script",
              names=("trainwarden",), listed=True)  # fmt: skip
    yield FirstHourRow(name="run forgotten", line="train.py --epochs 3",
              says="no command 'train.py'", do="trainwarden run train.py")  # fmt: skip
    yield FirstHourRow(name="a slip in the command", line="rnu train.py",
              says="no command 'rnu'", do="did you mean 'run'")  # fmt: skip
    yield FirstHourRow(name="a command of another tool", line="train train.py",
              says="no command 'train'", do="trainwarden --help")  # fmt: skip
    yield FirstHourRow(name="help as a command", line="help", says="no command 'help'",
              do="trainwarden --help")  # fmt: skip
    yield FirstHourRow(name="help of a command", line="help run", says="no command 'help'",
              do="trainwarden run --help|trainwarden --help")  # fmt: skip
    yield FirstHourRow(name="completion as a command", line="completion bash",
              says="no command 'completion'",
              do=r'eval "\$\(_TRAINWARDEN_COMPLETE=bash_source trainwarden\)"')  # fmt: skip
    yield FirstHourRow(name="python first", line="run python train.py",
              says="python is an interpreter", do="leave it out")  # fmt: skip
    yield FirstHourRow(name="the version", line="--version", code=0, says=r"\d+\.\d+")
    yield FirstHourRow(name="a slip in the version", line="--verison", says=OPTION,
              do="--version")  # fmt: skip
    yield FirstHourRow(
        name="a group alone", line="ledger", says="Commands:", do="backup", listed=True
    )
    yield FirstHourRow(name="a wrong command of a group", line="ledger restore x",
              says="no command 'restore'", do="ledger --help")  # fmt: skip


def option_rows() -> Iterator[FirstHourRow]:
    """Flags, and where they stand."""
    yield FirstHourRow(name="the script's flag first", line="run --epochs 3 train.py",
              says=f"{OPTION} '?--epochs", do="after the script")  # fmt: skip
    yield FirstHourRow(name="a slip in a flag", line="run --nmae x train.py",
              says=f"{OPTION} '?--nmae", do="--name")  # fmt: skip
    yield FirstHourRow(name="our flag after the script", line="run --dry-run train.py --quiet",
              code=0, slow=True, says="command: .*--quiet")  # fmt: skip
    yield FirstHourRow(name="a flag of submit", line="run --gpu-count 1 train.py",
              says=f"{OPTION} '?--gpu-count", do="--gpus|--help")  # fmt: skip
    yield FirstHourRow(name="a flag without its value", line="run --name",
              says="--name' requires an argument", do="argument", names=("--name",))  # fmt: skip
    yield FirstHourRow(name="a job as a flag", line="status --job train",
              says=f"{OPTION} '?--job", do=HELP)  # fmt: skip
    yield FirstHourRow(name="two jobs", line="status train bad", says="does not take 'bad'",
              do=HELP, given=(ran,))  # fmt: skip
    yield FirstHourRow(name="no job", line="logs", says="JOB is missing", do=HELP,
              names=("JOB",))  # fmt: skip
    yield FirstHourRow(name="no script", line="run", says="which script",
              do=r"trainwarden run \[OPTIONS\] SCRIPT", names=("SCRIPT",))  # fmt: skip
    yield FirstHourRow(name="two that exclude each other", line="run --fresh --requeued train.py",
              says="--fresh would throw away", do="choose one")  # fmt: skip


def script_rows() -> Iterator[FirstHourRow]:
    """What is no script."""
    yield FirstHourRow(name="a script that is not there", line="run trian.py",
              says="there is no script trian.py in <HERE>",
              do="did you mean train.py")  # fmt: skip
    yield FirstHourRow(name="a script elsewhere", line="run nowhere/x.py",
              says="no script nowhere/x.py", do="<HERE>|absolute path|you are in")  # fmt: skip
    yield FirstHourRow(name="a path that no shell expanded", line="run '~/train.py'",
              says="no script ~/train.py", do="quote|<HERE>")  # fmt: skip
    yield FirstHourRow(name="a pattern that matched nothing", line="run '*.ipy'",
              says=r"no script \*\.ipy", do="<HERE>|you are in")  # fmt: skip
    yield FirstHourRow(name="an empty name", line="run ''", says="script", do="which script|SCRIPT",
              names=("SCRIPT", "script"))  # fmt: skip
    yield FirstHourRow(name="a notebook", line="run notes.ipynb", says="notes.ipynb is a notebook",
              do="jupyter nbconvert --to script notes.ipynb",
              given=(file("notes.ipynb", "{}"),))  # fmt: skip
    yield FirstHourRow(name="a notebook that is not there", line="run nots.ipynb",
              says="no script nots.ipynb", do="did you mean notes.ipynb|<HERE>",
              given=(file("notes.ipynb", "{}"),))  # fmt: skip
    yield FirstHourRow(name="a directory", line="run project", says="project is a directory",
              do="name the script in it", given=(directory("project"),))  # fmt: skip
    yield FirstHourRow(name="a directory to be run", line="run project/",
              says="project/ is a directory", do="such as project/__main__.py",
              given=(file("project/__main__.py", ""),))  # fmt: skip
    yield FirstHourRow(name="this directory", line="run .", says=r"\. is a directory",
              do="name the script in it", names=(". is",))  # fmt: skip
    yield FirstHourRow(name="a program", line="run binary", says="binary is no Python script",
              do="name a Python script|text",
              given=(file("binary", b"\x7fELF\0\1", mode=0o755),))  # fmt: skip
    yield FirstHourRow(name="a compiled module", line="run train.pyc",
              says="train.pyc is no Python script", do="the source, train.py",
              given=(file("train.pyc", b"\xa7\r\r\n\0\0\0\0"),))  # fmt: skip
    yield FirstHourRow(name="a shell script", line="run start.sh --epochs 3",
              says="start.sh is a shell script", do="the Python script that it starts",
              given=(file("start.sh", "#!/bin/sh\npython train.py\n"),))  # fmt: skip
    yield FirstHourRow(name="a shell script by its first line", line="run start",
              says="start is a shell script", do="the Python script that it starts",
              given=(file("start", "#!/usr/bin/env bash\npython train.py\n"),))  # fmt: skip
    yield FirstHourRow(name="a spec as the script", line="run job.toml",
              says="job.toml is no Python script",
              do="--spec job.toml", given=(spec('script = "train.py"\n'),))  # fmt: skip
    yield FirstHourRow(name="a link that leads nowhere", line="run link.py",
              says="link.py leads to .*gone.py", do="not there",
              given=(link("link.py", "gone.py"),))  # fmt: skip
    yield FirstHourRow(name="links in a circle", line="run a.py", says="a.py",
              do="link", given=(link("a.py", "b.py"), link("b.py", "a.py")))  # fmt: skip
    yield FirstHourRow(name="a pipe", line="run feed.py", says="feed.py: it is no regular file",
              do="name a file", given=(pipe("feed.py"),))  # fmt: skip
    yield FirstHourRow(name="standard input", line="run -", says="no script -|standard input",
              do="file", names=("-",))  # fmt: skip
    yield FirstHourRow(name="a stream", line="trainwarden run <(echo 'print(1)')", by_shell=True,
              says="no script /dev/fd/.*: a stream", do="write it to a file",
              names=("/dev/fd/",))  # fmt: skip
    yield FirstHourRow(name="a device", line="run /dev/null", says="/dev/null: it is no regular file",
              do="name a file")  # fmt: skip
    yield FirstHourRow(name="unreadable", line="run secret.py", says="cannot read the script "
              "secret.py: Permission denied", do="chmod|may read it",
              given=(file("secret.py", ""), nobody, of_root("secret.py", 0o600)))  # fmt: skip
    yield FirstHourRow(name="a directory in the way", line="run train.py/x.py",
              says="no script train.py/x.py|train.py/x.py", do="<HERE>|not a directory")  # fmt: skip
    yield FirstHourRow(name="a name longer than any", line=f"run {'x' * 300}.py",
              says="[Nn]ame too long", do="name a file", names=("xxx.py",))  # fmt: skip


def module_rows() -> Iterator[FirstHourRow]:
    """``-m``."""
    package = file("package/train.py", "from . import rate\nprint('rate', rate)\n")
    init = file("package/__init__.py", "rate = 3\n")
    yield FirstHourRow(name="-m alone", line="run -m", says="which module",
              do="trainwarden run -m package.train", names=("-m",))  # fmt: skip
    yield FirstHourRow(name="-m and a file", line="run -m train.py",
              says="train.py is a file|'train.py' is not the name of a module",
              do="leave -m out|-m train")  # fmt: skip
    yield FirstHourRow(name="-m and a path", line="run -m package/train.py",
              says="'package/train.py' is (not|no)", do="-m package.train",
              given=(package, init))  # fmt: skip
    yield FirstHourRow(name="-m and what is not there", line="run -m package.nothing",
              says="no module package.nothing", do="working directory",
              given=(package, init))  # fmt: skip
    yield FirstHourRow(name="-m and a package without a main", line="run -m package",
              says="no module package|package is a package", do="__main__.py",
              given=(package, init))  # fmt: skip
    yield FirstHourRow(name="-m and an installed one", line="run -m json.tool",
              says="no module json.tool", do="working directory")  # fmt: skip
    yield FirstHourRow(name="-m and dots", line="run -m .train", says="'.train' is not the name",
              do="pkg.train|package.train")  # fmt: skip
    yield FirstHourRow(name="-m as it should be", line="run -m package.train", code=0,
              says="rate 3", given=(package, init), starts=True)  # fmt: skip
    yield FirstHourRow(name="a relative import", line="run package/train.py", code=1,
              says="gave up", do="trainwarden run -m package.train|-m",
              given=(package, init), starts=True)  # fmt: skip


def interpreter_rows() -> Iterator[FirstHourRow]:
    """``--python`` and ``--env``."""
    no = "cannot run the interpreter"
    yield FirstHourRow(name="an interpreter that is not there", line="run --python /no/py train.py",
              says=f"{no} /no/py", do="no such program|--python")  # fmt: skip
    yield FirstHourRow(name="an environment as the interpreter", line="run --python ./env train.py",
              says="interpreter ./env is a directory", do="env/bin/python",
              given=(file("env/bin/python", "#!/bin/sh\n", mode=0o755),))  # fmt: skip
    yield FirstHourRow(name="an interpreter by a wrong name", line="run --python python9 train.py",
              says=f"{no} python9", do="no such program|--python")  # fmt: skip
    yield FirstHourRow(name="an interpreter that may not be run", line="run --python ./py train.py",
              says=f"{no} ./py", do="may not be executed|chmod",
              given=(file("py", "#!/bin/sh\n", mode=0o644),))  # fmt: skip
    yield FirstHourRow(name="no Python", line="run --python /bin/cat train.py", code=2,
              says="/bin/cat is no Python", do="such as ~/venv/bin/python")  # fmt: skip
    yield FirstHourRow(name="a program that fails as the interpreter", code=2,
              line="run --python /bin/false train.py", says="/bin/false is no Python",
              do="such as ~/venv/bin/python")  # fmt: skip
    yield FirstHourRow(name="a variable without a value", line="run --env SEED train.py",
              says="--env takes NAME=VALUE.*got 'SEED'", do="--env SEED=7")  # fmt: skip
    yield FirstHourRow(name="a value without a variable", line="run --env =7 train.py",
              says="--env takes NAME=VALUE.*got '=7'", do="--env SEED=7")  # fmt: skip
    yield FirstHourRow(name="the script as a variable", line="run --env train.py",
              says="--env takes NAME=VALUE|which script", do="--env SEED=7|SCRIPT")  # fmt: skip


def value_rows() -> Iterator[FirstHourRow]:
    """Sizes, durations, addresses, GPUs."""
    size, time = "a size such as 600MiB", "an interval such as 30s, 5min or 200steps"
    for text in ("lots", "0", "600", "-1GiB", "1,5GiB", "600 parsecs"):
        yield FirstHourRow(name=f"memory of {text}", line=f"run --cpu-memory='{text}' train.py",
                  says=f"--cpu-memory: expected {size}", do=f"got '{text}'",
                  names=(text,))  # fmt: skip
    for text in ("5", "0s", "-5s", "5parsecs", "0steps", "often"):
        yield FirstHourRow(name=f"snapshots every {text}",
                  line=f"run --snapshot-every='{text}' train.py",
                  says=f"--snapshot-every: expected {time}", do=f"got '{text}'",
                  names=(text,))  # fmt: skip
    for text in ("9464", "localhost", "0.0.0.0:99999", "http://x:1/metrics"):
        yield FirstHourRow(name=f"metrics at {text}", line=f"run --metrics {text} train.py",
                  says="--metrics: expected HOST:PORT", do="127.0.0.1:9464")  # fmt: skip
    yield FirstHourRow(name="two that are wrong", says="the options cannot be used",
              line="run --cpu-memory lots --snapshot-every 5 train.py",
              do=f"--cpu-memory: expected {size}.*\n.*--snapshot-every: expected")  # fmt: skip
    yield FirstHourRow(name="metrics at a taken port", line="run --metrics 127.0.0.1:<PORT> train.py",
              says="cannot (serve|listen).*127.0.0.1:<PORT>.*in use",
              do="another (port|address)|--metrics", starts=True)  # fmt: skip
    yield FirstHourRow(name="metrics of another machine", line="run --metrics 192.0.2.1:9464 train.py",
              says="cannot (serve|listen).*192.0.2.1:9464",
              do="another (port|address)|--metrics", starts=True)  # fmt: skip
    yield FirstHourRow(name="a GPU that is not there", line="run --gpus 7 train.py",
              says="there is no GPU", do="see `trainwarden gpu`", names=("GPU",))  # fmt: skip
    yield FirstHourRow(name="GPUs by a word", line="run --gpus all train.py",
              says="--gpus: expected", do="index, such as 0, or its UUID", names=("all",))  # fmt: skip
    yield FirstHourRow(name="GPUs by nothing", line="run --gpus '' train.py",
              says="--gpus: expected", do="index, such as 0, or its UUID", names=("--gpus",))  # fmt: skip
    yield FirstHourRow(name="a negative GPU", line="run --gpus=-1 train.py",
              says="--gpus: expected.*got '-1'", do="index, such as 0", names=("-1",))  # fmt: skip
    yield FirstHourRow(name="a port beyond all", line="ui --port 99999", says="99999 is not in",
              do="0<=x<=65535")  # fmt: skip
    yield FirstHourRow(name="a time in words", line="history --since yesterday",
              says="expected a date.*got 'yesterday'", do="7d")  # fmt: skip
    yield FirstHourRow(name="a time beyond all", line="history --since 999999999d",
              says="--since", do="a date|7d", names=("999999999d",))  # fmt: skip
    yield FirstHourRow(name="a state that is none", line="history --state done",
              says="'done' is not one of", do="'finished'")  # fmt: skip
    yield FirstHourRow(name="looks without a pause", line="top --every 0", says="0.*not in the range",
              do="x>=0.1")  # fmt: skip
    yield FirstHourRow(name="kills beyond all", line="certify --kills 0 train.py",
              says="0 is not in the range", do="1<=x<=100")  # fmt: skip


def name_rows() -> Iterator[FirstHourRow]:
    """Names of scripts and jobs."""
    text = "print('trained')\n"
    for name in (
        "my train.py",
        "🚀.py",
        "zwei\nzeilen.py",
        "ночь.py",
        f"{'x' * 80}.py",
    ):
        yield FirstHourRow(name=f"a script named {name[:12]!r}", line=f"run '{name}'",
                  says="cannot be the name of a job", do="--name", names=(name[:-3],
                  repr(name[:-3])), given=(file(name, text),))  # fmt: skip
    yield FirstHourRow(name="such a script with a name", line="run --name rocket '🚀 1.py'",
              code=0, says="trained", given=(file("🚀 1.py", text),), starts=True)  # fmt: skip
    for name in ("", "a/b", "a\nb", "🚀", "..", "x" * 65, "my run"):
        yield FirstHourRow(name=f"a job named {name[:8]!r}", line=f"run --name '{name}' train.py",
                  says="--name: expected a name of letters", do="at most 64",
                  names=(name, repr(name)[1:-1]))  # fmt: skip
    yield FirstHourRow(name="a job like a flag", line="run --name=-x train.py",
              says="--name: expected a name of letters", do="not beginning with",
              names=("-x",))  # fmt: skip
    yield FirstHourRow(name="bytes that are no text", line="run '\udcff.py'", says=r"ff\.py|\?\.py|�",
              do="--name|UTF-8", names=(".py",),
              given=(file("\udcff.py", text),))  # fmt: skip
    yield FirstHourRow(name="a name of somebody else's", line="run --name bad train.py",
              says="'bad' belongs to .*bad.py", do="--name, or .*--fresh", given=(ran,))  # fmt: skip
    yield FirstHourRow(name="it runs already", line="run train.py",
              says=r"'train' is already run by process \d+", do=f"{JOBS}|--name",
              given=(running,))  # fmt: skip
    yield FirstHourRow(name="it runs already, asked for a plan", line="run --dry-run train.py",
              says=r"'train' is already run by process \d+", do=f"{JOBS}|--name",
              given=(running,))  # fmt: skip
