"""A script, or what it imports, is edited while it runs: the run ends as it began."""

import os
import shutil
import signal
import time
from collections.abc import Callable

import pytest

from tests.support.command import PATIENCE, Trainwarden

SCRIPT = """
import inspect, pathlib, time

def said():
    return "as it began"

print(said() if "began" in inspect.getsource(said) else "another source", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""


@pytest.mark.parametrize("gone", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_restart_goes_on_with_what_began(
    trainwarden: Trainwarden, *, gone: bool
) -> None:
    """Edited or removed, it is run as it was, and that is told. Who starts the run
    again is asked, and then gets the new one."""
    script = trainwarden.script(SCRIPT)
    process = trainwarden.start("run", script)
    first = trainwarden.until(lambda status: status["pid"])
    wait_for(trainwarden, "as it began\n")
    script.write_text("print('as it is now', flush=True)\n")
    if gone:
        script.unlink()
    os.kill(first["pid"], signal.SIGKILL)
    trainwarden.until(lambda status: status["pid"] and status["attempt"] == 2)
    wait_for(trainwarden, "as it began\n")
    (trainwarden.directory / "go").touch()
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    assert "was changed after the run began" in output
    if not gone:
        again = trainwarden("run", script)
        assert again.returncode == 0, again.stderr
        assert trainwarden("logs", "train").stdout == "as it is now\n"


IMPORTING = """
import inspect, pathlib, time
import parts.deep
from parts import beside

for said in (parts.deep.said, beside.said):
    print(said(), "began" in inspect.getsource(said), flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""
MODULE = """
def said():
    return "as it {}"
"""


@pytest.mark.parametrize("gone", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_it_imports_is_kept_as_well(
    trainwarden: Trainwarden, *, gone: bool
) -> None:
    """A package and a module in it, edited or removed. Who starts the run again before
    anything was saved gets what is there."""
    package = trainwarden.directory / "parts"
    package.mkdir()
    (package / "__init__.py").touch()
    modules = [package / "deep.py", package / "beside.py"]
    for module in modules:
        module.write_text(MODULE.format("began"))
    script = trainwarden.script(IMPORTING)
    process = trainwarden.start("run", script)
    first = trainwarden.until(lambda status: status["pid"])
    before = "as it began True\n" * 2
    wait_for(trainwarden, before)
    for module in modules:
        module.write_text(MODULE.format("is now"))
    if gone:
        shutil.rmtree(package)
    os.kill(first["pid"], signal.SIGKILL)
    trainwarden.until(lambda status: status["pid"] and status["attempt"] == 2)
    wait_for(trainwarden, before)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE)
    assert output.count("was changed after the run began") >= 2, output
    (trainwarden.directory / "go").touch()
    if not gone:
        again = trainwarden("run", script)
        assert again.returncode == 0, again.stderr
        assert "is taken up as it is now" in again.stderr
        assert trainwarden("logs", "train").stdout == "as it is now False\n" * 2


KERAS = """
import keras, numpy as np
from part import WIDTH

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(WIDTH)])
model.compile("sgd", "mse")
x = np.zeros((64, 4), "float32")
model.fit(x, np.zeros((64, WIDTH)), batch_size=4, epochs=100_000, verbose=0)
"""


@pytest.mark.slow
def test_a_person_is_asked_about_a_module_that_was_changed(
    trainwarden: Trainwarden,
) -> None:
    """Whatever the path holds: a version in it is no version of the framework."""
    project = trainwarden.directory / "proj-1.2"
    project.mkdir()
    module = project / "part.py"
    module.write_text("WIDTH = 2\n")
    script = trainwarden.script(KERAS, "proj-1.2/train.py")
    started = ("run", "--snapshot-every", "20 steps", script)
    process = trainwarden.start(*started)
    trainwarden.until(lambda status: status["snapshot"])
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    module.write_text("WIDTH = 2  # edited\n")
    again = trainwarden(*started)
    assert again.returncode == 1, again.stderr
    (incident,) = trainwarden.json("incidents")
    (because,) = incident["because"]
    assert f"{module}, which the script imports, was changed" in because["text"]
    assert (because["signature"], because["code"]) == ("refused", "module_changed")
    assert incident["cause"] == "user_error"
    told = trainwarden("explain", str(incident["id"])).stdout
    assert "a module that the script imports was changed" in told
    process = trainwarden.start(started[0], "--accept-changes", *started[1:])
    taken_up = trainwarden.until(lambda status: status["promise"])
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE)
    assert "not promised: " + taken_up["promise"] in output
    assert f"{module}, which the script imports, was changed in" in taken_up["promise"]
    kept = trainwarden.status()
    assert kept is not None
    assert kept["promise"] == taken_up["promise"]


WITHDRAWING = """
import pathlib, time
from trainers.process.attempt_reporting import current

def wait_for(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.05)

print("waits", flush=True)
wait_for("supervisor-stopped")
if not pathlib.Path("withdrawn").exists():
    current().withdraw("of what is not told again")
    pathlib.Path("withdrawn").touch()
wait_for("go")
"""


def test_a_promise_that_ended_while_nobody_heard_stays_ended(
    trainwarden: Trainwarden,
) -> None:
    """The supervisor is stopped, and killed, before it reads it: the next one does."""
    script = trainwarden.script(WITHDRAWING)
    process = trainwarden.start("run", script)
    trainwarden.until(lambda status: status["pid"])
    wait_for(trainwarden, "waits\n")
    process.send_signal(signal.SIGSTOP)
    (trainwarden.directory / "supervisor-stopped").touch()
    wait_until((trainwarden.directory / "withdrawn").exists)
    process.kill()
    process.communicate(timeout=PATIENCE)
    (trainwarden.directory / "go").touch()
    again = trainwarden("run", script)
    assert again.returncode == 0, again.stderr
    kept = trainwarden.status()
    assert kept is not None
    assert kept["promise"] == "of what is not told again"


def wait_until(condition: Callable[[], bool]) -> None:
    """Until that holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def wait_for(trainwarden: Trainwarden, text: str) -> None:
    """Until the newest attempt has printed this, and nothing else. Read in here: a command
    each time would take the processor from what is waited for."""
    wait_until(lambda: newest_log(trainwarden) == text)


def newest_log(trainwarden: Trainwarden) -> str:
    """What the newest attempt has printed; nothing before there is one."""
    found = max(trainwarden.state.rglob("output.log"), default=None)
    return "" if found is None else found.read_text()
