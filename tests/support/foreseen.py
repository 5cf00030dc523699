"""What tests of memory that is foreseen look at."""

import json
from pathlib import Path
from typing import Any

from supervisor.wire.page import read_page
from tests.support.command import Trainwarden


def result(path: Path) -> Any:
    """What a script wrote at its end."""
    return json.loads(path.read_text())


def planned(trainwarden: Trainwarden, job: str) -> list[dict[str, Any]]:
    """The planned restarts of a job, which are all that befell it but warnings."""
    incidents = trainwarden.json("incidents", job)
    found = [one for one in incidents if one["happened"] == "planned"]
    failures = [one for one in incidents if one["happened"] == "ended"]
    assert failures == []
    return found


def page_rss(trainwarden: Trainwarden, job: str) -> list[int]:
    """Resident memory at the end of each attempt of a job."""
    pages = sorted((trainwarden.state / "jobs" / job).rglob("page"))
    known = [read_page(path) for path in pages]
    return [page.host_rss_bytes or 0 for page in known if page is not None]
