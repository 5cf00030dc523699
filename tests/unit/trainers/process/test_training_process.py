"""A script under supervision runs as ``python script`` would run it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.page import Phase, read_page
from tests.support.attempts import LAUNCH, AttemptOutcome, Attempts


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    """A run of its own."""
    return Attempts(tmp_path)


def run(attempts: Attempts, text: str, *args: str, **options: object) -> AttemptOutcome:
    """Run a script with this text."""
    return attempts.run(attempts.script(text), *args, **options)


def wait_for(path: Path) -> None:
    """Until the script says that it is there."""
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


NO_GPU_HERE = """
import sys
import tensorflow as tf
if len(sys.argv) > 1:
    import keras
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    for _ in range(2):
        model.fit(tf.zeros((4, 1)), tf.zeros((4, 1)), verbose=0)
print(tf.config.list_physical_devices("GPU"))
"""


@pytest.mark.parametrize(
    ("asked", "limit", "told"),
    [
        ("4095", None, 1),
        pytest.param("-1,0", None, 0, marks=pytest.mark.slow),
        pytest.param("none", None, 0, marks=pytest.mark.slow),
        pytest.param("", None, 0, marks=pytest.mark.slow),
        pytest.param("4095", 2**30, 0, marks=pytest.mark.slow),
    ],
)
def test_a_gpu_that_is_not_there(
    attempts: Attempts, asked: str, limit: int | None, told: int
) -> None:
    """Days on the CPU where a GPU was asked for: that is said before they begin."""
    outcome = run(
        attempts,
        NO_GPU_HERE,
        "fit",
        environment={"CUDA_VISIBLE_DEVICES": asked},
        memory_limit_bytes=limit,
    )
    assert outcome.out == "[]\n", outcome.err
    notices = [notice["sentence"] for notice in outcome.of(RecordKind.NOTICE)]
    assert sum("GPU 4095 was asked for" in one for one in notices) == told
    assert sum("was asked for" in one for one in notices) == told


@pytest.mark.slow
def test_tensorflow_without_its_trainer_may_be_on_the_cpu(attempts: Attempts) -> None:
    """Only its data pipelines are wanted, say: the training is somebody else's."""
    outcome = run(attempts, NO_GPU_HERE, environment={"CUDA_VISIBLE_DEVICES": "4095"})
    assert outcome.out == "[]\n", outcome.err
    assert outcome.of(RecordKind.NOTICE) == []


AS_PYTHON = """
import json, sys, __main__
print(json.dumps({
    "name": __name__, "file": __file__, "argv": sys.argv, "path": sys.path[0],
    "main": __main__.__dict__ is globals(), "spec": __spec__ is None,
    "ours": [p for p in sys.path if p.endswith("trainers")],
    "tf": [m for m in sys.modules if m in ("tensorflow", "keras", "numpy")],
}))
"""


def test_script_sees_what_python_shows_it(attempts: Attempts) -> None:
    """Name, file, arguments and path are those of ``python script``; no framework is
    imported, and our directory is not on the path."""
    outcome = run(attempts, AS_PYTHON, "--epochs", "3")
    script = str(attempts.directory / "train.py")
    assert outcome.code == 0, outcome.err
    assert outcome.out.strip() == (
        f'{{"name": "__main__", "file": "{script}", "argv": ["{script}", "--epochs",'
        f' "3"], "path": "{attempts.directory}", "main": true, "spec": true,'
        ' "ours": [], "tf": []}'
    )
    assert outcome.of(RecordKind.FINISHED) == [{"exit_code": 0, "message": ""}]
    assert outcome.page.phase == Phase.FINISHED


SPAWN = """
import multiprocessing
def square(n):
    return n * n
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(square, [2, 3]))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(square, [4]))
        pool.terminate()
"""


def test_processes_of_the_script_start_and_end(attempts: Attempts) -> None:
    """Spawned workers import the script again; forked ones die of SIGTERM as usual."""
    outcome = run(attempts, SPAWN)
    assert (outcome.code, outcome.out) == (0, "[4, 9]\n[16]\n"), outcome.err


def test_own_packages_of_the_script_win(attempts: Attempts) -> None:
    """A project's own ``trainers`` and ``supervisor`` are what it imports."""
    for name in ("trainers", "supervisor"):
        attempts.script(f"WHO = 'the {name} of the project'", f"{name}/__init__.py")
        attempts.script("PART = 1", f"{name}/session.py")
    outcome = run(
        attempts,
        "import trainers, supervisor, trainers.session\n"
        "print(trainers.WHO, supervisor.WHO, trainers.session.PART)\n"
        "raise KeyError('gone')",
    )
    expected = "the trainers of the project the supervisor of the project 1\n"
    assert outcome.out == expected, outcome.err
    assert outcome.crash.exception == "KeyError"


@pytest.mark.parametrize(
    ("ending", "code", "message"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit('no data')", 1, "no data\n"),
    ],
)
def test_exit_codes_are_kept(
    attempts: Attempts, ending: str, code: int, message: str
) -> None:
    """``sys.exit`` ends with the code and message that Python gives it."""
    outcome = run(attempts, f"import sys; {ending}")
    assert (outcome.code, outcome.err) == (code, message)
    ended = {"exit_code": code, "message": message.strip()}
    assert outcome.of(RecordKind.FINISHED) == [ended]
    assert not outcome.paths.crash.exists()


CHAIN = """
def load():
    try:
        {}["labels"]
    except KeyError as error:
        raise ValueError("no labels\\nin the file") from error
load()
"""


def test_uncaught_exception_is_reported_without_our_frames(attempts: Attempts) -> None:
    """The report and stderr show the script's frames, chained, and none of ours."""
    outcome = run(attempts, CHAIN)
    crash = outcome.crash
    assert outcome.code == 1
    assert crash.exception == "ValueError"
    assert crash.message == "no labels\nin the file"
    assert (crash.steps_done, crash.in_fit) == (None, False)
    assert outcome.err == crash.traceback
    assert crash.traceback.count("train.py") == 3
    assert "KeyError: 'labels'" in crash.traceback
    assert "child.py" not in crash.traceback
    assert outcome.of(RecordKind.FINISHED) == []


@pytest.mark.parametrize(
    ("text", "exception", "code"),
    [
        ("if:", "SyntaxError", 1),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", 130),
        ("import torchh", "ModuleNotFoundError", 1),
    ],
)
def test_every_uncaught_exception_has_a_report(
    attempts: Attempts, text: str, exception: str, code: int
) -> None:
    """A script that does not compile, too."""
    outcome = run(attempts, text)
    assert (outcome.crash.exception, outcome.code) == (exception, code)


INTERRUPTED = """
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("text", "unprompted"),
    [
        ("raise KeyboardInterrupt", True),
        ("raise KeyError", False),
        (INTERRUPTED, False),
    ],
)
def test_an_interrupt_that_nobody_sent(
    attempts: Attempts, text: str, *, unprompted: bool
) -> None:
    """It is told apart from one that a signal made, where the script takes signals."""
    assert run(attempts, text).crash.unprompted is unprompted


def test_missing_script_is_an_ordinary_error(attempts: Attempts) -> None:
    """A script that was deleted before the attempt began is reported."""
    outcome = attempts.run(attempts.directory / "gone.py")
    assert outcome.crash.exception == "FileNotFoundError"


SLOW = """
import pathlib, time
pathlib.Path("here").touch()
time.sleep(60)
"""


def test_sigterm_outside_of_fit_ends_at_once_with_75(attempts: Attempts) -> None:
    """Nothing would be lost: it says where the next run goes on, which may have snapshots
    of earlier attempts; SIGINT is not for us; SIGUSR1 writes the stacks."""
    process, paths = attempts.start(attempts.script(SLOW))
    wait_for(attempts.directory / "here")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGUSR1)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    outcome = AttemptOutcome(process.returncode, out, err, paths)
    assert outcome.code == 75
    assert outcome.of(RecordKind.DRAINED) == [{"step": None, "snapshot": None}]
    sentence = outcome.of(RecordKind.NOTICE)[0]["sentence"]
    assert "goes on from the newest snapshot" in sentence
    assert "train.py" in paths.fault.read_text()


def test_fatal_signal_leaves_the_stacks(attempts: Attempts) -> None:
    """An abort in native code leaves Python's stacks in the fault log."""
    outcome = run(attempts, "import os\ndef native():\n    os.abort()\nnative()")
    assert outcome.code == -signal.SIGABRT
    assert "native" in outcome.paths.fault.read_text()


def test_heartbeat_goes_on_while_the_script_waits(attempts: Attempts) -> None:
    """The page's heartbeat moves and tells the resident memory."""
    process, paths = attempts.start(attempts.script(SLOW))
    wait_for(attempts.directory / "here")
    first = read_page(paths.page)
    deadline = time.monotonic() + 30
    while (
        (page := read_page(paths.page)) is None
        or first is None
        or (page.heartbeat_ns == first.heartbeat_ns)
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert page.pid == process.pid
    assert page.host_rss_bytes is not None
    assert page.host_rss_bytes > 2**20


def test_no_directive_is_told_in_a_sentence(tmp_path: Path) -> None:
    """Without a directive that can be read there is one sentence and exit code 78."""
    outcome = subprocess.run(
        [sys.executable, str(LAUNCH), str(tmp_path / "none.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert outcome.returncode == 78
    assert outcome.stderr == "trainwarden: no directive that could be read\n"


STILL_WRITING = """
import time
from supervisor.wire.event_file import EventReader
from trainers.process import attempt_reporting as attempt

ours = attempt.current()
events = EventReader(ours.paths.events)

def until_told():
    while not any("is being written" in str(one.fields) for one in events.poll()):
        time.sleep(0.01)

ours.wait_for_saver = until_told
"""


def test_who_waits_at_the_end_says_for_what(attempts: Attempts) -> None:
    """A script that is over, and a process that is not: its last snapshot takes long."""
    outcome = run(attempts, STILL_WRITING)
    assert outcome.code == 0, outcome.err
    (told,) = outcome.of(RecordKind.NOTICE)
    assert told["sentence"].startswith("ending: the script is over")
    assert outcome.page.phase == Phase.FINISHED
