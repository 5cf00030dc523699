"""What a refusal says of the end: by its reason, whatever its sentence holds."""

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import ADVICE
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.wire.reasons import RefusalReason
from tests.support.evidence import ours, refusal

CAUSES = {
    RefusalReason.VERSIONS: Cause.VERSION_MISMATCH,
    RefusalReason.INTERNALS: Cause.VERSION_MISMATCH,
    RefusalReason.MEMORY: Cause.DEVICE_OOM,
    RefusalReason.NO_ROOM: Cause.DISK_FULL,
    RefusalReason.DEVICE_GONE: Cause.UNKNOWN,
}


@pytest.mark.parametrize("reason", RefusalReason)
def test_each_reason_has_its_cause(reason: RefusalReason) -> None:
    """Most ask a person to decide; what no person did is not blamed on one."""
    found = diagnose(Evidence(exit=ours(78), refused=refusal("a sentence", reason)))
    assert found.cause is CAUSES.get(reason, Cause.USER_ERROR)
    (said,) = found.because
    assert (said.text, said.signature, said.code) == ("a sentence", "refused", reason)
    assert found.advice != ADVICE[Cause.UNKNOWN]


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (
            RefusalReason.MODULE_CHANGED,
            (
                "/home/u/proj-1.2/part.py, which the script imports, was changed since the run"
                " began, so the run would not end as it began"
            ),
        ),
        (
            RefusalReason.SNAPSHOTS_UNUSABLE,
            "the snapshots cannot be used: [Errno 13] Permission denied: '/data/v2.0/s'",
        ),
        (
            RefusalReason.DATA_CHANGED,
            "the training data are not those of the snapshot: 512.0 bytes of version 2",
        ),
        (
            RefusalReason.MODEL_CHANGED,
            "the model is not that of the snapshot: 'does not fit into memory' is gone",
        ),
    ],
)
def test_digits_and_words_in_a_sentence_decide_nothing(
    reason: RefusalReason, sentence: str
) -> None:
    """A path with a version in it is a path."""
    refused = Evidence(exit=ours(78), refused=refusal(sentence, reason))
    assert diagnose(refused).cause is Cause.USER_ERROR


@pytest.mark.parametrize(
    "reason",
    [
        RefusalReason.BATCH_CHANGED,
        RefusalReason.MODULE_CHANGED,
        RefusalReason.DATA_CHANGED,
        RefusalReason.MODEL_CHANGED,
        RefusalReason.STATE_CHANGED,
    ],
)
def test_nobody_is_sent_to_a_traceback_that_there_is_not(reason: RefusalReason) -> None:
    """The script raised nothing: what can be done is said instead."""
    advice = diagnose(Evidence(exit=ours(78), refused=refusal("a", reason))).advice
    assert "raceback" not in advice
    assert "The snapshots are kept" in advice
    assert "--fresh" in advice
