"""The first ``fit`` of a script, held at its epoch iterator to be measured there.

Keras' own ``fit`` is called as the script calls it, and stopped where it has made its epoch
iterator: model and data are then what they would be, and no callback of the script's was
told of anything. What is measured is measured there, and the process ends without another
line of the script.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_REFUSED
from supervisor.wire.page import Phase
from supervisor.wire.reasons import RefusalReason
from trainers.backends import epoch_iterator, keras_compat
from trainers.backends.selected import backend
from trainers.data import source_factory
from trainers.data.data_source import DataSource
from trainers.process import signals
from trainers.process.attempt_reporting import Attempt
from trainers.state import model_build


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFit:
    """A ``fit`` that has made its epoch iterator, and drawn nothing."""

    attempt: Attempt
    model: Any
    source: DataSource
    iterator: Any
    """Keras' own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitMeasurement:
    """What a ``fit`` is held for, and what is said where that cannot be."""

    reason: RefusalReason
    impossible: str
    """With a place for why."""
    several_devices: str | None
    """The whole sentence, where it trains on them at once; None: that is measured, too."""
    why_not: Callable[[], str | None]
    """Why this backend cannot be measured so; None: it can."""
    change: Callable[[Attempt, Any], None]
    """Let the model, which is not built yet, be what is to be measured."""
    measure: Callable[[HeldFit], None]
    """Do so; the model is built as far as that goes."""

    def refuse(self, attempt: Attempt, sentence: str) -> NoReturn:
        """End at once: it cannot be measured, as the sentence says."""
        attempt.say(RecordKind.REFUSED, reason=self.reason, sentence=sentence)
        signals.end_at_once(EXIT_REFUSED)
        raise AssertionError  # the process has ended

    def hold(
        self, attempt: Attempt, model: Any, fit: functools.partial[Any]
    ) -> NoReturn:
        """Call ``fit``, that of ``model``, measure it, and end the process.

        Raises what Keras or the script's model raises.
        """
        wrong = backend.fit.self_test()
        if wrong:
            self.refuse(
                attempt, f"Keras is not as expected inside ({'; '.join(wrong)})"
            )
        backend.fit.replace_epoch_iterator()
        bound = inspect.signature(fit.func).bind(*fit.args, **fit.keywords)
        why = backend.fit.why_not_followed(model, bound.arguments.get("x"))
        why = why or self.why_not()
        if why is not None:
            self.refuse(attempt, self.impossible.format(why))
        if self.several_devices is not None and backend.fit.replicas_of(model) > 1:
            self.refuse(attempt, self.several_devices)
        with epoch_iterator.adopting(functools.partial(self._held, attempt, model)):
            fit()
        raise AssertionError  # every fit makes an epoch iterator first

    def _held(self, attempt: Attempt, model: Any, iterator: Any) -> NoReturn:
        attempt.enter(Phase.BETWEEN)
        source = source_factory.source_of(iterator, seed=attempt.directive.seed, fit=0)
        self.change(attempt, model)
        _build(model, source, iterator)
        self.measure(
            HeldFit(attempt=attempt, model=model, source=source, iterator=iterator)
        )
        signals.end_at_once(0)
        raise AssertionError  # the process has ended


def _build(model: Any, source: DataSource, iterator: Any) -> None:
    """As far as that goes: where it does not, the first step says why."""
    if source.element_spec is None:  # no pipeline: Keras looks at a batch
        keras_compat.build_by(model, iterator)
        return
    try:
        model_build.build_for_slices(model, source.element_spec)
    except model_build.UnbuildableError:
        return
