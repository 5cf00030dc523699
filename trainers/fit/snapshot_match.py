"""The match between the snapshot of the middle of a ``fit`` and the call that begins."""

from typing import Any

from supervisor.wire.reasons import RefusalReason
from trainers.data import data_fingerprint
from trainers.process import framework_setup
from trainers.process.attempt_reporting import Attempt
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.run_progress import script_hash

OTHER_TRY = "the snapshot belongs to a later try of this fit with another batch"


def belongs(
    taken: Snapshot,
    local: dict[str, Any],
    *,
    attempt: Attempt,
    batch: int | None,
    fingerprint: data_fingerprint.Fingerprint,
) -> bool:
    """Whether to go on from ``taken``, whose state of the call is ``local``.

    A script that tries several batches makes several calls under one number. Another
    batch in a changed script, and other data, are refused, and end the process. A batch
    that is not known before it is drawn is no other one.
    """
    if batch is None or local["batch"] in (None, batch):
        check_data(attempt, local.get("data") or {}, fingerprint)
        return True
    if taken.manifest.state["script"] != script_hash(attempt):
        framework_setup.refuse(
            attempt,
            RefusalReason.BATCH_CHANGED,
            f"the script was changed: its batch is {batch}, that of"
            f" the snapshot {local['batch']}",
        )
    return False


def check_data(
    attempt: Attempt,
    before: data_fingerprint.Fingerprint,
    now: data_fingerprint.Fingerprint,
) -> None:
    """Other data than those of the snapshot are refused, unless that is allowed."""
    changed = data_fingerprint.difference(before, now)
    if changed is None:
        return
    sentence = f"the training data are not those of the snapshot: {changed}"
    if not attempt.directive.accept_changes:
        framework_setup.refuse(
            attempt,
            RefusalReason.DATA_CHANGED,
            f"{sentence}; --accept-changes goes on with them, --fresh begins anew",
        )
    attempt.notice(sentence)
