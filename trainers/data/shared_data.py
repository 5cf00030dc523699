"""Data that several calls of ``fit`` share and that no call comes to the end of.

A generator, or a pipeline that repeats a shuffle without end, goes on in the next
``fit`` where the one before left it. How far it was read ahead then is a matter of
timing, also in a run that nothing happens to: so what was drawn is drawn again, and told
is that this need not be the same.
"""

import collections
import itertools
import types
import weakref
from typing import Any

from trainers.backends import tf_data, torch_loaders

AGAIN = (
    "an earlier fit drew from the same {} without coming to its end, and it was read"
    " ahead: where this fit begins in it depends on timing, so after a restart samples may"
    " be repeated or skipped"
)
LOOP = (
    "the loop leaves a tf.data pipeline that repeats a shuffle without end: how often it"
    " was begun by then is not known, so after a restart samples may be repeated or"
    " skipped (use one pass an epoch)"
)
ENDLESS = "tf.data pipeline that repeats a shuffle without end"
GENERATOR = "Python generator"
VALIDATION = "validation: "
VALIDATION_GENERATOR = (
    "the validation data come from a Python generator, whose state cannot be saved: after"
    " a restart it begins anew, so what is measured then may differ"
)

LOADER = (
    "the validation data come from a DataLoader of PyTorch, and {}: what is measured after a"
    " restart is the same only if it hands out the same batches again"
)

_drawn: weakref.WeakSet[Any] = weakref.WeakSet()
"""Generators, and stages of pipelines, that a ``fit`` of this process, or one that was
given back to it, has drawn from."""


def why_not_exact(given: Any) -> str | None:
    """Why bits cannot be promised for a ``fit`` on ``given``, which is remembered."""
    found = _unfinished(given)
    again = any(one in _drawn for one in found)
    _drawn.update(found)
    kind = GENERATOR if isinstance(given, types.GeneratorType) else ENDLESS
    return AGAIN.format(kind) if again else None


def validation_why_not_exact(given: Any) -> str | None:
    """The same for ``validation_data``, which each ``fit`` begins anew."""
    if isinstance(given, types.GeneratorType):
        return VALIDATION_GENERATOR
    if torch_loaders.is_loader(given):
        why = torch_loaders.why_not_exact(given)
        return None if why is None else LOADER.format(why)
    if not tf_data.is_pipeline(given):
        return None
    sentence = tf_data.why_not_exact(given)
    return None if sentence is None else VALIDATION + sentence


def loop_why_not_exact(given: Any) -> str | None:
    """The same for a loop of the script's own, which begins ``given`` each epoch."""
    endless = bool(_unfinished(given)) and not isinstance(given, types.GeneratorType)
    return LOOP if endless and tf_data.is_infinite(given) else None


def draw(given: Any, *, drawn: int, looked_at: int) -> None:
    """Let a generator be where a ``fit`` left it that took ``drawn`` batches.

    ``looked_at``: batches that were taken from it in this process.
    """
    if isinstance(given, types.GeneratorType):
        rest = itertools.islice(given, max(0, drawn - looked_at))
        collections.deque(rest, maxlen=0)


def _unfinished(given: Any) -> list[Any]:
    if isinstance(given, types.GeneratorType):
        return [given]
    if tf_data.is_pipeline(given):
        return tf_data.endless_shuffles(given)
    return []
