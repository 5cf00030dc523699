"""What ``advise`` takes its words for, before anything is tried."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result
from typing_extensions import override

from supervisor.cli import measuring
from supervisor.cli.command_group import trainwarden
from supervisor.cli.commands import advise_command
from supervisor.core.jobs.spec import build_spec
from supervisor.core.memory.alternatives import of_slices
from supervisor.host.ledger.ledger import Ledger
from supervisor.runtime.measuring.alternative_trials import Advice, AlternativeTrials
from supervisor.wire.paths import StatePaths
from tests.support.advice import advice, measured


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of who calls the command, with a script in it that is not meant."""
    here = tmp_path / "here"
    (here / "digits").mkdir(parents=True)
    (here / "train.py").write_text("print('never')")
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return here


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """An empty state directory."""
    state = tmp_path / "state"
    state.mkdir()
    return state


def kept(state: Path, job: str, script: Path, **spec: Any) -> None:
    """A run of ``job`` in the ledger, with a relative script in its spec."""
    script.parent.mkdir(exist_ok=True)
    stored = build_spec({"script": script.name, **spec}).model_dump(mode="json")
    with contextlib.closing(Ledger(StatePaths(state).ledger)) as ledger:
        ledger.begin_run(
            run_id="r",
            job=job,
            script=str(script),
            script_hash="h",
            seed=1,
            spec=stored,
            now=1.0,
        )


def advise(state: Path, *words: str) -> Result:
    """The command, which has to end before anything is tried."""
    done = CliRunner().invoke(
        trainwarden, ["advise", "--state-dir", str(state), *words]
    )
    assert done.exit_code == 2, done.output
    assert "trying" not in done.output
    return done


@pytest.mark.parametrize("job", ["mine", "exp.v2", "digits"])
def test_a_job_is_known_whatever_its_name_is(
    tmp_path: Path, state: Path, job: str
) -> None:
    """With a dot, or that of a directory here; it is its own script that is tried, and no
    other of that name that is here."""
    script = tmp_path / "there" / "train.py"
    kept(state, job, script, snapshots={"every": "200steps", "memory": "off"})
    assert f"there is no script {script}" in advise(state, job).output


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("digits", "digits is a directory"),
        ("exp.v2", "there is no script exp.v2"),
        ("gone.py", "there is no script gone.py"),
        ("mine", "there is no job 'mine'"),
    ],
)
def test_what_is_neither_a_script_nor_a_job(
    state: Path, word: str, sentence: str
) -> None:
    """It is told as what it looks like."""
    assert sentence in advise(state, word).output


@pytest.mark.parametrize(
    ("words", "because"),
    [
        (("--cpu-memory", "1GiB", "train.py"), "it is tried on the CPU"),
        (("--spec", "none.toml"), "the job asks for no GPU"),
        (("--spec", "none_counted.toml"), "the job asks for no GPU"),
    ],
)
def test_the_limit_of_a_gpu_where_there_is_none(
    here: Path, state: Path, words: tuple[str, ...], because: str
) -> None:
    """It is refused: without it, the figures would be of something else."""
    (here / "none.toml").write_text('script = "train.py"\ngpus = []\n')
    (here / "none_counted.toml").write_text('script = "train.py"\ngpu_count = 0\n')
    done = advise(state, "--gpu-memory", "1GiB", *words)
    assert f"--gpu-memory limits nothing here: {because}" in done.output


class EndedTrials(AlternativeTrials):
    """Ended in the middle, by ``end``."""

    end: ClassVar[BaseException]
    found: ClassVar[Advice | None]

    @override
    def advice(self) -> Advice:
        """Never comes to its end."""
        raise self.end

    @override
    def so_far(self) -> Advice | None:
        """What there is."""
        return self.found


@pytest.mark.parametrize(
    ("end", "code"),
    [(KeyboardInterrupt(), 130), (measuring.TerminatedError(), 143)],
)
def test_ctrl_c_prints_what_was_measured_so_far(
    here: Path,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: BaseException,
    code: int,
) -> None:
    """As a table or one JSON object, with the exit code of what ended it; no spec is
    written for it, and no directory is left."""
    monkeypatch.setattr(advise_command, "AlternativeTrials", EndedTrials)
    monkeypatch.setattr(EndedTrials, "end", end, raising=False)
    found = replace(advice(measured(), measured(of_slices(2), ratio=0.5)), left=9)
    monkeypatch.setattr(EndedTrials, "found", found, raising=False)
    words = ["advise", "--state-dir", str(state), "--cpu-memory", "1GiB", "--apply"]
    done = CliRunner().invoke(trainwarden, [*words, "train.py"])
    assert done.exit_code == code
    assert "before 9 more trials were made, at most" in done.stdout
    assert "best so far: 2 slices" in done.stdout
    done = CliRunner().invoke(trainwarden, [*words, "--json", "train.py"])
    assert done.exit_code == code
    told = json.loads(done.stdout)
    assert (told["complete"], told["trials_left_at_most"]) == (False, 9)
    assert told["applied"] is None
    assert not list(here.glob("*.toml"))
    assert not list(state.glob("advise-*"))


def test_ctrl_c_before_anything_was_measured(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no table then."""
    monkeypatch.setattr(advise_command, "AlternativeTrials", EndedTrials)
    monkeypatch.setattr(EndedTrials, "end", KeyboardInterrupt(), raising=False)
    monkeypatch.setattr(EndedTrials, "found", None, raising=False)
    words = ["advise", "--state-dir", str(state), "--cpu-memory", "1GiB", "train.py"]
    done = CliRunner().invoke(trainwarden, words)
    assert done.exit_code == 130
    assert "interrupted before it was measured" in done.stderr
    assert done.stdout == ""
