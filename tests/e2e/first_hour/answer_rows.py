"""What is asked for and is not there, and what fails: jobs, pages, daemons, terminals."""

from collections.abc import Iterator

from tests.e2e.first_hour.first_hour_row import (
    HELP,
    JOBS,
    FirstHourRow,
    deep_directory,
    deeper,
    in_state,
    ran,
    running,
    small,
    socket_left,
)
from tests.support.stranger import (
    env,
    file,
    spec,
    without,
)


def asking_rows() -> Iterator[FirstHourRow]:
    """What is there, and what is not."""
    for command in ("status", "logs", "incidents", "snapshots", "memory", "forget"):
        yield FirstHourRow(name=f"{command} of nobody", line=f"{command} nobody",
                  says="no job 'nobody'", do=JOBS, given=(ran,))  # fmt: skip
        yield FirstHourRow(name=f"{command} before anything ran", line=f"{command} train",
                  says="no state directory|no job 'train'", names=("<STATE>",),
                  do=f"nothing ran there yet|{JOBS}")  # fmt: skip
    yield FirstHourRow(name="status before anything ran, of all", line="status", code=2,
              says="no state directory <STATE>", do="nothing ran there yet|trainwarden run",
              names=("<STATE>",))  # fmt: skip
    yield FirstHourRow(name="a slip in a job", line="status trian", says="no job 'trian'", do=JOBS,
              given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a job like a path", line="status ../train",
              says=r"no job '\.\./train'", do=JOBS, given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a job with a newline", line="logs 'a\nb'", says=r"no job 'a\\nb'",
              do=JOBS, names=("a\\nb",), given=(ran,))  # fmt: skip
    yield FirstHourRow(name="an attempt that never was", line="logs --attempt 7 train",
              says="train has had (one|1) attempt", do="not 7", given=(ran,))  # fmt: skip
    yield FirstHourRow(name="an attempt in words", line="logs --attempt two train",
              says="'two' is not a whole number", do=HELP, given=(ran,))  # fmt: skip
    yield FirstHourRow(name="explain in words", line="explain bad", says="number of an incident",
              do="`trainwarden incidents`", given=(ran,))  # fmt: skip
    yield FirstHourRow(name="explain what never was", line="explain 99", says="no incident 99",
              do="see `trainwarden incidents`", given=(ran,))  # fmt: skip
    yield FirstHourRow(name="explain before anything ran", line="explain",
              says="no state directory", do="nothing ran there yet", names=("<STATE>",))  # fmt: skip
    yield FirstHourRow(name="explain the newest", line="explain", code=0, says="KeyError",
              given=(ran,), starts=True)  # fmt: skip
    yield FirstHourRow(name="seen what never was", line="incidents --ack 99",
              says="no incident 99", do="see `trainwarden incidents`", given=(ran,))  # fmt: skip
    yield FirstHourRow(name="all is well", line="incidents train", code=0, says="no incidents",
              given=(ran,))  # fmt: skip
    yield FirstHourRow(name="memory that nobody looked at", line="memory train", code=0,
              says="train|no figures|never", given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a word that is none", line="snapshots exprot train 10 x.keras",
              says="snapshots export JOB STEP FILE", do="snapshots verify JOB",
              names=("snapshots",), given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a step in words", line="snapshots export train ten x.keras",
              says="'ten'", do="number|STEP", given=(ran,))  # fmt: skip
    yield FirstHourRow(name="an export that leaves things out", line="snapshots export train",
              says="snapshots export JOB STEP FILE", do="STEP FILE", names=("export",),
              given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a step that was not saved", line="snapshots export train 10 x.keras",
              says="no snapshot of step 10", do="there are: none|trained|none",
              given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a file of another kind", line="snapshots export train 10 x.h5",
              says="x.h5 should end in", do=r"\.keras or \.weights\.h5", given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a file that is there", line="snapshots export train 10 x.keras",
              says="x.keras (is there|exists) already", do="another|remove", given=(ran,
              file("x.keras", "of yesterday")))  # fmt: skip
    yield FirstHourRow(name="a remote that is none", line="status --remote bucket",
              says="--remote: expected", do="s3://|file:///", names=("bucket",))  # fmt: skip
    yield FirstHourRow(name="a remote that is not there", line="status --remote file:///nowhere",
              code=1, says="/nowhere", do="mounted", names=("/nowhere",))  # fmt: skip


def page_rows() -> Iterator[FirstHourRow]:
    """``report`` and ``ui``."""
    yield FirstHourRow(name="a report to nowhere", line="report train", says="-o / --output is missing",
              do=HELP, names=("-o",), given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a report of nobody", line="report nobody -o x.html",
              says="no job 'nobody'", do=JOBS, given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a report before anything ran", line="report train -o x.html",
              says="nothing has run in <STATE>|no state directory <STATE>",
              do="yet|trainwarden run", names=("<STATE>",))  # fmt: skip
    yield FirstHourRow(name="a report into no directory", line="report train -o no/x.html", code=1,
              says="cannot write no/x.html", do="No such file or directory", given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a report into a directory", line="report train -o .",
              says="'.' is a directory", do=HELP, given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a report onto a full disk", line="report train -o disk/x.html", code=1,
              says="cannot write disk/x.html", do="No space left", starts=True,
              given=(ran, small("64k", "disk", "full")))  # fmt: skip
    yield FirstHourRow(name="a report", line="report train -o x.html", code=0, says="wrote x.html",
              given=(ran,), starts=True)  # fmt: skip
    yield FirstHourRow(name="a page at a taken port", line="ui --port <PORT>", code=1,
              says="cannot listen on 127.0.0.1:<PORT>: Address already in use",
              do="another with --port", names=("<PORT>",), given=(ran,))  # fmt: skip


def daemon_rows() -> Iterator[FirstHourRow]:
    """What only a daemon does, and where there is none."""
    no, start = "no daemon answers at", "trainwarden daemon"
    sock = ("control.sock",)
    yield FirstHourRow(name="submit without a daemon", line="submit train.py", code=1, says=no,
              do=start, names=sock)  # fmt: skip
    yield FirstHourRow(name="submit to what is left of one", line="submit train.py", code=1, says=no,
              do=start, names=sock, given=(socket_left,))  # fmt: skip
    yield FirstHourRow(name="status and what is left of one", line="status", code=0,
              says="no job has run in <STATE> yet", given=(socket_left,))  # fmt: skip
    yield FirstHourRow(name="a socket that is a file", line="drain train", code=1, says=no, do=start,
              names=sock, given=(in_state("control.sock", ""),))  # fmt: skip
    yield FirstHourRow(name="a socket too far down", line="submit train.py", code=1, says=no,
              do=start, names=sock, given=(deeper(12), deep_directory))  # fmt: skip
    yield FirstHourRow(name="submit a script that is not there", line="submit trian.py",
              says="no script trian.py", do="did you mean train.py")  # fmt: skip
    for command in ("drain", "stop"):
        yield FirstHourRow(name=f"{command} what", line=command, says="which job",
                  do="--all for every job", names=(command,))  # fmt: skip
        yield FirstHourRow(name=f"{command} both", line=f"{command} --all train",
                  says="not both", do="name of a job, or --all")  # fmt: skip
        yield FirstHourRow(name=f"{command} without a daemon", line=f"{command} train", code=1,
                  says=no, do=f"{start}|Ctrl-C", names=sock)  # fmt: skip
    yield FirstHourRow(name="start without a daemon", line="start train", code=1, says=no, do=start,
              names=sock)  # fmt: skip
    yield FirstHourRow(name="pause without a daemon", line="pause", code=1, says=no, do=start,
              names=sock)  # fmt: skip
    yield FirstHourRow(name="a daemon's configuration that is not there",
              line="daemon --config no.toml", says="no configuration no.toml",
              do="no configuration")  # fmt: skip
    yield FirstHourRow(name="a daemon's configuration that is no TOML",
              line="daemon --config job.toml", says="job.toml.*", do="not valid TOML",
              given=(spec("state_dir = \n"),))  # fmt: skip
    yield FirstHourRow(name="a slip in a daemon's configuration", line="daemon --config job.toml",
              says="job.toml cannot be used", do="did you mean 'state_dir'",
              given=(spec('state_dri = "/x"\n'),))  # fmt: skip
    yield FirstHourRow(name="a daemon where a file is", line="daemon --config job.toml", code=1,
              says="<HERE>/train.py", do="name another as state_dir", names=("train.py",),
              given=(spec('state_dir = "<HERE>/train.py"\n'),))  # fmt: skip
    yield FirstHourRow(name="a user that is none", line="enable-user 'no body'",
              says="'no body' cannot be used", do="expected")  # fmt: skip
    yield FirstHourRow(name="a GPU that is in use", line="quarantine --return GPU-1",
              says="GPU-1 is not quarantined", do="trainwarden quarantine")  # fmt: skip


def notify_rows() -> Iterator[FirstHourRow]:
    """``notify``."""
    told, line = '[notify]\naddresses = "<HERE>/who"\n', "notify --spec job.toml"
    yield FirstHourRow(name="nobody to tell", line="notify", says="nobody is notified",
              do=r"\[notify\].*docs/running.md", names=("[notify]",))  # fmt: skip
    yield FirstHourRow(name="told by what is not there", line="notify --spec none.toml",
              says="cannot read the spec none.toml", do="No such file")  # fmt: skip
    yield FirstHourRow(name="told by two", line="notify --spec a --config b",
              says="--spec or --config", do="not both")  # fmt: skip
    yield FirstHourRow(name="no addresses", line=line, says="addresses <HERE>/who cannot be read",
              do="No such file", names=("<HERE>/who",), given=(spec(told),))  # fmt: skip
    yield FirstHourRow(name="addresses for all to read", line=line, says="others may read",
              do="chmod 600 <HERE>/who", names=("<HERE>/who",),
              given=(spec(told), file("who", "ntfy://x\n")))  # fmt: skip
    yield FirstHourRow(name="an empty file of addresses", line=line, says="<HERE>/who names none",
              do="one a line", names=("<HERE>/who",),
              given=(spec(told), file("who", "", mode=0o600)))  # fmt: skip
    yield FirstHourRow(name="addresses by a relative path", line=line,
              says="notify.addresses: expected the absolute path", do="or off",
              names=("who",), given=(spec('[notify]\naddresses = "who"\n'),))  # fmt: skip
    yield FirstHourRow(name="a command that is not there", line=f"{line} --test", code=2,
              says="the command of notify /no/tell", do="is no program to be run",
              names=("/no/tell",),
              given=(spec('[notify]\ncommand = ["/no/tell"]\n'),))  # fmt: skip
    yield FirstHourRow(name="a run that could tell nobody", line="run --spec job.toml",
              says="addresses <HERE>/who cannot be read", do="No such file",
              names=("<HERE>/who",), given=(spec(f'script = "train.py"\n{told}'),))  # fmt: skip


def tool_rows() -> Iterator[FirstHourRow]:
    """``diagnose``, ``ledger``, ``check``, ``certify``, completion."""
    yield FirstHourRow(name="a log that is not there", line="diagnose no.log",
              says="cannot read no.log", do="No such file")  # fmt: skip
    yield FirstHourRow(name="a directory as a log", line="diagnose .", says=r"cannot read \.",
              do="[Dd]irectory", names=("cannot read .",))  # fmt: skip
    yield FirstHourRow(name="an end that is none", line="diagnose --exit banana train.py",
              says="got 'banana'", do="1, 137, SIGSEGV")  # fmt: skip
    yield FirstHourRow(name="a log that shows nothing", line="diagnose train.py", code=0,
              says="this log shows no failure")  # fmt: skip
    yield FirstHourRow(name="no ledger to copy", line="ledger backup x", says="no state directory",
              do="nothing ran there yet", names=("<STATE>",))  # fmt: skip
    yield FirstHourRow(name="a copy into no directory", line="ledger backup no/x", code=1,
              says="backup no/x cannot be written|no/x cannot be written",
              do="No such file", given=(ran,))  # fmt: skip
    yield FirstHourRow(name="a copy onto a full disk", line="ledger backup disk/x", code=1,
              says="backup <HERE>/disk/x cannot be written", do="full", starts=True,
              given=(ran, small("64k", "disk", "full")))  # fmt: skip
    yield FirstHourRow(name="a look with no Python", line="check --python /no/py",
              says="cannot run the interpreter /no/py", do="name the Python")  # fmt: skip
    yield FirstHourRow(name="to certify what is not there", line="certify trian.py",
              says="no script trian.py", do="did you mean train.py")  # fmt: skip
    yield FirstHourRow(name="to certify where nothing can be kept", line="certify train.py",
              says="state directory <HERE>/train.py/x", do="--state-dir",
              names=("train.py/x",),
              given=(env(TRAINWARDEN_STATE_DIR="<HERE>/train.py/x"),))  # fmt: skip
    yield FirstHourRow(name="to certify what trains nothing", slow=True, line="certify train.py", code=1,
              says="train", do="fit|step", starts=True, names=("step", "fit"))  # fmt: skip
    complete = env(_TRAINWARDEN_COMPLETE="bash_complete", COMP_CWORD="2",
                   COMP_WORDS="trainwarden status t")  # fmt: skip
    yield FirstHourRow(name="completion", line="", code=0, says="^plain,train$",
              given=(ran, complete), names=("train",))  # fmt: skip
    yield FirstHourRow(name="completion before anything ran", line="", code=0, says="^$",
              given=(complete,), names=("",))  # fmt: skip
    yield FirstHourRow(name="completion with a ledger that is none", line="", code=0, says="^$",
              given=(in_state("ledger.sqlite", "no database at all\n" * 100), complete),
              names=("",))  # fmt: skip
    yield FirstHourRow(name="completion of a shell that is none", line="", says="tcsh", do="bash, zsh and fish", names=("tcsh",),
              given=(env(_TRAINWARDEN_COMPLETE="tcsh_source"),))  # fmt: skip


def failing_rows() -> Iterator[FirstHourRow]:
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
    ) -> FirstHourRow:
        return FirstHourRow(
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
        do="what to do: .*is not there: look for it",
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
    yield script("an interrupt of its own", "raise KeyboardInterrupt\n",
                 says="raised KeyboardInterrupt itself", do="what to do: .+")  # fmt: skip
    yield script("an answer that nobody gives", "input('epochs? ')\n",
                 do="what to do: .+")  # fmt: skip
    yield script("a script that goes", "import os; os.remove('x.py'); print('ok')\n",
                 code=0, says="^ok$")  # fmt: skip


def terminal_rows() -> Iterator[FirstHourRow]:
    """Streams, locales, terminals, and Ctrl-C."""
    run = "trainwarden run train.py"
    plain = env(LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    yield FirstHourRow(name="no standard input", line=f"{run} <&-", code=0, says="trained",
              by_shell=True, starts=True)  # fmt: skip
    yield FirstHourRow(name="no standard output", line=f"{run} >&-", code=0, says="finished",
              by_shell=True, starts=True)  # fmt: skip
    yield FirstHourRow(name="no standard error", slow=True, line=f"{run} 2>&-", code=0, says="trained",
              by_shell=True, starts=True)  # fmt: skip
    yield FirstHourRow(name="output that is full", line=f"{run} >/dev/full", code=0, says="finished",
              by_shell=True, starts=True)  # fmt: skip
    yield FirstHourRow(name="an answer onto a full disk", line="trainwarden policy >/dev/full",
              code=1, says="cannot write the answer to standard output", do="disk is full",
              names=("standard output",), by_shell=True)  # fmt: skip
    yield FirstHourRow(name="the first line is enough", code=0, says="^1$",
              line="trainwarden policy | true; echo ${PIPESTATUS[0]}", by_shell=True)  # fmt: skip
    yield FirstHourRow(name="the first line of a run is enough", code=0,
              line="trainwarden run x.py | head -1", says="^0$", by_shell=True, starts=True,
              given=(file("x.py", "for i in range(100000): print(i)\n"),))  # fmt: skip
    yield FirstHourRow(name="no home", line=run, code=0, says="trained", by_shell=True, starts=True,
              given=(without("HOME"), env(XDG_STATE_HOME="<HERE>/state")))  # fmt: skip
    yield FirstHourRow(name="plain ASCII", line="trainwarden incidents", code=0, says="bad",
              by_shell=True, given=(ran, plain))  # fmt: skip
    yield FirstHourRow(name="plain ASCII, a policy", slow=True, line="trainwarden policy", code=0,
              says="device_oom|memory", names=("memory",), by_shell=True, given=(plain,))  # fmt: skip
    yield FirstHourRow(name="plain ASCII, a name that is not", line="trainwarden run 🚀.py",
              says="SCRIPT: expected text", do="UTF-8", by_shell=True, names=(".py",),
              given=(file("🚀.py", ""), plain))  # fmt: skip
    yield FirstHourRow(name="an encoding that is none", slow=True, line="trainwarden incidents", code=0,
              says="bad", by_shell=True, given=(ran, env(PYTHONIOENCODING="ascii")))  # fmt: skip
    yield FirstHourRow(name="Ctrl-C before the start", code=130, says="interrupted",
              line="set -m; trainwarden run --requeued train.py & "
              "until grep -q 'SigCgt:.*[4-7c-f]...$' /proc/$!/status; do sleep 0.02; done; "
              "sleep 0.2; kill -INT $!; wait $!", by_shell=True, given=(running,),
              names=("interrupted",), do="interrupted")  # fmt: skip
    yield FirstHourRow(name="SIGTERM before the start", code=75, says="ended before anything had begun",
              line="set -m; trainwarden run --requeued train.py & "
              "until grep -q 'SigCgt:.*[4-7c-f]...$' /proc/$!/status; do sleep 0.02; done; "
              "kill -TERM $!; wait $!", by_shell=True, given=(running,),
              names=("SIGTERM",), do="ended before")  # fmt: skip
    yield FirstHourRow(name="a directory that is gone", starts=True,
              says="the directory that you are in is gone",
              line="mkdir x; cd x; rmdir ../x; trainwarden run train.py", by_shell=True,
              do="change to one that exists", names=("directory",))  # fmt: skip
    yield FirstHourRow(name="a terminal", line="run train.py", code=0, says="trained",
              terminal=True, starts=True, given=(env(TERM="xterm"),))  # fmt: skip
    yield FirstHourRow(name="a terminal without a kind", slow=True, line="run train.py", code=0, starts=True,
              says="trained", terminal=True, given=(without("TERM"),))  # fmt: skip
    yield FirstHourRow(name="a terminal without colours", line="run train.py", code=0, starts=True,
              says="trained", terminal=True, given=(env(NO_COLOR="1", TERM="xterm"),))  # fmt: skip
    yield FirstHourRow(name="a dumb terminal", line="history", code=0, says="gave up",
              terminal=True, given=(ran, env(TERM="dumb")))  # fmt: skip
    yield FirstHourRow(name="a wrong width", line="history", code=0, says="train",
              given=(ran, env(COLUMNS="wide")))  # fmt: skip
