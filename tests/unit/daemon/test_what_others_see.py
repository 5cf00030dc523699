"""What members see of each other's jobs: that they run, and why they failed; no quotes."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.diagnosis.explain import explain_incident, summarise_incident
from supervisor.core.jobs.authorization import Caller
from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.jobs.spec import build_spec
from supervisor.core.memory.step_budget import StepBudget
from supervisor.core.memory.step_estimate import MemoryPart
from supervisor.daemon.api.routes import answer
from supervisor.daemon.composition import composed
from supervisor.daemon.daemon import Daemon
from supervisor.daemon.managed_job import ManagedJob
from supervisor.host.control.control_server import Request
from supervisor.host.service.user_name import user_name
from tests.support.long_life import WoundClock
from tests.support.quick_attempts import Fate, QuickHouse, QuickLauncher

ME = user_name(os.geteuid())
MEMBERS = frozenset({"trainwarden"})
OWNER = Caller(uid=4242, name=ME, groups=MEMBERS)
OTHER = Caller(uid=4243, name="bob", groups=MEMBERS)
ROOT = Caller(uid=0, name="root")


def asked(daemon: Daemon, path: str, *, by: Caller) -> Any:
    """What somebody gets."""
    found = answer(daemon.api, Request(caller=by, method="GET", path=path))
    assert found.status == 200
    return found.body


@pytest.fixture
def daemon(tmp_path: Path) -> Any:
    """One in which a job of ours gave up."""
    clock = WoundClock()
    launcher = QuickLauncher(fate=lambda _: Fate(looks=1, finishes=False), clock=clock)
    config = build_config(f'state_dir = "{tmp_path / "state"}"\n')
    house = QuickHouse(user=ME, launcher=launcher, place=str(tmp_path / "users" / ME))
    with composed(config, clock=clock, launcher_factory=house) as found:
        tables = {"script": "/nowhere/train.py", "name": "mine"}
        found.api.submit(ROOT, tables, build_spec(tables), owner=ME)
        while not asked(found, "/v1/incidents", by=ROOT):
            found.turn()
            clock.wind(found.scheduler.wait_seconds(1.0) + 0.001)
        yield found


def test_incidents_of_others(daemon: Daemon) -> None:
    """The cause, the time and the job; what is quoted is the owner's and the admins'."""
    whole, mine, seen = (
        asked(daemon, "/v1/incidents", by=who)[0] for who in (ROOT, OWNER, OTHER)
    )
    assert whole == mine
    assert whole["because"]
    assert (seen["because"], seen["stacks"], seen["autopsy"]) == ([], "", None)
    assert seen["remedy"]["because"] == ""
    for name in ("id", "job", "attempt", "at", "cause", "failed_step"):
        assert seen[name] == whole[name]
    assert "mine" in summarise_incident(seen)
    text = explain_incident(seen)
    assert "for the owner of mine" in text
    assert whole["because"][0]["text"] not in text


def test_a_name_that_was_another_users(daemon: Daemon) -> None:
    """Whoever has a job of that name now sees no more of the old one's incidents, and
    says of none that it was seen."""
    daemon.api.stop(ROOT, "mine", drain=False)
    daemon.turn()
    daemon.api.forget(ROOT, "mine")
    (seen,) = asked(daemon, "/v1/incidents", by=OTHER)
    assert seen["because"] == []
    path = f"/v1/incidents/{seen['id']}/acknowledge"
    for who, status in ((OTHER, 403), (OWNER, 200)):
        said = answer(daemon.api, Request(caller=who, method="POST", path=path))
        assert said.status == status, said.body


def test_the_message_of_a_job(daemon: Daemon) -> None:
    """It may quote what the script printed."""
    for path in ("/v1/jobs/mine",):
        assert asked(daemon, path, by=OWNER)["message"]
        assert asked(daemon, path, by=ROOT)["message"]
        seen = asked(daemon, path, by=OTHER)
        assert asked(daemon, path, by=OWNER)["last_error"]["text"]
        assert (seen["message"], seen["promise"]) == ("", None)
        assert seen["last_error"] is None
    whole, seen = (asked(daemon, "/v1/status", by=who) for who in (OWNER, OTHER))
    message = asked(daemon, "/v1/jobs/mine", by=OWNER)["message"].encode()
    assert message in whole
    assert message not in seen


def test_what_a_step_of_a_job_needs_and_how_its_standby_stands(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They name the optimizer's class, which may be the script's own, and what an import
    of the script raised."""
    part = MemoryPart(name="optimizer", bytes=8, about="SecretOptimizer")
    budget = StepBudget(
        fit=0,
        batch=8,
        slices=1,
        limit_bytes=9,
        peak_bytes=8,
        parts=(part,),
        largest_batch=None,
    )
    told = ManagedJob.status

    def status(entry: ManagedJob) -> JobStatus:
        return replace(told(entry), step_needs=budget, standby="ValueError: the word")

    monkeypatch.setattr(ManagedJob, "status", status)
    mine, seen = (asked(daemon, "/v1/jobs/mine", by=who) for who in (OWNER, OTHER))
    assert mine["step_needs"]["parts"][0]["about"] == "SecretOptimizer"
    assert mine["standby"] == "ValueError: the word"
    assert seen["step_needs"] is seen["standby"] is None
