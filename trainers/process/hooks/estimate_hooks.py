"""Hooks of an attempt that only measures, for an estimate or a trial: the first ``fit`` is
measured, and nothing is trained, whatever the script would train with."""

import functools
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_REFUSED
from supervisor.wire.reasons import RefusalReason
from trainers.process import signals
from trainers.process.attempt_reporting import Attempt
from trainers.process.hooks import import_hooks
from trainers.process.script import isolation

OWN_LOOP = (
    "the script trains in a loop of its own, not by model.fit: where such a step begins"
    " and ends cannot be told before it runs, so it is not {}. `trainwarden run`"
    " shows what it needs while it trains"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """What an attempt does in the place of training."""

    module: str
    """Whose ``MEASUREMENT`` takes the place of the first ``fit``, loaded there."""
    reason: RefusalReason
    own_loop: str
    other_backend: str
    """With a place for its name."""


ESTIMATE = Measuring(
    module="trainers.estimate.first_fit",
    reason=RefusalReason.NOT_ESTIMATED,
    own_loop=OWN_LOOP.format("estimated")
    + ". With a step in a tf.function, or by trainers.session, it would be",
    other_backend="the script trains with {}: an estimate is made of Keras on TensorFlow"
    " and on JAX",
)
TRIAL = Measuring(
    module="trainers.trials.trial_fit",
    reason=RefusalReason.NOT_TRIED,
    own_loop=OWN_LOOP.format("tried"),
    other_backend="the script trains with {}: alternatives are tried of Keras on"
    " TensorFlow",
)


def wanted(attempt: Attempt) -> Measuring | None:
    """What this attempt measures; None: it trains."""
    if attempt.directive.estimate_seconds is not None:
        return ESTIMATE
    return None if attempt.directive.trial_steps is None else TRIAL


def refuse_backend(
    attempt: Attempt, measuring: Measuring, title: str, _module: ModuleType
) -> None:
    """End: ``title`` is not measured."""
    _end(attempt, measuring, measuring.other_backend.format(title))


def without_gpus(tf: ModuleType) -> None:
    """TensorFlow must not take one, whatever the script says."""
    tf.config.set_visible_devices([], "GPU")


class FirstFit:
    """Puts a measurement in the place of ``fit``, and an end in that of other loops."""

    def __init__(self, attempt: Attempt, measuring: Measuring) -> None:
        self._attempt, self._measuring = attempt, measuring
        self._began = False
        self._loop: Any = None
        """The ``estimate.followed_loop.FollowedLoop``, where loops are measured too."""

    def listen(self, hooks: Any) -> None:
        """TensorFlow is there (``backends.tensorflow.functions.call_hooks``): follow the
        calls of what the script compiles."""
        hooks.install()
        module = isolation.load("trainers.estimate.followed_loop")
        self._loop = module.FollowedLoop(self._attempt, hooks)
        hooks.follow(self._loop)
        self._attempt.end.tell_first(self._loop.script_ends)

    def hooks(self) -> dict[str, import_hooks.Hook]:
        """By the name of the module that each waits for."""
        return {
            "keras.src.backend.tensorflow.trainer": functools.partial(
                self._hook, "TensorFlowTrainer"
            ),
            "keras.src.backend.jax.trainer": functools.partial(
                self._hook, "JAXTrainer"
            ),
            "keras.src.backend.torch.trainer": functools.partial(
                self._hook, "TorchTrainer"
            ),
            "keras.src.optimizers.base_optimizer": self._hook_optimizers,
        }

    def _hook(self, kind: str, module: ModuleType) -> None:
        trainer: Any = getattr(module, kind)
        original = trainer.fit

        @functools.wraps(original)
        def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
            if self._began:  # of a model in the step that is tried
                return original(model, *args, **kwargs)
            self._began = True
            held = functools.partial(original, model, *args, **kwargs)
            measurement = isolation.load(self._measuring.module).MEASUREMENT
            return measurement.hold(self._attempt, model, held)

        trainer.fit = fit

    def _hook_optimizers(self, module: ModuleType) -> None:
        base: Any = module.BaseOptimizer
        original = base.apply

        @functools.wraps(original)
        def apply(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._began and not self._attempt.training.measured:
                self._own_step(optimizer, *args, **kwargs)
            return original(optimizer, *args, **kwargs)

        base.apply = apply

    def _own_step(
        self, optimizer: Any, _gradients: Any, variables: Any = None, **_more: Any
    ) -> None:
        """``optimizer`` makes a step outside of ``fit``, or one is traced."""
        if self._loop is None or not self._loop.in_call:
            _end(self._attempt, self._measuring, self._measuring.own_loop)
        self._loop.applied(optimizer, list(variables or ()))


def _end(attempt: Attempt, measuring: Measuring, sentence: str) -> None:
    """At once: a ``finally:`` of the script's would save what is not trained."""
    attempt.say(RecordKind.REFUSED, reason=measuring.reason, sentence=sentence)
    signals.end_at_once(EXIT_REFUSED)
