"""Asking the microbatching for its part in a ``fit``."""

from typing import Any

from trainers.fit.fit_report import memory_limit
from trainers.process import framework_setup, isolation
from trainers.state import model_build

UNBUILT = (
    "The batch is not sliced: the model's variables cannot be made without running a"
    " step ({})."
)


def prepare(run: Any) -> Any:
    """Let the model train in slices where the directive asks for it.

    Returns an object with ``slices``, ``size`` (both may change in the first steps)
    and ``restore()``; None where there is nothing to undo.
    """
    directive = run.attempt.directive
    if directive.slice_size is None and not directive.calibrate:
        return None
    # A model that is built by its first step has no weights yet to examine.
    try:
        model_build.build_for_slices(run.model, run.source.element_spec)
    except model_build.UnbuildableError as error:
        run.attempt.notice(UNBUILT.format(error))
        return None
    module = isolation.load("trainers.microbatch.prepare")
    try:
        return module.prepare(
            run.model,
            slice_size=directive.slice_size,
            calibrate=directive.calibrate,
            slice_ceiling=directive.slice_ceiling,
            memory_limit_bytes=memory_limit(run.attempt),
            allow_inexact=directive.allow_inexact,
            first_batch=run.source.first_batch,
            report=run.attempt.say,
            reduce=directive.reduce,
            hopeless=run.session.step == 0 and run.taken is None,
            # Where we lowered the precision, memory is what is short, and there is no
            # whole batch in that precision to agree with.
            wide_products=directive.precision is None,
        )
    except module.MicrobatchRefusedError as error:
        framework_setup.refuse(run.attempt, error.reason, str(error))
        raise
