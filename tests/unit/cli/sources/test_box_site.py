"""What the page of a job says."""

import json
from pathlib import Path

from supervisor.cli.sources.box_site import BoxSite
from supervisor.cli.sources.box_source import BoxSource
from tests.support.looked_at import finished_in_two


def test_the_name_of_a_job_stays_as_it_is(tmp_path: Path) -> None:
    """A state is told in words; a name is to be typed."""
    finished_in_two(tmp_path, "two_digits")
    site = BoxSite(source=lambda: BoxSource(client=None, where=tmp_path))
    shown = json.loads(site("/api/jobs/two_digits").body)
    assert shown["stage"] == "two_digits: finished, attempt 2."
