"""What a daemon does before it is ready."""

import os
import socket
from pathlib import Path

import pytest

from supervisor.core.jobs.authorization import Caller
from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.spec import build_spec
from supervisor.daemon.composition import composed
from supervisor.host.service.user_name import user_name
from tests.support.quick_attempts import Fate, QuickHouse, QuickLauncher


def test_systemd_gives_time_for_each_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut there may be much to read of each: a start that is cut off would
    be cut off the next time, too."""
    me = Caller(uid=os.geteuid(), name=user_name(os.geteuid()))
    launcher = QuickLauncher(fate=lambda _: Fate(looks=1))
    house = QuickHouse(user=me.name, launcher=launcher)
    config = build_config(f'state_dir = "{tmp_path / "state"}"\n')
    with composed(config, launcher_factory=house) as daemon:
        for name in ("one", "two"):
            tables = {"script": "/nowhere/train.py", "name": name}
            daemon.api.submit(me, tables, build_spec(tables))
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(address))
        systemd.settimeout(0.2)
        monkeypatch.setenv("NOTIFY_SOCKET", str(address))
        with composed(config, launcher_factory=house):
            said = [systemd.recv(4096) for _ in range(2)]
            with pytest.raises(TimeoutError):
                systemd.recv(4096)
    assert {one.partition(b"=")[0] for one in said} == {b"EXTEND_TIMEOUT_USEC"}


def test_a_state_directory_that_is_made_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever started it without a configuration learns where the files are."""
    house = QuickHouse(
        user=user_name(os.geteuid()), launcher=QuickLauncher(fate=lambda _: Fate())
    )
    config = build_config(f'state_dir = "{tmp_path / "state"}"\n')
    told = f"state in {tmp_path / 'state'}"
    for new in (True, False):
        with composed(config, launcher_factory=house):
            said = capfd.readouterr().err
        assert told in said
        assert ("made just now; state_dir of the configuration" in said) is new
