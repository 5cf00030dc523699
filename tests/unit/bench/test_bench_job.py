"""The jobs of ``make bench-restart``: a real loop, and a script that is no Keras."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.bench.recovery.bench_job import BenchJob, NothingCameError
from tests.bench.recovery.contestants import LOOP, Contestant
from tests.bench.recovery.paired_table import RestartRow
from tests.bench.restart import chosen, measured, one_round

SAVES_EACH_FOURTH = """
import os, pathlib, sys, time
told = pathlib.Path(sys.argv[2])
saved, fault = told.with_name("at"), told.with_name("fault")
step = int(saved.read_text()) if saved.exists() else 0
while True:
    step += 1
    with told.open("a") as out:
        out.write(f"{os.getpid()} {step} {time.monotonic()}\\n")
    if step % 4 == 0:
        saved.with_name("new").write_text(str(step))
        saved.with_name("new").rename(saved)
    if fault.exists():
        with told.open("a") as out:
            out.write(f"{os.getpid()} {step} {time.monotonic()} {fault.read_text()}\\n")
        fault.unlink()
        step -= step % 4
    time.sleep(0.01)
"""


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[BenchJob]:
    """A shell loop around that script."""
    script = tmp_path / "script.py"
    script.write_text(SAVES_EACH_FOURTH)
    monkeypatch.setattr("tests.bench.recovery.contestants.TRIAL", script)
    job = BenchJob(tmp_path / "job", Contestant("loop"), "small", patience=240.0)
    yield job
    job.stop()


@pytest.mark.parametrize("number", range(2))
def test_a_round_of_a_loop(loop: BenchJob, number: int) -> None:
    """Killed after so many steps, it does those after the saved one again; nothing is left."""
    row = RestartRow("loop")
    one_round(loop, row, number)
    assert row.seconds[number] > 0
    assert 0 <= row.again[0] <= 4
    assert row.phases == []
    pids = {one.pid for one in loop.told()}
    assert len(pids) == 2
    with pytest.raises(ProcessLookupError):
        loop.kill()


def test_a_fault_in_the_process(loop: BenchJob) -> None:
    """The script commits it and tells when; its process goes on."""
    loop.start()
    loop.until_trained(5)
    fault = loop.commit("nan")
    assert fault.killed is None
    assert 0 <= loop.until_new_step(fault).again <= 3
    assert len({one.pid for one in loop.told()}) == 1


def test_one_that_trains_no_more_is_not_killed(loop: BenchJob) -> None:
    """Its number may be another's by then."""
    loop.start()
    loop.until_trained(1)
    loop.stop()
    with pytest.raises(ProcessLookupError):
        loop.kill()


def test_who_fails_says_its_last_words_and_is_measured_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are."""
    script = tmp_path / "script.py"
    script.write_text(SAVES_EACH_FOURTH)
    monkeypatch.setattr("tests.bench.recovery.contestants.TRIAL", script)
    fails = ("sh", "-c", "echo no such launcher; echo ====; exit 3")
    two = [Contestant("fails", fails), Contestant("loop", LOOP)]
    rows = measured(tmp_path / "jobs", "small", two, kills=2, patience=240.0)
    assert rows[0].why_not == "it ended, 3: no such launcher"
    assert rows[0].seconds == {}
    assert [*rows[1].seconds] == [0, 1]


def test_what_does_not_come_in_time(tmp_path: Path) -> None:
    """A launcher that runs and trains nothing."""
    waits = (sys.executable, "-c", "import time; time.sleep(600)")
    job = BenchJob(tmp_path / "job", Contestant("waits", waits), "small", patience=0.1)
    try:
        job.start()
        with pytest.raises(
            NothingCameError, match="did not come in 0 s: it said nothing"
        ):
            job.until_trained(1)
    finally:
        job.stop()


def test_contestants_are_chosen_by_parts_of_their_names() -> None:
    """All, where none is named."""
    assert [one.name for one in chosen("torchrun,cold")] == [
        "torchrun, 10 steps",
        "ours, cold",
    ]
    assert len(chosen(None)) == 10
