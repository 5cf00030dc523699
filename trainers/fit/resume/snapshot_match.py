"""The match between the snapshot of the middle of a ``fit`` and the call that begins."""

from collections.abc import Mapping
from typing import Any

from supervisor.wire.reasons import RefusalReason
from trainers.data import data_fingerprint
from trainers.process.attempt_reporting import Attempt
from trainers.process.hooks import framework_setup
from trainers.process.script import unrepeatable_draws
from trainers.snapshots import resume_proof
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.run_progress import script_hash

OTHER_TRY = "the snapshot belongs to a later try of this fit with another batch"
OTHER_DATA = (
    "the training data are not those of the snapshot, so the run does not end as it"
    " would have"
)
OTHER_SEED = (
    "{} sets another seed than the attempt that took the snapshot did, so what is drawn"
    " from it is not the same"
)
OTHER_COMPUTE = (
    "steps are not computed as they were up to the snapshot ({}), so the run does not end"
    " as it would have"
)


def belongs(
    taken: Snapshot,
    local: dict[str, Any],
    *,
    attempt: Attempt,
    batch: int | None,
) -> bool:
    """Whether to go on from ``taken``, whose state of the call is ``local``.

    A script that tries several batches makes several calls under one number. Another
    batch in a changed script is refused, and ends the process. A batch that is not known
    before it is drawn is no other one.
    """
    if batch is None or local["batch"] in (None, batch):
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
    local: dict[str, Any],
    now: data_fingerprint.Fingerprint,
) -> str | None:
    """Why bits cannot be promised where other data than those of the snapshot are taken
    up; where a person has to decide, they are refused, which ends the process."""
    changed = data_fingerprint.difference(local.get("data") or {}, now)
    if changed is None:
        return None
    sentence = f"the training data are not those of the snapshot: {changed}"
    if not attempt.directive.accept_changes:
        framework_setup.refuse(
            attempt,
            RefusalReason.DATA_CHANGED,
            f"{sentence}; --accept-changes goes on with them, --fresh begins anew",
        )
    attempt.notice(f"{sentence}; the run goes on from there with what there is")
    return OTHER_DATA


def check_seeds(taken: Snapshot | None) -> str | None:
    """Why bits cannot be promised where the script has set other seeds on its way to this
    ``fit``; None: the same, or nothing is known of those before."""
    before = {} if taken is None else taken.manifest.state
    place = unrepeatable_draws.other_seed(before.get(unrepeatable_draws.SEEDS_SET, []))
    return None if place is None else OTHER_SEED.format(place)


def check_compute(
    attempt: Attempt, state: Mapping[str, Any], *, own_loop: bool = False
) -> str | None:
    """Why bits cannot be promised where steps are computed in another way than before the
    snapshot with ``state``; None: they are not, or the snapshot does not tell.

    ``own_loop``: the steps are those of a loop of the script's own, of which the spec
    says no more than the precision.
    """
    now, was = (
        resume_proof.compute_of(attempt.directive),
        state.get(resume_proof.COMPUTE),
    )
    if was is None:
        return None
    changed = [
        f"{name} {_in_words(was.get(name))} → {_in_words(value)}"
        for name, value in now.items()
        if was.get(name) != value and (name == "precision" or not own_loop)
    ]
    return OTHER_COMPUTE.format(", ".join(changed)) if changed else None


def _in_words(value: str | bool | None) -> str:  # noqa: FBT001  # of JSON
    if isinstance(value, bool):
        return "on" if value else "off"
    return "as in the script" if value is None else value
