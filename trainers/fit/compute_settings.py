"""How steps are computed, where the spec says so and not the script: XLA, recomputation.

To be applied before Keras makes the train function of a ``fit``. The dtype policy is none
of these: layers take it when they are made (``process.hooks``).
"""

from dataclasses import dataclass
from typing import Any

from trainers.backends.selected import backend
from trainers.data.data_source import DataSource
from trainers.process import applied_directive
from trainers.process.attempt_reporting import Attempt
from trainers.state import model_build

NOT_COMPILED = (
    "Steps are not compiled by XLA, which compute.jit asks for: the script compiles its model"
    " with run_eagerly=True."
)
EAGER = "the script compiles its model with run_eagerly=True"
NOT_RECOMPUTED = "Activations are not computed again: {}."
NO_LAYER = "no layer of the model was found whose calls may be repeated; leave compute.recompute out"
OWN_POLICY = "The script's own dtype policy, {}, is in force, and not {}."
UNBUILT = "the layers of the model are not known before its first step ({})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSettings:
    """What was changed in a model."""

    recomputed: int = 0
    """Layers whose activations are computed again."""
    left_out: int = 0
    """Layers that are not, for their calls draw or change something."""


def apply(attempt: Attempt, model: Any, source: DataSource) -> AppliedSettings:
    """Let ``model`` compute as the directive says, on the data of ``source``; what of that
    cannot be done is told."""
    asked = attempt.directive.jit
    if asked is not None:
        if asked and model.run_eagerly:
            if attempt.is_news("not compiled"):
                attempt.notice(NOT_COMPILED)
        elif bool(model.jit_compile) is not asked:
            model.jit_compile = asked
            model.train_function = None
        found = bool(model.jit_compile)
        applied_directive.tell(attempt, "jit", asked=asked, found=found)
    return _recompute(attempt, model, source)


def tell_precision(attempt: Attempt, model: Any) -> None:
    """Which dtype policy ``model`` computes by, where the directive asks for one."""
    asked = attempt.directive.precision
    if asked is None:
        return
    found = backend.fit.precision(model, wanted=asked)
    applied_directive.tell(attempt, "precision", asked=asked, found=found)
    if found != asked and attempt.is_news("policy", found):
        attempt.notice(OWN_POLICY.format(found, asked))


def _recompute(attempt: Attempt, model: Any, source: DataSource) -> AppliedSettings:
    if not attempt.directive.recompute:
        return AppliedSettings()
    why_not = _why_not(model, source)
    if why_not is not None:
        if attempt.is_news("not recomputed", why_not):
            attempt.notice(NOT_RECOMPUTED.format(why_not))
        return AppliedSettings()
    marked, left_out = backend.fit.recompute(model, source.element_spec)
    first = attempt.is_news("recomputed")
    if marked:
        model.train_function = None
    elif first:
        attempt.notice(NOT_RECOMPUTED.format(NO_LAYER))
    return AppliedSettings(recomputed=marked, left_out=left_out)


def _why_not(model: Any, source: DataSource) -> str | None:
    """Why activations cannot be computed again; None: they can, and all layers are made."""
    if backend.fit.WHY_NOT_RECOMPUTED is not None:
        return backend.fit.WHY_NOT_RECOMPUTED
    if model.run_eagerly:
        return EAGER
    if source.element_spec is None:
        return UNBUILT.format("the data do not tell their shapes")
    try:
        model_build.build_for_slices(model, source.element_spec)
    except model_build.UnbuildableError as error:
        return UNBUILT.format(error)
    return None
