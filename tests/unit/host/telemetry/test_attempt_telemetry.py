"""The telemetry of an attempt that told more than one look reads."""

import os
from pathlib import Path

import pytest

from supervisor.host.telemetry import attempt_telemetry
from supervisor.host.telemetry.attempt_telemetry import AttemptView, Telemetry, fold
from supervisor.wire.event_file import Record
from supervisor.wire.paths import AttemptPaths
from tests.support.long_stories import long_story


def test_who_reads_a_long_story_knows_that_there_is_more(tmp_path: Path) -> None:
    """Until the last look what is known is of the past."""
    paths = AttemptPaths(tmp_path)
    telemetry = Telemetry(paths)
    telemetry.poll()
    assert not telemetry.behind
    count = long_story(paths.events)
    seen: list[tuple[bool, bool]] = []
    for _ in range(3):
        telemetry.poll()
        seen.append((telemetry.behind, telemetry.view.in_fit))
    assert seen == [(True, True), (True, True), (False, False)]
    assert telemetry.view.tiers.snapshots == {"memory": count}
    telemetry.close()


def test_a_story_without_end_is_told_by_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody who appends to it, or makes it large, holds up who reads it; how it ended is
    known all the same."""
    monkeypatch.setattr(attempt_telemetry, "END_POLLS", 1)
    paths = AttemptPaths(tmp_path)
    count = long_story(paths.events, polls=4)
    telemetry = Telemetry(paths)
    telemetry.read_rest()
    telemetry.close()
    assert telemetry.view.exit_code == 0
    assert not telemetry.view.in_fit
    assert count // 2 < telemetry.view.tiers.snapshots["memory"] < count


def test_a_hole_is_no_story(tmp_path: Path) -> None:
    """A file that takes no room on disk, but is 64 GiB long."""
    paths = AttemptPaths(tmp_path)
    long_story(paths.events, polls=0)
    os.truncate(paths.events, 64 * 2**30)
    telemetry = Telemetry(paths)
    telemetry.read_rest()
    telemetry.close()
    assert telemetry.view.exit_code == 0


@pytest.mark.parametrize(
    ("logs", "validated"),
    [({"loss": 1.0}, False), ({"val_loss": 1.0}, True), (["val_loss"], False)],
)
def test_an_epoch_tells_whether_it_was_validated(
    logs: object, *, validated: bool
) -> None:
    """By Keras' own names; the file may hold anything."""
    record = Record(kind="epoch_ended", ns=1, fields={"logs": logs})
    assert fold(AttemptView(), [record]).validated is validated
