"""Doubts whether a ``fit`` that came to no end can be made again in its process.

A new process begins with what the script makes; this one has what training made of it
since. So it is taken up here only where all that has changed is in the snapshot, or comes
from its beginning again; else a new process is the way.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import keras

from supervisor.wire.snapshots.manifest import Manifest
from trainers.backends import tf_data
from trainers.backends.selected import backend
from trainers.data.data_source import DataSource
from trainers.fit.fit_position import FitCall
from trainers.process.attempt_reporting import Attempt
from trainers.state import callback_state, encode, variable_state
from trainers.state.callback_state import Unsaved
from trainers.state.hidden.hidden_state import HiddenState

SLACK_BYTES = 2 << 20
SLACK = 1.02
"""Memory is back where it was if no more is in use than before the step, times this, or
this many bytes more; what the data draw ahead may be beside it."""
AHEAD = 4
"""Batches, that in hand among them: as the first step of an epoch begins there is none yet
(three were seen, of Keras' own pipeline of arrays)."""

UNSAVED = "there is no snapshot of this call of fit"
NO_STEP = (
    "there is no snapshot of this call of fit before its first step, which makes the"
    " variables of optimizer and metrics"
)
"""They are made as the step is traced, and a step that fails may have changed some by then:
what they began with, nobody knows."""
SAME_STEP = "the same step failed before in this process"
PROVES = "the resume is being proved"
BEFORE_DATA = "it failed before its data were known"
VALIDATION = "the validation data have a state of their own"
FILES = "the script wrote files after the snapshot"
WRITES = "{} does something when training begins, and the script has written files"
ITERATOR = "what training draws from a Python iterator cannot be put back into it"
NOT_BACK = "{} bytes more are in use than before the step"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedFit:
    """A ``fit`` that came to no end."""

    call: FitCall
    source: DataSource | None
    """None: it failed before."""
    hidden: HiddenState
    in_step: bool
    """The train function raised."""
    stepped: bool
    """It had made a step."""
    in_use: int | None
    """Bytes in use before that step; None: not known."""
    drawn: int
    """Bytes that its data may have drawn since: a batch in hand, and some ahead."""
    proves: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A call of ``fit`` that is made again."""

    hidden: HiddenState
    """With what it began at first."""
    doubt: Callable[[Manifest], str | None]
    """Why not to go back to a snapshot; asked before anything is given back."""

    def without_data(self) -> "Again":
        """The same, once nobody asks any more: what failed must not be kept."""
        return replace(self, doubt=_over)


def _over(_taken: Manifest) -> None:
    """It has gone back."""


def about(
    failed: FailedFit, taken: Manifest, unsaved: Unsaved, attempt: Attempt
) -> str | None:
    """Why not to go back to ``taken`` here, in half a sentence; None: nothing speaks
    against it."""
    model, source = failed.call.model, failed.source
    found = (
        backend.recovery.why_never(model),
        PROVES if failed.proves else None,
        BEFORE_DATA if source is None else source.why_not_begun_anew(),
        _of_validation(failed.call.validation_data),
        unsaved.changed(taken.state["callbacks"]),
        ITERATOR if _has_iterator(taken.state) else None,
        _of_files(failed.call, taken, attempt),
        _of_hidden(failed, taken),
    )
    return next((one for one in found if one is not None), None)


def of_memory(failed: FailedFit) -> str | None:
    """Whether memory is not back to what it was, all references let go; None: it is."""
    before, now = failed.in_use, backend.recovery.memory_in_use()
    if before is None or now is None:
        return None  # asked before: ``why_memory_in_doubt``
    most = max(int(before * SLACK), before + SLACK_BYTES) + failed.drawn
    return None if now <= most else NOT_BACK.format(now - before)


def _of_validation(given: Any) -> str | None:
    if given is None:
        return None
    if tf_data.is_pipeline(given):
        return tf_data.why_not_begun_anew(given)
    plain = isinstance(given, (tuple, list)) and all(
        hasattr(one, "shape") for one in keras.tree.flatten(given)
    )
    return None if plain else VALIDATION


def _of_files(call: FitCall, taken: Manifest, attempt: Attempt) -> str | None:
    now, then = attempt.files.ends(), taken.state.get("files")
    ends = {} if now is None else now["ends"]
    if ends != ({} if then is None else then["ends"]):
        return FILES
    begins = callback_state.begins_anew(call.callbacks) if ends else None
    return None if begins is None else WRITES.format(begins)


def _has_iterator(value: Any) -> bool:
    """Whether a snapshot's JSON tells where an iterator stands: one that has gone on is
    not moved back."""
    if isinstance(value, dict):
        held: dict[str, Any] = value
        own = held.get(encode.KIND) == "iterator"
        return own or any(map(_has_iterator, held.values()))
    return isinstance(value, list) and any(map(_has_iterator, value))


def _of_hidden(failed: FailedFit, taken: Manifest) -> str | None:
    variables, _ = variable_state.storable(failed.call.model)
    places = variable_state.Places(
        [variable for _, variable in variables], failed.hidden.named()
    )
    return failed.hidden.beyond(taken.state, places)
