"""Enums of reasons: of a refusal, of a kill, of the size of a slice; and of what is done
about changed modules.

A reason stands beside a sentence for people. Programs decide by the enum; the sentence is
shown, and never read to learn something from it.
"""

import enum
from typing import Self


class _Reason(enum.StrEnum):
    """One that may have been written by a version that knows more of them."""

    @classmethod
    def read(cls, value: object) -> Self:
        """The member of this value; ``OTHER`` for whatever else a file may hold."""
        try:
            return cls(value if isinstance(value, str) else "")
        except ValueError:
            return cls["OTHER"]


class RefusalReason(_Reason):
    """Why the training side ended before training, with ``EXIT_REFUSED``."""

    VERSIONS = "versions"
    """The framework is of a version that is not supported."""
    INTERNALS = "internals"
    """... of a supported one, and not what that is inside."""
    MEMORY = "memory"
    """The batch does not fit into memory, and cannot be sliced."""
    INEXACT = "inexact"
    """Slices would change the result, which the spec forbids."""
    BATCH_CHANGED = "batch_changed"
    """The script was changed: its batch is not that of the snapshot."""
    MODULE_CHANGED = "module_changed"
    """A module that the script imports was changed, and a person has to decide."""
    DATA_CHANGED = "data_changed"
    """The training data are not those of the snapshot."""
    MODEL_CHANGED = "model_changed"
    """The model is not that of the snapshot."""
    DEVICE_GONE = "device_gone"
    """The framework does not see the GPU that training was on."""
    STATE_CHANGED = "state_changed"
    """The state of a loop of one's own is not that of the snapshot."""
    NOT_ESTIMATED = "not_estimated"
    """What training would need cannot be measured, as was asked."""
    NOT_TRIED = "not_tried"
    """Steps cannot be tried as was asked."""
    SNAPSHOTS_UNUSABLE = "snapshots_unusable"
    """The directory of the snapshots cannot be used."""
    NO_ROOM = "no_room"
    """... for there is no space, or no quota, left."""
    OTHER = "other"
    """Not told, or by a word that this version does not know."""


class KillReason(_Reason):
    """Why SIGKILL is sent to an attempt."""

    STALLED = "stalled"
    """Heartbeats, and no progress."""
    SILENT = "silent"
    """No heartbeat: the interpreter does not run."""
    REFUSED = "refused"
    """Its allocator found no memory again and again, and no step was done."""
    UNKILLABLE = "unkillable"
    """It was killed before, and a process of it hangs in the kernel (D state)."""
    STILL_THERE = "still_there"
    """It was killed before, and has not ended yet."""
    GRACE_OVER = "grace_over"
    """It was asked to save and end, and did not in time."""
    AT_ONCE = "at_once"
    """Somebody wants its end now, at the newest snapshot."""
    OTHER = "other"
    """By a word that this version does not know."""


class SizeSource(_Reason):
    """Where the size of a slice comes from."""

    ASKED = "asked"
    """The directive has it: planned by the supervisor, or measured by an attempt before."""
    HALVED = "halved"
    """Half of the batch, or of what failed: nothing better is known."""
    TRIAL = "trial"
    """It is being measured: another may follow."""
    MEASURED = "measured"
    """The largest that fits, as trials have shown; it stays."""
    OTHER = "other"
    """By a word that this version does not know."""


class Changed(enum.StrEnum):
    """What to do about a module of the script's own that changed since it was kept."""

    AS_KEPT = "as_kept"
    """Import it as it was: nobody is there to ask."""
    AS_IT_IS = "as_it_is"
    """Take it up: a person said so. What was saved was made with another text."""
    NOTHING_SAVED = "nothing_saved"
    """Take it up: a person is there, and nothing was saved that it could contradict."""
    REFUSED = "refused"
    """End before training, with a sentence: a person is there, and has to decide."""
