"""Who is told of a run: the table ``[notify]`` of a spec and of the daemon's configuration."""

from typing import Any

import pytest

from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.notification import NotificationKind
from supervisor.core.jobs.spec import SpecError, build_spec, check_for_daemon

FILE: dict[str, Any] = {"addresses": "/home/me/notify"}
TABLES: tuple[dict[str, Any], ...] = (
    {},
    FILE,
    {"command": ["/tell"]},
    {**FILE, "on": []},
)


def test_nobody_unless_named() -> None:
    """Addresses, a command, or both; and something to tell them."""
    told = [
        build_spec({"script": "a", "notify": notify}).notify.wanted for notify in TABLES
    ]
    assert told == [False, True, True, False]


def test_of_all_unless_chosen() -> None:
    """Each kind by its name; another is a problem that names them all."""
    assert build_spec({"script": "a"}).notify.on == tuple(NotificationKind)
    some = build_spec({"script": "a", "notify": {"on": ["gave_up"]}})
    assert some.notify.on == (NotificationKind.GAVE_UP,)
    with pytest.raises(
        SpecError, match="'finished', 'gave_up', 'first_oom', 'forecast' or"
    ):
        build_spec({"script": "a", "notify": {"on": ["ended"]}})


def test_each_once() -> None:
    """However often it is named."""
    twice = {"on": ["gave_up", "finished", "gave_up"]}
    assert build_spec({"script": "a", "notify": twice}).notify.on == (
        NotificationKind.GAVE_UP,
        NotificationKind.FINISHED,
    )


def test_an_address_in_the_wrong_place_is_not_quoted() -> None:
    """It holds a secret; a path that is none is quoted, without which nobody finds it."""
    for bad, quoted in (("json://u:secret@h", False), ("mine", True), ("/a\0b", True)):
        with pytest.raises(SpecError) as refused:
            build_spec({"script": "a", "notify": {"addresses": bad}})
        assert (repr(bad) in str(refused.value)) is quoted
        assert "secret" not in str(refused.value)


def test_a_command_is_found_from_anywhere() -> None:
    """The run has a directory of its own."""
    with pytest.raises(SpecError, match="absolute path of a program"):
        build_spec({"script": "a", "notify": {"command": ["./tell"]}})


def test_the_daemon_has_its_own() -> None:
    """It would have to read a file of the job's user, and run a command of theirs."""
    assert build_config('[notify]\naddresses = "/etc/notify"').notify.wanted
    check_for_daemon(build_spec({"script": "a", "notify": {"on": ["gave_up"]}}))
    with pytest.raises(SpecError, match="its own configuration"):
        check_for_daemon(build_spec({"script": "a", "notify": FILE}))


def test_a_daemon_serves_no_metrics_by_a_spec() -> None:
    """No port would open, and nobody be told: it says so before a job is taken."""
    check_for_daemon(build_spec({"script": "a", "metrics": {"listen": "off"}}))
    with pytest.raises(
        SpecError, match=r"metrics\.listen: only .* its own configuration"
    ):
        check_for_daemon(build_spec({"script": "a", "metrics": {"listen": "[::1]:9"}}))
