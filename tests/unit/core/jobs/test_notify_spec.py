"""Who is told of a run: the table ``[notify]`` of a spec and of the daemon's configuration."""

import pytest

from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.notification import NotificationKind
from supervisor.core.jobs.spec import SpecError, build_spec, check_for_daemon

FILE = {"addresses": "/home/me/notify"}


def test_nobody_unless_named() -> None:
    """Addresses, a command, or both; and something to tell them."""
    told = [
        build_spec({"script": "a", "notify": notify}).notify.wanted
        for notify in ({}, FILE, {"command": ["tell"]}, {**FILE, "on": []})
    ]
    assert told == [False, True, True, False]


def test_of_all_unless_chosen() -> None:
    """Each kind by its name; another is a problem that names them all."""
    assert build_spec({"script": "a"}).notify.on == tuple(NotificationKind)
    some = build_spec({"script": "a", "notify": {"on": ["gave_up"]}})
    assert some.notify.on == (NotificationKind.GAVE_UP,)
    with pytest.raises(SpecError, match="'finished', 'gave_up', 'first_oom' or"):
        build_spec({"script": "a", "notify": {"on": ["ended"]}})


def test_the_daemon_has_its_own() -> None:
    """It would have to read a file of the job's user, and run a command of theirs."""
    assert build_config('[notify]\naddresses = "/etc/notify"').notify.wanted
    check_for_daemon(build_spec({"script": "a", "notify": {"on": ["gave_up"]}}))
    with pytest.raises(SpecError, match="its own configuration"):
        check_for_daemon(build_spec({"script": "a", "notify": FILE}))
