"""Reasons on the wire: those of today, of the version before, of tomorrow, and nonsense."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.host.telemetry.attempt_news import learned
from supervisor.host.telemetry.attempt_view import AttemptView, fold
from supervisor.wire.event_file import Record as EventRecord
from supervisor.wire.event_file import RecordKind, encode, parse_line
from supervisor.wire.reasons import KillReason, RefusalReason, SizeSource

PATH = "/home/u/proj-1.2/part.py, which the script imports, was changed since the run began"


def written(kind: str, **fields: Any) -> EventRecord:
    """A record as it comes out of the file."""
    record = parse_line(encode(EventRecord(kind, 1, fields)))
    assert record is not None
    return record


def refused(**fields: Any) -> tuple[RefusalReason, Cause]:
    """What such a record of a refusal is taken for."""
    view = fold(AttemptView(), [written(RecordKind.REFUSED, **fields)])
    assert view.refused is not None
    assert view.refused.sentence == fields.get("sentence", "")
    found = diagnose(Evidence(exit=None, refused=view.refused))
    return view.refused.reason, found.cause


def measured(**fields: Any) -> bool:
    """Whether the size in such a record is settled."""
    news = learned(written(RecordKind.MICROBATCH, batch=8, slices=2, size=4, **fields))
    assert news is not None
    return news.measured


@pytest.mark.parametrize("reason", RefusalReason)
def test_a_reason_comes_through_the_file(reason: RefusalReason) -> None:
    """Whatever stands beside it."""
    for sentence in ("", PATH, "keras 9.1 is not supported (exact resume leans on its"):
        assert refused(reason=reason, sentence=sentence)[0] is reason


@pytest.mark.parametrize("word", ["of_tomorrow", "", None, 7, [1], {"a": 1}, True, 1e9])
def test_a_word_that_nobody_knows_is_other(word: Any) -> None:
    """Of a newer version, or a file that somebody wrote; never a crash, and no guess."""
    memory = "a batch of 8 samples does not fit into memory and is not sliced, as it"
    found = refused(reason=word, sentence=memory)
    assert found == (RefusalReason.OTHER, Cause.USER_ERROR)
    assert not measured(source=word, planned="measured at 5 sizes")
    for kind in (RefusalReason, KillReason, SizeSource):
        assert kind.read(word) is kind("other")


@given(st.recursive(st.none() | st.text(), st.lists, max_leaves=4))
def test_any_value_is_read(value: Any) -> None:
    """As one of the words."""
    assert RefusalReason.read(json.loads(json.dumps(value))) in RefusalReason


@pytest.mark.parametrize(
    ("sentence", "cause"),
    [
        (PATH, Cause.USER_ERROR),
        ("the snapshots cannot be used: [Errno 13]: '/data/v2.0/s'", Cause.USER_ERROR),
        (
            "the model is not that of the snapshot: 2.0 is not supported",
            Cause.USER_ERROR,
        ),
        (f"{PATH}: keras 9 is not supported", Cause.USER_ERROR),
        (
            (
                "keras 3.99 is not supported (exact resume leans on its internals): 3.15.x is"
                " needed"
            ),
            Cause.VERSION_MISMATCH,
        ),
        ("the version of tensorflow cannot be told", Cause.VERSION_MISMATCH),
        (
            (
                "a batch of 512 samples does not fit into memory and is not sliced, as Own has a"
                " train_step of its own; take a smaller batch in the script"
            ),
            Cause.DEVICE_OOM,
        ),
        ("", Cause.USER_ERROR),
    ],
)
def test_a_refusal_of_the_version_before_is_known_by_its_opening(
    sentence: str, cause: Cause
) -> None:
    """It has no reason: an attempt that an older supervisor started writes it. Paths and
    versions further on decide nothing."""
    assert refused(sentence=sentence)[1] is cause


def test_a_size_of_the_version_before_is_known_by_its_whole_text() -> None:
    """What it has measured need not be measured again after an upgrade."""
    assert measured(planned="measured at 5 sizes")
    for text in (
        "being measured",
        "as planned",
        "measured at /2 sizes",
        "measured",
        "",
    ):
        assert not measured(planned=text)
    assert not measured()
    assert not measured(planned=["measured at 5 sizes"])


@pytest.mark.parametrize("source", SizeSource)
def test_a_measured_size_is_told_by_its_source(source: SizeSource) -> None:
    """Its sentence may say what it likes."""
    for text in ("measured at 5 sizes", "gemessen", ""):
        assert measured(source=source, planned=text) is (source is SizeSource.MEASURED)
