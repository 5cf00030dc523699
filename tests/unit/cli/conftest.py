"""The daemon of the box, for commands that name no directory."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.core.jobs.config import build_config
from supervisor.daemon.composition import composed
from supervisor.daemon.daemon import Daemon
from supervisor.host.service.user_name import user_name
from supervisor.wire.messages.directive import Directive
from tests.support.daemon_commands import GPUS, ONE_AT_A_TIME
from tests.support.quick_attempts import Fate, QuickHouse, QuickLauncher


def fate(directive: Directive) -> Fate:
    """Some jobs go on until somebody ends them."""
    return Fate(looks=10**9 if directive.job.startswith("endless") else 1)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory that a command takes by itself, empty so far."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "trainwarden"


@pytest.fixture
def daemon(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Daemon]:
    """The daemon of the box; its attempts are no processes."""
    del mine
    state = tmp_path / "state"
    config = build_config(f'state_dir = "{state}"\n[gpus]\nuse = {list(GPUS)}\n')
    launcher = QuickLauncher(fate=fate)
    launcher_factory = QuickHouse(user=user_name(os.geteuid()), launcher=launcher)
    monkeypatch.setenv("TRAINWARDEN_SOCKET", str(state / "control.sock"))
    over = threading.Event()
    with composed(config, launcher_factory=launcher_factory) as made:

        def turns() -> None:
            while not over.is_set():
                with ONE_AT_A_TIME:
                    made.turn()
                time.sleep(0.01)

        thread = threading.Thread(target=turns)
        thread.start()
        try:
            yield made
        finally:
            over.set()
            thread.join()
