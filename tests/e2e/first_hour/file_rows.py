"""What stands wrong in files: specs, the project, the state directory."""

import os
from collections.abc import Iterator

from tests.e2e.first_hour.first_hour_row import (
    HELP,
    FirstHourRow,
    deeper,
    in_state,
    ledger_from_the_future,
    ran,
    small,
)
from tests.support.stranger import (
    as_user,
    directory,
    env,
    file,
    nobody,
    of_root,
    spec,
    without,
)


def spec_rows() -> Iterator[FirstHourRow]:
    """``--spec``."""
    line = "run --spec job.toml"
    yield FirstHourRow(name="a spec that is not there", line="run --spec none.toml",
              says="cannot read the spec none.toml: No such file", do="No such file")  # fmt: skip
    yield FirstHourRow(name="a directory as a spec", line="run --spec .", says="'.' is a directory",
              do=HELP)  # fmt: skip
    yield FirstHourRow(name="a spec that is no TOML", line=line, says="job.toml is not valid TOML",
              do="line 2", given=(spec('script = "train.py"\nname = \n'),))  # fmt: skip
    yield FirstHourRow(name="a spec that is JSON", line=line, says="job.toml is not valid TOML",
              do="line 1", given=(spec('{"script": "train.py"}\n'),))  # fmt: skip
    yield FirstHourRow(name="a spec that is no text", line=line, says="job.toml: it is not UTF-8",
              do="UTF-8", given=(file("job.toml", b"script = '\xff'\n"),))  # fmt: skip
    yield FirstHourRow(name="a spec with a BOM", line=line, code=0, starts=True,
              says="trained",
              given=(file("job.toml", b"\xef\xbb\xbfscript = 'train.py'\n"),))  # fmt: skip
    yield FirstHourRow(name="an empty spec", line=line, says="job.toml.*cannot be used",
              do="script: is required", given=(spec(""),))  # fmt: skip
    yield FirstHourRow(name="a slip in a key", line=line, says="job.toml.*cannot be used",
              do="scirpt: is not a key here; did you mean 'script'",
              given=(spec('scirpt = "train.py"\n'),))  # fmt: skip
    yield FirstHourRow(name="a key in the wrong table", line=line, says="snapshots.grace",
              do="known: |did you mean|drain",
              given=(spec('script = "train.py"\n[snapshots]\ngrace = "1min"\n'),))  # fmt: skip
    yield FirstHourRow(name="a list that is none", line=line, says="args: expected a list",
              do="got '--epochs 3'",
              given=(spec('script = "train.py"\nargs = "--epochs 3"\n'),))  # fmt: skip
    yield FirstHourRow(name="a number as an argument", line=line, says=r"args\[1\]: expected text",
              do="got 3",
              given=(spec('script = "train.py"\nargs = ["--epochs", 3]\n'),))  # fmt: skip
    yield FirstHourRow(name="a duration without a unit", line=line,
              says="drain.grace: expected a duration such as 30s", do="got 60",
              given=(spec('script = "train.py"\n[drain]\ngrace = 60\n'),))  # fmt: skip
    yield FirstHourRow(name="a size in words", line=line, says="memory.cpu: expected a size",
              do="got 'half'",
              given=(spec('script = "train.py"\n[memory]\ncpu = "half"\n'),))  # fmt: skip
    yield FirstHourRow(name="a script in a spec that is not there", line=line,
              says="no script none.py", do="<HERE>", names=("none.py",),
              given=(spec('script = "none.py"\n'),))  # fmt: skip
    yield FirstHourRow(name="a working directory that is not there", line=line,
              says="no working directory /nowhere|/nowhere", do="working_directory",
              names=("/nowhere",),
              given=(spec('script = "train.py"\nworking_directory = "/nowhere"\n'),))  # fmt: skip
    yield FirstHourRow(name="an interpreter in a spec that is not there", line=line,
              says="cannot run the interpreter /no/py", do="python|no such program",
              names=("/no/py",),
              given=(spec('script = "train.py"\npython = "/no/py"\n'),))  # fmt: skip
    yield FirstHourRow(name="a spec of another user", line=line, says="'job.toml' is not readable",
              do=HELP,
              given=(spec('script = "train.py"\n'), nobody, of_root("job.toml", 0o600)))  # fmt: skip
    yield FirstHourRow(name="credentials in a spec", line=line, says="snapshots.remote",
              do="environment|credentials|expected", names=("snapshots.remote",),
              given=(spec('script = "train.py"\n'
                          '[snapshots]\nremote = "s3://KEY:SECRET@bucket"\n'),))  # fmt: skip
    yield FirstHourRow(name="a remote that is not mounted", line=line, code=1,
              says="/nowhere/runs is not there", do="is it mounted", names=("/nowhere/runs",),
              given=(spec('script = "train.py"\nname = "train"\n[snapshots]\nremote = '
                          '"file:///nowhere/runs"\n'),), starts=True)  # fmt: skip
    yield FirstHourRow(name="a remote without a name", line=line, says="snapshots.remote needs a name",
              do="--name", names=("snapshots.remote",),
              given=(spec('script = "train.py"\n[snapshots]\nremote = '
                          '"file:///nowhere/runs"\n'),))  # fmt: skip
    yield FirstHourRow(name="a plan by a spec", line=f"{line} --dry-run", code=0, slow=True,
              says="nothing was started; without --dry-run it is",
              given=(spec('script = "train.py"\n'),))  # fmt: skip
    yield FirstHourRow(name="a check by a spec that is not there", line="check --spec none.toml",
              says="cannot read the spec none.toml: No such file", do="No such file")  # fmt: skip
    yield FirstHourRow(name="a policy by a spec that is not there", line="policy --spec none.toml",
              says="cannot read the spec none.toml: No such file", do="No such file")  # fmt: skip


def project_rows() -> Iterator[FirstHourRow]:
    """``[tool.trainwarden]``."""
    line, name = "run train.py", "pyproject.toml"
    yield FirstHourRow(name="a project that is no TOML", line=line, says="pyproject.toml is not valid "
              "TOML", do="line 2", names=(name,),
              given=(file(name, "[tool.trainwarden]\nname = \n"),))  # fmt: skip
    yield FirstHourRow(name="a project of others that is no TOML", line=line, code=0, says="trained",
              given=(file(name, "[tool.black]\nline = \n"),), starts=True)  # fmt: skip
    yield FirstHourRow(name="a project's table that is none", line=line, says="is no table",
              do=r"write \[tool.trainwarden\]", names=(name,),
              given=(file(name, "[tool]\ntrainwarden = 3\n"),))  # fmt: skip
    yield FirstHourRow(name="a slip in a project's key", line=line,
              says=r"\[tool.trainwarden\] of <HERE>/pyproject.toml",
              do="nmae: is not a key here; did you mean 'name'", names=("nmae",),
              given=(file(name, '[tool.trainwarden]\nnmae = "x"\n'),))  # fmt: skip
    yield FirstHourRow(name="a project's bad duration", line=line,
              says=r"\[tool.trainwarden\] of <HERE>/pyproject.toml",
              do="snapshots.every: expected an interval", names=("snapshots.every",),
              given=(file(name, "[tool.trainwarden.snapshots]\nevery = 5\n"),))  # fmt: skip
    yield FirstHourRow(name="a project of another user", line="run --dry-run train.py", code=0,
              says="job: train\n", given=(file(name, '[tool.trainwarden]\nname = "x"\n'),
              nobody, lambda p: os.chown(p.here / name, 12345, 12345)))  # fmt: skip


def state_rows() -> Iterator[FirstHourRow]:
    """``TRAINWARDEN_STATE_DIR`` and ``--state-dir``."""
    line, other = "run train.py", "--state-dir"
    yield FirstHourRow(name="a state directory that is a file", line=line,
              says="state directory <HERE>/train.py|<HERE>/train.py' is a file", do=other,
              names=("train.py",), given=(env(TRAINWARDEN_STATE_DIR="<HERE>/train.py"),))  # fmt: skip
    yield FirstHourRow(name="a state directory below a file", line=line,
              says="state directory <HERE>/train.py/x: Not a directory", do=other,
              names=("train.py/x",),
              given=(env(TRAINWARDEN_STATE_DIR="<HERE>/train.py/x"),))  # fmt: skip
    yield FirstHourRow(name="a state directory below a file, a plan", line="run --dry-run train.py",
              says="state directory <HERE>/train.py/x: Not a directory", do=other,
              names=("train.py/x",),
              given=(env(TRAINWARDEN_STATE_DIR="<HERE>/train.py/x"),))  # fmt: skip
    yield FirstHourRow(name="a state directory that is read only", line=line,
              says="state directory <HERE>/disk/x: Read-only file system", do=other,
              names=("disk/x",), given=(small("64k", "disk", "ro"),
              env(TRAINWARDEN_STATE_DIR="<HERE>/disk/x")))  # fmt: skip
    yield FirstHourRow(name="a state directory on a full disk", line=line,
              says="disk of the state directory <HERE>/disk/x is full",
              do="make room, or .*--state-dir", names=("disk/x",),
              given=(small("64k", "disk", "full"),
              env(TRAINWARDEN_STATE_DIR="<HERE>/disk/x")), starts=True)  # fmt: skip
    yield FirstHourRow(name="a state directory of another user", line=line,
              says="<HERE>/theirs' is not readable", do=other,
              names=("theirs",), given=(directory("theirs"), nobody,
              of_root("theirs", 0o700), env(TRAINWARDEN_STATE_DIR="<HERE>/theirs")))  # fmt: skip
    yield FirstHourRow(name="another user's, to look at", line="status --state-dir theirs",
              says="'theirs' is not readable", do=other,
              given=(directory("theirs/jobs"), nobody, of_root("theirs", 0o700)))  # fmt: skip
    yield FirstHourRow(name="below another user's", line="status --state-dir theirs/x",
              code=1, says="cannot use .*theirs/x.*: Permission denied", do="theirs",
              names=("theirs/x",),
              given=(directory("theirs/x"), nobody, of_root("theirs", 0o700)))  # fmt: skip
    yield FirstHourRow(name="below another user's, to train", line="run train.py",
              says="state directory <HERE>/theirs/x: Permission denied", do=other,
              names=("theirs/x",), given=(directory("theirs/x"), nobody,
              of_root("theirs", 0o700), env(TRAINWARDEN_STATE_DIR="<HERE>/theirs/x")))  # fmt: skip
    yield FirstHourRow(name="another user's, for its log", line="logs --state-dir theirs train",
              says="'theirs' is not readable", do=other,
              given=(directory("theirs/jobs"), nobody, of_root("theirs", 0o700)))  # fmt: skip
    yield FirstHourRow(name="an empty state directory", line=line, code=0, says="trained",
              given=(env(TRAINWARDEN_STATE_DIR=""),), starts=True)  # fmt: skip
    yield FirstHourRow(name="a state directory with a strange name", line=f"{line} 'x y'", code=0,
              says="trained", given=(env(TRAINWARDEN_STATE_DIR="<HERE>/a b\n🚀"),),
              starts=True)  # fmt: skip
    yield FirstHourRow(name="a state directory with a long path", slow=True, line=line, code=0,
              says="trained", given=(deeper(12),), starts=True)  # fmt: skip
    yield FirstHourRow(name="a long path, and what is there", line="status", says="a-rather-long",
              do="nothing ran there yet", names=("a-rather-long-name",),
              given=(deeper(12),))  # fmt: skip
    yield FirstHourRow(name="a slip in the state directory", line="status --state-dir stat",
              says="no state directory .*stat", do="nothing ran there yet")  # fmt: skip
    yield FirstHourRow(name="no home, and no name", line=line, says="HOME",
              do="--state-dir|TRAINWARDEN_STATE_DIR", names=("HOME",),
              given=(without("HOME"), as_user(54321)))  # fmt: skip
    yield FirstHourRow(name="no home, and no name: status", line="status", says="HOME",
              do="--state-dir|TRAINWARDEN_STATE_DIR", names=("HOME",),
              given=(without("HOME"), as_user(54321)))  # fmt: skip
    yield FirstHourRow(name="a home that cannot be", line=line, says="state directory "
              "/nonexistent/.local/state/trainwarden", do=other, names=("/nonexistent",),
              given=(env(HOME="/nonexistent"), nobody))  # fmt: skip
    yield FirstHourRow(name="no name, but a home", line="incidents --ack 1", code=0, says="^$",
              given=(ran, as_user(54321)), starts=True)  # fmt: skip
    yield FirstHourRow(name="the ledger of a newer version", line="status", code=1,
              says="written by a newer version", do="upgrade", names=("ledger.sqlite",),
              given=(ledger_from_the_future,))  # fmt: skip
    yield FirstHourRow(name="a ledger that is none", line="status", code=1,
              says="ledger.sqlite (cannot be used|is damaged)",
              do="backup|another --state-dir|move it away", names=("ledger.sqlite",),
              given=(in_state("ledger.sqlite", "no database at all\n" * 100),))  # fmt: skip
    yield FirstHourRow(name="to train with a ledger that is none", line=line, code=1,
              says="ledger.sqlite (cannot be used|is damaged)", starts=True,
              do="backup|another --state-dir|move it away", names=("ledger.sqlite",),
              given=(in_state("ledger.sqlite", "no database at all\n" * 100),))  # fmt: skip
