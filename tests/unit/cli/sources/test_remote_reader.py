"""``status --remote``: what a store says is shown, whatever it says."""

from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.cli.sources.remote_reader import show_remote
from supervisor.core.jobs.remote.remote_tier import Claim
from supervisor.host.remote.remote_job import RemoteJob
from supervisor.host.remote.remote_store import open_store
from tests.support.remote_tiers import TOKEN, claim_record


@pytest.mark.parametrize("told_at", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_time_that_is_none_is_shown_as_some_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], told_at: float
) -> None:
    """A damaged record of one job hides no other."""
    address = f"file://{tmp_path}"
    for name, told in (("bad", told_at), ("good", 1.0)):
        record = replace(claim_record(), job=name, told_at=told)
        RemoteJob(open_store(address, below=name), name).put_record(
            Claim(1, TOKEN), record
        )
    show_remote(address, None, as_json=False)
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown] == ["bad", "good"]
