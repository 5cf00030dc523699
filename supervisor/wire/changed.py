"""Modules that changed while a run went on: the words for what an attempt does then."""

import enum


class Changed(enum.StrEnum):
    """What to do about a module of the script's own that changed since it was kept."""

    AS_KEPT = "as_kept"
    """Import it as it was: nobody is there to ask."""
    AS_IT_IS = "as_it_is"
    """Take it up: a person said so, or nothing was saved that it could contradict."""
    REFUSED = "refused"
    """End before training, with a sentence: a person is there, and has to decide."""
