"""The telemetry of an attempt that told more than one look reads."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.core.jobs.accounting.snapshot_stats import (
    tier_statuses,
    totals_from_json,
    totals_to_json,
)
from supervisor.core.jobs.job_status import SliceTrial
from supervisor.core.lifecycle.events import NoticeReceived, ProgressReported, WentOn
from supervisor.host.telemetry import attempt_telemetry
from supervisor.host.telemetry.attempt_news import MOST_OF_RECOVERY, heard
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.host.telemetry.attempt_view import AttemptView, fold
from supervisor.wire.event_file import POLL_LINES, EventWriter, Record, RecordKind
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records.step_needs import StepNeeds
from tests.support.long_stories import long_story

HUGE = "1" + "0" * 400
"""No float can be made of it."""


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


def test_lines_that_are_next_to_nothing_hold_nobody_up(tmp_path: Path) -> None:
    """Of millions of them a look takes some; what is told behind them is heard."""
    paths = AttemptPaths(tmp_path)
    paths.events.write_bytes(b"\n" * (POLL_LINES + 1))
    long_story(paths.events.with_name("more"), polls=0)
    with paths.events.open("ab") as file:
        file.write(paths.events.with_name("more").read_bytes())
    telemetry = Telemetry(paths)
    seen: list[tuple[bool, int | None]] = []
    for _ in range(2):
        telemetry.poll()
        seen.append((telemetry.behind, telemetry.view.exit_code))
    telemetry.close()
    assert seen == [(True, None), (False, 0)]


@pytest.mark.parametrize(
    "line",
    [
        f'{{"kind": "snapshot", "ns": {HUGE}, "tier": "memory"}}',
        f'{{"kind": "snapshot", "ns": 1, "tier": "memory", "seconds": {HUGE}}}',
        f'{{"kind": "snapshot", "ns": 1, "tier": "memory", "bytes": {HUGE}}}',
        f'{{"kind": "snapshot_plan", "ns": 1, "memory_seconds": {HUGE}}}',
        f'{{"kind": "restored", "ns": 1, "step": {HUGE}}}',
    ],
)
def test_a_figure_that_nobody_can_reckon_with(line: str, tmp_path: Path) -> None:
    """The file is another user's: what it says ends no daemon, today or, from the ledger,
    at each of its starts."""
    paths = AttemptPaths(tmp_path)
    paths.events.write_text(f"{line}\n")
    telemetry = Telemetry(paths)
    telemetry.read_rest()
    telemetry.close()
    tiers = totals_from_json(
        json.loads(json.dumps(totals_to_json(telemetry.view.tiers)))
    )
    for one in tier_statuses(tiers, now=5.0).values():
        assert one.age_seconds == pytest.approx(5.0)
        assert one.seconds is None
        assert one.size_bytes is None
    assert telemetry.view.restored_step is None


def test_there_are_two_tiers_whatever_a_record_says(tmp_path: Path) -> None:
    """Names of others would be series of their own, as many as somebody likes."""
    paths = AttemptPaths(tmp_path)
    paths.events.write_text('{"kind": "snapshot", "ns": 1, "tier": "of mine"}\n')
    telemetry = Telemetry(paths)
    telemetry.poll()
    telemetry.close()
    assert telemetry.view.tiers.snapshots == {"durable": 1}


def test_whether_a_batch_can_be_sliced() -> None:
    """The training side says so of each ``fit``; an older one does not, and a file may
    hold anything."""
    for told, known in ((True, True), (False, False), (None, None), ("no", None)):
        fields = {} if told is None else {"sliceable": told}
        view = fold(AttemptView(), [Record("fit_began", 1, fields)])
        assert view.sliceable is known


TRIED = {"batch": 512, "slices": 31, "size": 17, "source": "trial"}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("microbatch", {**TRIED, "source": "measured"}),
        ("microbatch", {"source": "trial", "size": "of mine"}),
        ("fit_ended", {}),
        ("fit_failed", {}),
        ("goes_on", {}),
    ],
)
def test_a_size_is_tried_until_another_word_ends_that(
    kind: str, fields: dict[str, object]
) -> None:
    """It is found, or the call of ``fit`` is over, has failed, or is made again; a batch whose size is
    known only when it is drawn is told in between, as a beginning."""
    drawn = Record("fit_began", 1, {"batch": 512})
    tried = fold(AttemptView(), [Record("microbatch", 1, TRIED), drawn])
    assert tried.slice_trial == SliceTrial(size=17, batch=512)
    after = fold(tried, [Record(kind, 2, fields)])
    assert after.slice_trial is None
    assert after.in_fit is (kind != "fit_ended")


def test_what_was_told_of_the_newest_failed_step_is_kept(tmp_path: Path) -> None:
    """Up to the next step, and not more than some; of an attempt that never went on after
    one, nothing. When that step was made is told as well."""
    paths = AttemptPaths(tmp_path)
    writer = EventWriter(paths.events)
    telemetry = Telemetry(paths)
    writer.append(RecordKind.FIRST_STEP, step=1)
    telemetry.poll()
    assert telemetry.recovery.events == []
    for number, step in ((1, 16), (2, 26)):
        writer.append(RecordKind.GOES_ON, number=number, step=step + 3, log_bytes=0)
        writer.append(RecordKind.RESTORED, step=step - 1)
        writer.append(RecordKind.FIRST_STEP, step=step)
        writer.append(RecordKind.NOTICE, sentence="later")
    telemetry.read_rest()
    went_on, restored, stepped = telemetry.recovery.events
    assert went_on == WentOn(2)
    assert restored == ProgressReported(restored_step=25)
    assert isinstance(stepped, ProgressReported)
    assert stepped.first_step == 26
    assert stepped.at == pytest.approx(time.monotonic(), abs=60.0)
    writer.append(RecordKind.GOES_ON, number=3, step=40, log_bytes=0)
    for _ in range(2 * MOST_OF_RECOVERY):
        writer.append(RecordKind.NOTICE, sentence="more")
    telemetry.read_rest()
    assert len(telemetry.recovery.events) == MOST_OF_RECOVERY
    telemetry.close()


NEEDS = StepNeeds(
    fit=1,
    batch=8,
    slices=1,
    parameters=100,
    trained=100,
    parameter_bytes=400,
    trained_bytes=400,
    largest_bytes=400,
    optimizer_bytes=800,
    optimizer="Adam",
    other_bytes=0,
    limit_bytes=1000,
    backend="tensorflow",
)


def test_the_needs_of_a_step_are_told_with_a_warning() -> None:
    """That no batch fits, once, before the first step; what nobody can reckon with is left
    out."""
    record = Record(kind="step_needs", ns=1, fields=NEEDS.to_json())
    assert fold(AttemptView(), [record]).needs == NEEDS
    (event,) = heard(record)
    assert isinstance(event, NoticeReceived)
    assert "no batch fits" in event.sentence
    made = replace(NEEDS, in_use_bytes=10, peak_bytes=90)
    assert not heard(replace(record, fields=made.to_json()))
    for changes in (
        {"peak_bytes": -1},
        {"slices": 0},
        {"batch": 2**60},
        {"trained": ""},
    ):
        wrong = replace(record, fields={**NEEDS.to_json(), **changes})
        assert fold(AttemptView(), [wrong]).needs is None
        assert not heard(wrong)
