"""What a person types to run something, and what is said where it cannot be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import COMMAND, Trainwarden
from tests.support.fake_nvml import FakeNvml

SAYS = "import os, sys; print(__package__, sys.argv[1:], os.environ.get('SEED'))\n"


@pytest.fixture
def trainwarden(tmp_path: Path) -> Trainwarden:
    """The command, in a project with a package."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "values.py").write_text("RATE = 3\n")
    (package / "train.py").write_text(f"from .values import RATE\n{SAYS}")
    (tmp_path / "notes.ipynb").write_text("{}")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0")
    (tmp_path / "train.py").write_text(SAYS)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.trainwarden]\nname = "of-project"\nenvironment = {SEED = "1"}\n'
    )
    return Trainwarden(directory=tmp_path, state=tmp_path / "state")


def test_a_module_with_its_package(trainwarden: Trainwarden) -> None:
    """As ``python -m`` would run it; what the project says holds, unless an option says
    otherwise."""
    done = trainwarden("run", "-m", "package.train", "--epochs", "3")
    assert (done.returncode, done.stdout) == (0, "package ['--epochs', '3'] 1\n")
    assert trainwarden.json("status", "of-project")[0]["state"] == "finished"
    done = trainwarden("run", "--name", "x", "--env", "SEED=2", "train.py", "-m", "y")
    assert (done.returncode, done.stdout) == (0, "None ['-m', 'y'] 2\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["notes.ipynb"], "jupyter nbconvert --to script notes.ipynb"),
        (["package"], "package is a directory: name the script in it"),
        (["binary"], "binary is no Python script"),
        (["-m", "package.nothing"], "there is no module package.nothing in"),
        (["-m", "package/train.py"], "is not the name of a module"),
        (["--python", "/no/python", "train.py"], "cannot run the interpreter"),
        (["--env", "SEED", "train.py"], "--env takes NAME=VALUE"),
        (["--gpus", "907", "train.py"], "there is no GPU"),
    ],
)
def test_what_cannot_be_run(
    trainwarden: Trainwarden, arguments: list[str], sentence: str
) -> None:
    """One sentence, exit code 2, and nothing was started."""
    done = trainwarden("run", *arguments)
    assert done.returncode == 2, done.stdout
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(trainwarden.state.rglob("output.log"))


@pytest.mark.parametrize("options", [["--gpus", "none"], ["--spec", "none.toml"]])
def test_no_gpu_is_none(trainwarden: Trainwarden, options: list[str]) -> None:
    """Who asks for none sees none, and is told so."""
    look = "import os; print(repr(os.environ.get('CUDA_VISIBLE_DEVICES')))\n"
    (trainwarden.directory / "look.py").write_text(look)
    spec = 'script = "look.py"\ngpu_count = 0\n'
    (trainwarden.directory / "none.toml").write_text(spec)
    done = trainwarden("run", "--dry-run", *options, "look.py")
    assert "gpus: none\n" in done.stdout
    done = trainwarden("run", *options, "look.py")
    assert (done.returncode, done.stdout) == (0, "''\n")


def test_a_count_of_gpus_that_are_not_there(
    trainwarden: Trainwarden, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``gpu_count`` is not passed over in silence: it is refused, or said to be the
    daemon's. Who limits the CPU's memory trains on the CPU."""
    spec = trainwarden.directory / "two.toml"
    spec.write_text('script = "train.py"\ngpu_count = 2\n')
    done = trainwarden("run", "--spec", spec)
    assert (done.returncode, done.stdout) == (2, "")
    assert "gpu_count asks for 2: there is no GPU here" in done.stderr
    assert trainwarden("run", "--spec", spec, "--cpu-memory", "1GiB").returncode == 0
    fake = FakeNvml(library, trainwarden.directory / "nvml")
    for name, text in fake.environment.items():
        monkeypatch.setenv(name, text)
    fake.gpus(1)
    done = trainwarden("run", "--spec", spec)
    assert "gpu_count asks for 2: there is no GPU 1: this machine has 1" in done.stderr
    fake.gpus(2)
    done = trainwarden("run", "--spec", spec)
    assert done.returncode == 0
    assert "gpu_count = 2 is for a daemon, which chooses them" in done.stderr


def test_a_limit_on_main_memory_that_nobody_keeps(trainwarden: Trainwarden) -> None:
    """It is the daemon's, under systemd; here it is not passed over in silence."""
    spec = trainwarden.directory / "limited.toml"
    spec.write_text('script = "train.py"\n[memory]\nhost = "3GiB"\n')
    done = trainwarden("run", "--spec", spec, "--dry-run")
    assert "memory: no limit of ours" in done.stdout
    assert (
        "memory.host = 3.00 GiB is kept by a daemon under systemd alone" in done.stderr
    )


def test_a_name_is_suggested(trainwarden: Trainwarden) -> None:
    """The nearest to that of the script."""
    (trainwarden.directory / "pyproject.toml").unlink()
    (trainwarden.directory / "größe 1.py").touch()
    done = trainwarden("run", "größe 1.py")
    assert "such as --name gro" in done.stderr
    assert done.stderr.rstrip().endswith("e-1")


def test_a_warning_has_its_fix(trainwarden: Trainwarden) -> None:
    """``--dry-run`` says no less of it than ``check``."""
    (found,) = json.loads(trainwarden("run", "--dry-run", "--json", "train.py").stdout)
    told = trainwarden("run", "--dry-run", "train.py").stdout
    for finding in found["findings"]:
        assert finding["fix"] in told


def test_what_would_be_done(trainwarden: Trainwarden) -> None:
    """``--dry-run`` says it and starts nothing, for a new run, one that goes on, and one
    that must not begin."""
    asked = ("run", "--dry-run", "--cpu-memory", "1GiB", "train.py", "--epochs", "3")
    done = trainwarden(*asked)
    assert done.returncode == 0, done.stdout + done.stderr
    script = trainwarden.directory / "train.py"
    assert f"start: a new run of {script}\n" in done.stdout
    assert f"command: {script} --epochs 3\n" in done.stdout
    assert "memory: 1.00 GiB for CPU tensors\n" in done.stdout
    assert done.stdout.endswith("nothing was started; without --dry-run it is\n")
    assert not trainwarden.state.exists()
    script.write_text("raise SystemExit(3)\n")
    assert trainwarden("run", "train.py").returncode == 1
    (told,) = json.loads(trainwarden("run", "--dry-run", "--json", "train.py").stdout)
    assert told["start"] == f"resuming {script} without a snapshot"
    refused = trainwarden(
        "run", "--dry-run", "--name", "of-project", "-m", "package.train"
    )
    assert refused.returncode == 2
    assert "belongs to" in refused.stderr
    assert not list(trainwarden.state.rglob("attempts/0002"))


def test_a_name_that_was_another_scripts(trainwarden: Trainwarden) -> None:
    """Before its snapshots are removed for the new run, and as that begins."""
    assert trainwarden("run", "train.py").returncode == 0
    first = trainwarden.directory / "train.py"
    other = trainwarden.directory / "other.py"
    other.write_text(SAYS)
    said = f"the name 'of-project' was that of {first} before: the snapshots of its run"
    asked = trainwarden("run", "--dry-run", "other.py")
    assert f"start: a new run of {other}; {said} are removed" in asked.stdout
    assert said in trainwarden("run", "other.py").stderr
    assert "was that of" not in trainwarden("run", "--dry-run", "other.py").stdout


def test_a_dry_run_refuses_a_state_directory_that_run_refuses(
    trainwarden: Trainwarden,
) -> None:
    """The same sentence and exit code, for one that cannot be made, though permissions
    allow it, and for one whose files cannot be."""
    file = trainwarden.directory / "file"
    file.touch()
    jobs = trainwarden.directory / "jobs-is-a-file"
    jobs.mkdir()
    (jobs / "jobs").touch()
    for state in ("/proc/none/state", file / "state", jobs):
        answers = [
            trainwarden("run", *words, "train.py", state=state)
            for words in (["--dry-run"], [])
        ]
        assert [done.returncode for done in answers] == [2, 2]
        assert answers[0].stderr == answers[1].stderr
        assert "cannot write to the state directory" in answers[0].stderr
    assert not list(trainwarden.directory.glob(".trainwarden-*"))


def test_the_active_environment_trains(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for ``submit`` and ``check``: where none is named, its interpreter."""
    active = trainwarden.directory / "venv"
    (active / "bin").mkdir(parents=True)
    python = active / "bin" / "python"
    python.symlink_to(sys.executable)
    monkeypatch.setenv("VIRTUAL_ENV", str(active))
    (told,) = json.loads(trainwarden("run", "--dry-run", "--json", "train.py").stdout)
    assert told["python"] == str(python)
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    (told,) = json.loads(trainwarden("run", "--dry-run", "--json", "train.py").stdout)
    assert told["python"] == sys.executable


def test_check_refuses_what_run_refuses(trainwarden: Trainwarden) -> None:
    """The same sentence for a spec whose script or GPU is not there."""
    spec = trainwarden.directory / "job.toml"
    for text in ('script = "none.py"\n', 'script = "train.py"\ngpus = ["907"]\n'):
        spec.write_text(text)
        answers = [trainwarden(verb, "--spec", spec) for verb in ("run", "check")]
        assert [done.returncode for done in answers] == [2, 2]
        assert answers[0].stderr == answers[1].stderr


def test_a_project_of_somebody_else(trainwarden: Trainwarden) -> None:
    """What another user wrote into a directory above is none of the run's business."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(trainwarden.directory / "pyproject.toml", 65534, 65534)
    assert trainwarden("run", "train.py").stdout == "None [] None\n"


def test_an_unknown_job_has_one_exit_code(trainwarden: Trainwarden) -> None:
    """Whatever is asked about it."""
    assert trainwarden("run", "train.py").returncode == 0
    for words in (
        ["status"], ["logs"], ["incidents"], ["snapshots"], ["memory"], ["forget"],
    ):  # fmt: skip
        done = trainwarden(*words, "nobody")
        assert done.returncode == 2, words
        assert "there is no job 'nobody'" in done.stderr, words


def test_the_newest_incident(trainwarden: Trainwarden) -> None:
    """``explain`` without a number; a module that is not there names the way out."""
    script = trainwarden.script("import nothing_of_this_name", "second.py")
    trainwarden("run", "train.py")
    assert trainwarden("explain").returncode == 0
    failed = trainwarden("run", "--name", "second", script)
    assert failed.returncode == 1
    assert "--python PATH" in failed.stderr
    assert "nothing_of_this_name" in trainwarden("explain").stdout


def test_where_an_error_of_the_script_was_raised(trainwarden: Trainwarden) -> None:
    """Its line, as it is known at the end of ``run``; else the log of that attempt."""
    script = trainwarden.script("def own():\n    return {}['lr']\n\nown()", "own.py")
    trainwarden("run", "--name", "own", script)
    line = ", line 2, in own"
    flat = " ".join(trainwarden("explain").stdout.split())
    assert f'own.py"{line}' in flat
    assert "Its traceback" not in flat
    assert "Its log" not in flat
    assert line in trainwarden("status", "own").stdout
    leaves = trainwarden.script("import sys\nsys.exit('enough')", "leaves.py")
    trainwarden("run", "--name", "leaves", leaves)
    log = trainwarden("explain").stdout.partition("Its log: ")[2].splitlines()[0]
    assert log in trainwarden("status", "leaves").stdout
    assert "enough" in Path(log).read_text()


def test_all_jobs_only_if_it_is_said(trainwarden: Trainwarden) -> None:
    """Neither ``drain`` nor ``stop`` ends everything for want of a name."""
    for verb in ("drain", "stop"):
        done = trainwarden(verb)
        assert done.returncode == 2
        assert "--all" in done.stderr


def test_completion(trainwarden: Trainwarden) -> None:
    """Names of jobs, and numbers of incidents with what they were."""
    trainwarden("run", "--name", "bad", trainwarden.script("{}['lr']", "bad.py"))
    trainwarden("run", "train.py")

    def offered(*words: str) -> list[str]:
        environment = {
            **os.environ,
            "_TRAINWARDEN_COMPLETE": "zsh_complete",
            "COMP_WORDS": " ".join(["trainwarden", *words]),
            "COMP_CWORD": str(len(words)),
            "TRAINWARDEN_STATE_DIR": str(trainwarden.state),
        }
        done = subprocess.run(
            [COMMAND], env=environment, capture_output=True, text=True, check=False
        )
        return done.stdout.split("\n")

    assert {"bad", "of-project"} <= set(offered("logs", ""))
    assert "of-project" not in offered("status", "b")
    assert offered("explain", "")[1:3] == ["1", "bad: user_error"]


def test_an_option_of_ours_behind_the_script_is_told(trainwarden: Trainwarden) -> None:
    """It is the script's, as with ``python``: a limit that is not in force is told."""
    done = trainwarden("run", "train.py", "--cpu-memory", "300MiB")
    assert "None ['--cpu-memory', '300MiB'] 1" in done.stdout
    assert "--cpu-memory stands behind the script" in done.stderr
    done = trainwarden("run", "--name", "b", "train.py", "--", "--fresh")
    assert "stands behind" not in done.stderr
