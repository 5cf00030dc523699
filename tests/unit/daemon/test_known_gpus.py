"""GPUs that a daemon has seen, and the next one does not: a real probe, a real ledger."""

import contextlib
import os
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from supervisor.core.jobs.authorization import Caller
from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.spec import build_spec
from supervisor.daemon.composition import composed
from supervisor.daemon.daemon import Daemon
from supervisor.daemon.known_gpus import SETTING, KnownGpus
from supervisor.host.gpu.gpu_monitor import GpuView
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.service.user_name import user_name
from supervisor.wire.paths import StatePaths
from tests.support.boxes import until
from tests.support.fake_nvml import FakeNvml
from tests.support.quick_attempts import Fate, QuickHouse, QuickLauncher

FIRST, SECOND = "GPU-00000000-fake", "GPU-00000001-fake"


@pytest.fixture(autouse=True)
def driver(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon's own probe asks the double."""
    for name, value in nvml.environment.items():
        monkeypatch.setenv(name, value)


@contextlib.contextmanager
def daemon_in(state: Path) -> Generator[Daemon]:
    """A new daemon, which the driver has told of its GPUs."""
    launcher = QuickLauncher(fate=lambda _: Fate(looks=1))
    house = QuickHouse(user=user_name(os.geteuid()), launcher=launcher)
    with composed(
        build_config(f'state_dir = "{state}"\n'), launcher_factory=house
    ) as daemon:

        def sampled() -> bool:
            daemon.turn()
            return daemon.observer.gpus().sample is not None

        until(sampled)
        daemon.show_at = 0.0
        daemon.turn()
        yield daemon


def lost(state: Path) -> Mapping[str, bool]:
    """What a new daemon tells of each GPU, by UUID."""
    with daemon_in(state) as daemon:
        return {gpu.uuid: gpu.lost for gpu in daemon.observer.readings()}


@contextlib.contextmanager
def book(state: Path) -> Generator[JobBook]:
    """That of the daemon which has ended."""
    with contextlib.closing(Ledger(StatePaths(state).ledger)) as ledger:
        yield JobBook(ledger)


def test_one_that_is_gone_is_told_by_the_next_daemon(
    nvml: FakeNvml, tmp_path: Path
) -> None:
    """And by those after it, with the place that it had, until the machine boots."""
    assert lost(tmp_path) == {FIRST: False, SECOND: False}
    nvml.gpus(1)
    for _ in range(2):
        assert lost(tmp_path) == {FIRST: False, SECOND: True}
    with book(tmp_path) as kept:
        (gone,) = (gpu for gpu in KnownGpus(kept).recall() if gpu.uuid == SECOND)
        assert (gone.index, gone.bus) == (1, "0000:31:00")


def test_one_that_is_gone_is_given_to_no_job(nvml: FakeNvml, tmp_path: Path) -> None:
    """A job that asks for any gets another, and one that asks for all waits."""
    nvml.gpus(2)
    assert lost(tmp_path) == {FIRST: False, SECOND: False}
    nvml.gpus(1)
    with daemon_in(tmp_path) as daemon:
        me = Caller(uid=os.geteuid(), name=user_name(os.geteuid()))
        for name, count in (("all", 2), ("any", 1), ("more", 1)):
            tables = {"script": "/nowhere/t.py", "name": name, "gpu_count": count}
            daemon.api.submit(me, tables, build_spec(tables))
        for _ in range(3):
            daemon.turn()
        lives = {name: entry.life for name, entry in daemon.scheduler.entries.items()}
        assert lives["all"].because == "wants 2 GPUs, 1 are in service"
        assert SECOND not in (*lives["any"].gpus, *lives["more"].gpus)


def test_those_of_another_machine_are_not_lost_here(
    nvml: FakeNvml, tmp_path: Path
) -> None:
    """A state directory may come from elsewhere, and a container may begin anew with
    other GPUs; after a boot one may be missing on purpose."""
    assert lost(tmp_path) == {FIRST: False, SECOND: False}
    with book(tmp_path) as found:
        found.set(SETTING, {**found.setting(SETTING), "boot_id": "another"})
    nvml.gpus(1)
    assert lost(tmp_path) == {FIRST: False}


def test_nothing_is_known_before_the_driver_has_spoken(tmp_path: Path) -> None:
    """Nothing is written down then, nor where nothing has changed."""
    with book(tmp_path) as found:
        known = KnownGpus(found)
        assert known.recall() == ()
        known.see(GpuView())
        assert found.setting(SETTING) is None
