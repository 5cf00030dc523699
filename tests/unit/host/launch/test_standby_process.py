"""A standby: real processes that import TensorFlow ahead, and become an attempt or end."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.jobs.spec import Spec
from supervisor.core.text.log_level import LogLevel
from supervisor.host.launch.direct import DirectLauncher
from supervisor.host.launch.input_relay import InputRelay
from supervisor.host.launch.launcher import (
    HAD_ENDED,
    LaunchedAttempt,
    LaunchError,
    read_shimmed,
)
from supervisor.host.launch.standby_process import DirectStandby
from supervisor.host.process.marker_scan import marker_of
from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import BATCH_ENVIRONMENT, Directive
from supervisor.wire.paths import AttemptPaths, RunPaths
from supervisor.wire.records.end_records import ExitRecord
from tests.support.directives import directive_of, spec_of

SHOWS = """
import json, os, sys
STARTED = set(sys.modules) & {"numpy", "tensorflow", "keras", "h5py", "rich"}
import requests
BEFORE
import keras, numpy as np
import random, tensorflow as tf
AFTER
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)])
names = {
    one: value
    for one, value in os.environ.items()
    if "TRAINWARDEN" not in one and one != "TF_BFC_MEMORY_DUMP"
}
shown = {
    "started": sorted(STARTED),
    "path": sys.path,
    "arguments": sys.argv,
    "environment": names,
    "random": [random.random(), random.Random().random(), hash("a")],
    "numpy": [float(np.random.random()), float(np.random.default_rng().random())],
    "tensorflow": [float(tf.random.uniform(())), float(keras.random.uniform(()))],
    "weights": [w.tolist() for w in model.get_weights()],
    "out": model(np.ones((4, 3)), training=True).numpy().tolist(),
    "requests": requests is sys.modules["requests"],
    "specs": [keras.__spec__.name, type(tf.__spec__.loader).__name__, np.__name__],
}
print("SHOWN " + json.dumps(shown, sort_keys=True), flush=True)
"""
PATIENCE = 120.0


@dataclass
class SocketPair:
    """A cold attempt, and what stands by for the next."""

    directory: Path
    launcher: DirectLauncher = field(default_factory=DirectLauncher)
    open: list[DirectStandby] = field(default_factory=list[DirectStandby])

    @property
    def paths(self) -> RunPaths:
        """Of the run."""
        return RunPaths(self.directory / "run-1")

    def spec(self, text: str, **tables: object) -> Spec:
        """Of a script with this text."""
        script = self.directory / "train.py"
        script.write_text(text)
        return spec_of(script, **tables)

    def directive(self, spec: Spec, attempt: int) -> Directive:
        """What an attempt is told."""
        made = directive_of(spec, self.paths, "standby", attempt=attempt)
        return replace(made, run_id="a-run", standby=True)

    def cold(self, spec: Spec, attempt: int = 1) -> str:
        """What it shows without anything that stands by."""
        paths = self.paths.attempt(attempt)
        started = self.launcher.launch(spec, self.directive(spec, attempt), paths=paths)
        return self.end(started)

    def standby(self, spec: Spec) -> DirectStandby:
        """A process that imported, or said why it cannot."""
        made = self.launcher.stand_by(
            spec,
            self.directive(spec, 2),
            paths=self.paths,
            imports=self.paths.attempt(1).imports,
        )
        self.open.append(made)
        until(lambda: made.look() or made.ended())
        return made

    def hand_over(self, spec: Spec, made: DirectStandby) -> str:
        """What it shows as an attempt."""
        directive = self.directive(spec, 2)
        paths = self.paths.attempt(2)
        return self.end(self.launcher.hand_over(made, spec, directive, paths=paths))

    def end(self, attempt: LaunchedAttempt) -> str:
        """Wait for the end; what the script has shown."""
        until(attempt.started)
        until(attempt.ended)
        attempt.close()
        output = attempt.paths.output.read_text()
        lines = [one for one in output.splitlines() if one.startswith("SHOWN ")]
        assert len(lines) == 1, output
        return lines[0]

    def notices(self, attempt: int) -> list[str]:
        """What a person was told by it."""
        lines = self.paths.attempt(attempt).events.read_text().splitlines()
        found: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [one["sentence"] for one in found if one["kind"] == RecordKind.NOTICE]

    def pid(self, made: DirectStandby) -> int:
        """Of the process that waits."""
        shimmed = read_shimmed(AttemptPaths(made.directory))
        assert shimmed is not None
        return shimmed.pid


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SocketPair]:
    """With nothing left behind."""
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    made = SocketPair(tmp_path)
    yield made
    for one in made.open:
        if one.shim.descriptor >= 0 and not one.ended():
            one.ask_end()
            one.wait_for_end(PATIENCE)
        one.clear()
    scan = made.launcher.environments
    until(lambda: not scan.wait_for(marker_of("a-run")))


def until(wanted: Callable[[], object]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not wanted():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def unheard(_text: str, *, level: LogLevel = LogLevel.INFO) -> None:
    """Nobody is told."""
    del level


def gone(pid: int) -> Callable[[], bool]:
    """Whether the process is."""
    return lambda: not Path(f"/proc/{pid}").exists()


SETTINGS = """
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "2")
"""


def test_a_script_finds_in_a_standby_what_it_finds_in_a_cold_start(
    pair: SocketPair,
) -> None:
    """Draws without seeds, variables, path, arguments, what is imported: all the same,
    and of the framework nothing before it asks."""
    text = SHOWS.replace("BEFORE", SETTINGS).replace("AFTER", "")
    spec = pair.spec(text, args=["--rate", "0.1"])
    cold = pair.cold(spec)
    made = pair.standby(spec)
    assert made.answer is not None
    assert made.answer.because == ""
    assert 100 << 20 < made.answer.memory_bytes < 2 << 30
    pid = pair.pid(made)
    score = Path(f"/proc/{pid}/oom_score_adj")
    assert score.read_text().strip() == "1000"
    assert not list(made.directory.glob("page"))
    opened = [one.readlink() for one in Path(f"/proc/{pid}/fd").iterdir()]
    assert not [one for one in opened if "nvidia" in str(one)]
    assert pair.hand_over(spec, made) == cold
    assert pair.notices(2) == []
    assert not made.directory.exists()


@pytest.mark.slow
def test_another_environment_is_a_cold_start_in_the_same_process(
    pair: SocketPair,
) -> None:
    """Variables of a remedy that is decided after the standby was started."""
    text = SHOWS.replace("BEFORE", "").replace("AFTER", "")
    pair.cold(pair.spec(text))
    made = pair.standby(pair.spec(text))
    other = pair.spec(text, environment={"TF_NUM_INTEROP_THREADS": "3"})
    shown = pair.hand_over(other, made)
    assert '"TF_NUM_INTEROP_THREADS": "3"' in shown
    assert "its environment differs: TF_NUM_INTEROP_THREADS" in pair.notices(2)[0]
    assert shown == pair.cold(other, 3)


@pytest.mark.slow
def test_the_size_of_a_slice_is_told_to_a_standby(pair: SocketPair) -> None:
    """After a lack of memory each standby was of no use: what the script may read of it is
    in a variable, which no framework looks at."""
    reads = f"sys.argv.append(os.environ.get('{BATCH_ENVIRONMENT}', 'none'))"
    text = SHOWS.replace("BEFORE", "").replace("AFTER", reads)
    pair.cold(pair.spec(text))
    made = pair.standby(pair.spec(text))
    other = pair.spec(text, environment={BATCH_ENVIRONMENT: "16"})
    shown = pair.hand_over(other, made)
    assert 'train.py", "16"]' in shown
    assert pair.notices(2) == []
    assert shown == pair.cold(other, 3)


@pytest.mark.slow
def test_a_script_that_imports_otherwise_this_time_begins_once_more(
    pair: SocketPair,
) -> None:
    """What was imported ahead was imported under other circumstances."""
    before = "if os.path.exists('other'): os.environ['TF_NUM_INTEROP_THREADS'] = '5'"
    spec = pair.spec(SHOWS.replace("BEFORE", before).replace("AFTER", ""))
    pair.cold(spec)
    made = pair.standby(spec)
    (pair.directory / "other").touch()
    shown = pair.hand_over(spec, made)
    assert "TF_NUM_INTEROP_THREADS" in pair.notices(2)[0]
    assert shown == pair.cold(spec, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "because"),
    [
        ("import random; random.seed(3)", "the script draws random numbers"),
        ("sys.path.append('lib'); os.makedirs('lib', exist_ok=True)", ""),
    ],
)
def test_what_decides_an_import_is_as_the_script_has_it(
    pair: SocketPair, before: str, because: str
) -> None:
    """Where that cannot be had, the standby says so, and an attempt starts cold in it."""
    spec = pair.spec(SHOWS.replace("BEFORE", before).replace("AFTER", ""))
    cold = pair.cold(spec)
    made = pair.standby(spec)
    assert made.answer is not None
    assert because in made.answer.because
    assert bool(because) == bool(made.answer.because)
    assert pair.hand_over(spec, made) == cold


@pytest.mark.slow
def test_a_package_that_was_changed_meanwhile_is_imported_anew(
    pair: SocketPair,
) -> None:
    """An upgrade: what was imported ahead is of before."""
    installed = pair.directory / "target"
    for name in metadata.files("termcolor") or ():
        place = installed / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(name.locate()), place)
    text = SHOWS.replace("BEFORE", "").replace("AFTER", "")
    spec = pair.spec(text, environment={"PYTHONPATH": str(installed)})
    cold = pair.cold(spec)
    made = pair.standby(spec)
    assert made.answer is not None
    assert made.answer.because == ""
    changed = installed / "termcolor" / "__init__.py"
    changed.write_text(changed.read_text() + "# 2.0\n")
    assert pair.hand_over(spec, made) == cold
    assert f"{changed} was changed after it had been imported" in pair.notices(2)[0]


def test_a_module_of_the_scripts_own_is_not_imported_ahead(pair: SocketPair) -> None:
    """It may be another one by then, or be pinned to what it was."""
    (pair.directory / "astunparse.py").write_text("def unparse(_):\n    return ''\n")
    spec = pair.spec(SHOWS.replace("BEFORE", "").replace("AFTER", ""))
    pair.cold(spec)
    made = pair.standby(spec)
    assert made.answer is not None
    assert "astunparse.py, which is no installed package's" in made.answer.because


def test_a_script_without_tensorflow_has_none(pair: SocketPair) -> None:
    """NumPy alone is not worth a process."""
    spec = pair.spec("import numpy\nprint('SHOWN', numpy.ones(3).tolist())")
    pair.cold(spec)
    made = pair.standby(spec)
    assert made.answer is not None
    assert made.answer.because == "the script imports no TensorFlow"


@pytest.mark.slow
def test_what_is_read_comes_with_the_directive(
    pair: SocketPair, tmp_path: Path
) -> None:
    """Standard input is the attempt's from its beginning, and not before."""
    source = tmp_path / "typed"
    source.write_text("one two\n")
    descriptor = os.open(source, os.O_RDONLY)
    relay = InputRelay(unheard, descriptor)
    pair.launcher = DirectLauncher(relay=relay)
    text = "import keras\nprint('SHOWN', input(), flush=True)"
    spec = pair.spec(text)
    cold = pair.cold(spec)
    assert pair.hand_over(spec, pair.standby(spec)) == cold == "SHOWN one two"
    relay.close()
    os.close(descriptor)


@pytest.mark.slow
def test_one_that_has_barely_begun_is_handed_over_too(pair: SocketPair) -> None:
    """The attempt before ends just then: both messages are there before it listens."""
    spec = pair.spec(SHOWS.replace("BEFORE", "").replace("AFTER", ""))
    cold = pair.cold(spec)
    made = pair.launcher.stand_by(
        spec,
        pair.directive(spec, 2),
        paths=pair.paths,
        imports=pair.paths.attempt(1).imports,
    )
    assert pair.hand_over(spec, made) == cold
    assert pair.notices(2) == []


@pytest.mark.slow
def test_another_directory_may_have_its_name_meanwhile(pair: SocketPair) -> None:
    """An attempt begins where its name leads to then, as a cold start does."""
    place = pair.directory / "work"
    place.mkdir()
    (place / "before").touch()
    spec = pair.spec(
        "import keras, os\nprint('SHOWN', *os.listdir('.'))",
        working_directory=str(place),
    )
    assert pair.cold(spec) == "SHOWN before"
    made = pair.standby(spec)
    place.rename(pair.directory / "aside")
    place.mkdir()
    (place / "after").touch()
    assert pair.hand_over(spec, made) == "SHOWN after"


def test_it_ends_when_nobody_speaks_any_more_or_asks_it_to(pair: SocketPair) -> None:
    """The end of the socket, SIGTERM to the shim, and the loss of the shim."""
    spec = pair.spec("import keras\nprint('SHOWN 1')")
    pair.cold(spec)
    ends: list[Callable[[DirectStandby], object]] = [
        lambda made: made.channel.close(),
        lambda made: made.shim.send(signal.SIGTERM),
        lambda made: made.shim.send(signal.SIGKILL),
    ]
    for end in ends:
        made = pair.standby(spec)
        pid = pair.pid(made)
        end(made)
        until(made.ended)
        until(gone(pid))
        with pytest.raises(LaunchError, match=HAD_ENDED):
            pair.hand_over(spec, made)
        assert not pair.paths.attempt(2).root.exists()
        made.clear()
        assert not made.directory.exists()


def test_one_that_still_imports_ends_at_once(pair: SocketPair) -> None:
    """Nobody waits for an import that is of no use."""
    spec = pair.spec("import keras\nprint('SHOWN 1')")
    pair.cold(spec)
    made = pair.launcher.stand_by(
        spec,
        pair.directive(spec, 2),
        paths=pair.paths,
        imports=pair.paths.attempt(1).imports,
    )
    pair.open.append(made)
    until(lambda: read_shimmed(AttemptPaths(made.directory)))
    made.ask_end()
    assert made.wait_for_end(PATIENCE)
    assert made.ended()
    text = AttemptPaths(made.directory).exit.read_text()
    ended = ExitRecord.from_json(json.loads(text))
    assert ended is not None
    assert ended.signal == signal.SIGTERM  # in its import: one that waits ends with 0


@pytest.mark.slow
def test_secrets_of_a_script_are_not_written_down(pair: SocketPair) -> None:
    """Nor does an import need them: the standby is of use all the same."""
    before = "os.environ['HF_TOKEN'] = 'hf_very_secret'; os.environ['TF_ENABLE_ONEDNN_OPTS'] = '0'"
    spec = pair.spec(SHOWS.replace("BEFORE", before).replace("AFTER", ""))
    cold = pair.cold(spec)
    written = pair.paths.attempt(1).imports.read_text()
    assert "TF_ENABLE_ONEDNN_OPTS" in written
    assert "hf_very" not in written
    made = pair.standby(spec)
    assert made.answer is not None
    assert made.answer.because == ""
    assert pair.hand_over(spec, made) == cold
    assert pair.notices(2) == []


@pytest.mark.slow
def test_a_package_that_asks_for_numpy_first_is_told(pair: SocketPair) -> None:
    """Keras imports it, too: it would not ask again, and the attempt would start twice."""
    text = SHOWS.replace("BEFORE", "import h5py").replace("AFTER", "")
    spec = pair.spec(text)
    pair.cold(spec)
    made = pair.standby(spec)
    assert made.answer is not None
    assert "the script imports h5py before numpy" in made.answer.because


@pytest.mark.slow
def test_one_that_is_left_alone_does_not_end_as_a_training_that_is_over(
    pair: SocketPair,
) -> None:
    """It may have the name of an attempt by then: its exit code must not be 0."""
    spec = pair.spec(SHOWS.replace("BEFORE", "").replace("AFTER", ""))
    pair.cold(spec)
    made = pair.standby(spec)
    ended = made.directory / "exit.json"
    made.channel.close()
    deadline = time.monotonic() + PATIENCE
    while not ended.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert json.loads(ended.read_text())["signal"] == signal.SIGTERM


def _linked(place: Path, elsewhere: Path) -> None:
    place.symlink_to(elsewhere)


def _writable(place: Path, _elsewhere: Path) -> None:
    place.mkdir()
    place.chmod(0o770)


def _given_away(place: Path, _elsewhere: Path) -> None:
    place.mkdir(mode=0o700)
    try:
        os.chown(place, 65534, 65534)
    except PermissionError:
        pytest.skip("only root can give a directory to another user")


@pytest.mark.parametrize("made", [_linked, _writable, _given_away])
def test_a_place_that_somebody_else_may_change_is_not_used(
    pair: SocketPair, made: Callable[[Path, Path], None]
) -> None:
    """An attempt's directive would lie there: it says which script is run, as whom."""
    elsewhere = pair.directory / "elsewhere"
    elsewhere.mkdir()
    pair.paths.root.mkdir()
    made(pair.paths.standby, elsewhere)
    spec = pair.spec("import keras")
    with pytest.raises(LaunchError, match="not a directory of ours alone"):
        pair.launcher.stand_by(
            spec,
            pair.directive(spec, 2),
            paths=pair.paths,
            imports=pair.paths.attempt(1).imports,
        )
    assert list(pair.paths.standby.iterdir()) == list(elsewhere.iterdir()) == []
