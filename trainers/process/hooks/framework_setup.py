"""What to do once the script has imported TensorFlow or Keras.

Only thin hooks live here. What they install is loaded at the first ``fit``, when
Keras is whole: here it is still in the middle of its own import.
"""

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_REFUSED, Directive
from supervisor.wire.reasons import RefusalReason
from trainers.process import applied_directive
from trainers.process.attempt_reporting import Attempt
from trainers.process.compilations.kept_compilations import KeptCompilations
from trainers.process.environment import framework_versions
from trainers.process.hooks import (
    estimate_hooks,
    import_hooks,
    loop_hooks,
    tracker_hooks,
)
from trainers.process.hooks.estimate_hooks import Measuring
from trainers.process.hooks.own_steps import OwnSteps
from trainers.process.script import isolation, run_entropy, unrepeatable_draws
from trainers.process.standby.import_context import ImportRecorder

OTHER_BACKENDS = {
    "keras.src.backend.openvino.trainer": "OpenVINO",
}
JAX = "keras.src.backend.jax.trainer"
TORCH = "keras.src.backend.torch.trainer"
LEGACY = "tf_keras.src.engine.training"
LEGACY_TITLE = "legacy Keras 2"
ENTROPY = {
    "numpy.random.bit_generator": run_entropy.numpy_asks,
    "numpy.random.mtrand": run_entropy.numpy_begins,
    "numpy.random._mt19937": run_entropy.numpy_seeds,
    "torch": run_entropy.torch_begins,
}
LOOPS = {
    "keras.src.optimizers.base_optimizer": loop_hooks.hook_optimizers,
    "keras.src.saving.saving_api": loop_hooks.hook_saving,
    "tensorflow.python.checkpoint.checkpoint": loop_hooks.hook_checkpoints,
}
ANEW = (
    "Keras was imported anew after a fit: this run is watched and restarted, but the fits"
    " of the new one are not resumed exactly"
)
"""What we do in a ``fit`` leans on the modules that were there at the first."""
OWN_LOOPS_ELSEWHERE = (
    "the backend is {}: calls of fit are resumed; loops of the script's own are watched"
    " and restarted, but not resumed"
)
NOT_RESUMED_ELSEWHERE = (
    "this version of Keras on {} is not as expected inside ({}): the run is watched and"
    " restarted, but its fits are not resumed"
)
NAMED_GPU = re.compile(r"\s*(\d|GPU-|MIG-)")
"""How ``CUDA_VISIBLE_DEVICES`` of who wants a GPU begins; whatever comes after what is
none is not seen (CUDA C++ Programming Guide, environment variables)."""


def refuse(attempt: Attempt, reason: RefusalReason, sentence: str) -> NoReturn:
    """End before training starts, with the reason. Raises SystemExit(78)."""
    attempt.say(RecordKind.REFUSED, reason=reason, sentence=sentence)
    sys.stderr.write(f"trainwarden: {sentence}\n")
    raise SystemExit(EXIT_REFUSED)


def watch(attempt: Attempt) -> None:
    """Install the hooks that wait for the script's imports."""
    measuring = estimate_hooks.wanted(attempt)
    if measuring is None:
        _watch_for_training(attempt)
    else:
        _watch_to_measure(attempt, measuring)


def _watch_to_measure(attempt: Attempt, measuring: Measuring) -> None:
    """Nothing is followed: the first ``fit`` is measured, and ends the process."""
    titles = {**OTHER_BACKENDS, LEGACY: LEGACY_TITLE}
    first = estimate_hooks.FirstFit(attempt, measuring)
    waiting: dict[str, import_hooks.Hook] = {
        name: functools.partial(
            estimate_hooks.refuse_backend, attempt, measuring, title
        )
        for name, title in titles.items()
    }
    if measuring is estimate_hooks.TRIAL:
        # What a script draws without a seed is the same in all trials of it.
        entropy = _own_entropy(attempt, waiting)
        begins = functools.partial(_tensorflow_to_try, attempt, entropy)
    else:
        begins = functools.partial(_tensorflow_to_measure, attempt, first)
    waiting["tensorflow"] = _once(begins)
    if attempt.directive.precision is not None:
        waiting["keras"] = functools.partial(_precision, attempt)
    waiting.update(first.hooks())
    import_hooks.after_import(waiting)


def _own_entropy(
    attempt: Attempt, waiting: dict[str, import_hooks.Hook]
) -> run_entropy.RunEntropy:
    """Draws without a seed come from the run's; ``waiting`` gets what hooks that needs."""
    entropy = run_entropy.install(attempt.directive.seed)
    for name, begins in ENTROPY.items():
        waiting[name] = _once(functools.partial(begins, entropy))
    return entropy


def _tensorflow_to_try(
    attempt: Attempt, entropy: run_entropy.RunEntropy, tf: ModuleType
) -> None:
    """Before any op runs: memory as a run would have it."""
    if on_cpu(attempt.directive):
        estimate_hooks.without_gpus(tf)
    _limit_gpus(attempt, tf)
    _own_draws(attempt, entropy)
    if attempt.directive.trial_streamed:
        isolation.load("trainers.backends.tensorflow.data.input_changes").cut_slices()
    _one_pool(attempt.directive)


def _tensorflow_to_measure(
    attempt: Attempt, first: estimate_hooks.FirstFit, tf: ModuleType
) -> None:
    """Before any op runs: no GPU, and a pool as a GPU's is."""
    estimate_hooks.without_gpus(tf)
    if _is_supported(attempt):
        first.listen(
            isolation.load("trainers.backends.tensorflow.functions.call_hooks")
        )
        pipelines = isolation.load("trainers.backends.tensorflow.data.pipelines")
        pipelines.install(seed=attempt.directive.seed, notice=attempt.notice)
    _one_pool(attempt.directive)


def _one_pool(directive: Directive) -> None:
    """The pool of the CPU in one piece, where there is a limit to it."""
    if directive.memory_limit_bytes is not None:
        module = isolation.load("trainers.backends.tensorflow.allocator.cpu_pool")
        module.in_one_piece(directive.memory_limit_bytes)


def _watch_for_training(attempt: Attempt) -> None:
    steps = OwnSteps(attempt)
    waiting: dict[str, import_hooks.Hook] = {
        name: _once(functools.partial(_other_backend, attempt, steps, title))
        for name, title in OTHER_BACKENDS.items()
    }
    waiting[JAX] = functools.partial(_keras_elsewhere, attempt, steps, ON_JAX)
    waiting[TORCH] = functools.partial(_keras_elsewhere, attempt, steps, ON_TORCH)
    waiting[LEGACY] = _once(functools.partial(_tell_not_resumed, attempt, LEGACY_TITLE))
    unrepeatable_draws.install(lambda: attempt.training.running is not None)
    entropy = _own_entropy(attempt, waiting)
    # TensorFlow's native half is the same in a module that is imported anew: what it was
    # told holds, and a second seed would take the place of the script's own.
    compilations = _compilations(attempt)
    waiting["tensorflow"] = _once(
        functools.partial(_tensorflow, attempt, entropy, steps, compilations)
    )
    # After TensorFlow's: where both are there at once they are called in this order.
    if attempt.directive.precision is not None:
        waiting["keras"] = functools.partial(_precision, attempt)
    if compilations is not None:
        waiting["jax"] = _once(compilations.jax_imported)
    waiting["keras.src.backend.tensorflow.trainer"] = functools.partial(
        _keras, attempt, steps
    )
    for name, hook in LOOPS.items():
        waiting[name] = functools.partial(hook, steps)
    waiting.update(tracker_hooks.hooks(attempt))
    import_hooks.after_import(waiting)
    if attempt.directive.standby:
        recorder: Any = ImportRecorder(attempt.paths.imports, dict(os.environ))
        sys.meta_path.insert(0, recorder)
    attempt.end.tell(steps.script_ends)


def _compilations(attempt: Attempt) -> KeptCompilations | None:
    """Those of this attempt; None: it is to compile by itself."""
    directory = attempt.directive.compilation_directory
    if directory is None:
        return None
    kept = KeptCompilations(attempt, os.environ, directory)
    attempt.end.tell_first(kept.ended)
    return kept


def _is_supported(attempt: Attempt) -> bool:
    """Whether these versions are; what is to be said of them is told once."""
    if attempt.directive.tries_versions:
        return True
    found = framework_versions.verdict()
    if found.warning is not None and attempt.is_news("versions", found.warning):
        attempt.notice(found.warning)
    return found.refused is None


def _once(hook: import_hooks.Hook) -> import_hooks.Hook:
    """``hook``, not again for a module that is imported anew."""
    done: list[ModuleType] = []

    def first(module: ModuleType) -> None:
        if not done:
            hook(module)
            done.append(module)

    return first


def _other_backend(
    attempt: Attempt, steps: OwnSteps, title: str, module: ModuleType
) -> None:
    """Keras 3 computes with something else: its optimizers are left to it."""
    steps.stand_back()
    _tell_not_resumed(attempt, title, module)


def _tell_not_resumed(attempt: Attempt, title: str, _module: ModuleType) -> None:
    attempt.notice(
        f"the backend is {title}: this run is watched and restarted, but its fits are"
        " not resumed exactly"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Keras on another framework than TensorFlow."""

    title: str
    trainer: str
    """The class of the module whose ``fit`` it is."""
    versions: Callable[[], dict[str, str | None]]
    tried: Callable[[dict[str, str | None]], str | None] = lambda _versions: None
    """What a self-test finds wrong with them; None: nothing, or there is none."""


ON_JAX = Elsewhere(
    title="JAX", trainer="JAXTrainer", versions=framework_versions.on_jax
)
ON_TORCH = Elsewhere(
    title="PyTorch",
    trainer="TorchTrainer",
    versions=framework_versions.on_torch,
    tried=framework_versions.tried_on_torch,
)


def _keras_elsewhere(
    attempt: Attempt, steps: OwnSteps, where: Elsewhere, module: ModuleType
) -> None:
    """Put our ``fit`` in place; where Keras is not as expected it is left to itself."""
    steps.stand_back()
    if attempt.training.is_open:
        attempt.notice(ANEW)
        return
    attempt.say(RecordKind.LAUNCHED, versions=where.versions())
    attempt.notice(OWN_LOOPS_ELSEWHERE.format(where.title))
    isolation.load("trainers.backends.variable_hooks").install()
    trainer = getattr(module, where.trainer)
    original = trainer.fit
    wrong = functools.cache(functools.partial(_wrong_inside, attempt, where))

    @functools.wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        if wrong():
            return original(self, *args, **kwargs)
        module = isolation.load("trainers.fit.supervised")
        with steps.fit():
            while True:  # as on TensorFlow
                with module.fit(attempt, original, self, args, kwargs) as train:
                    return train()

    trainer.fit = fit


def _wrong_inside(attempt: Attempt, where: Elsewhere) -> bool:
    """Whether Keras there is not as expected inside: that is told then."""
    found = isolation.load("trainers.backends.selected").backend.fit.self_test()
    if not found and not attempt.directive.tries_versions:
        failed = where.tried(where.versions())
        found = [] if failed is None else [f"its self-test failed: {failed}"]
    if found:
        sentence = NOT_RESUMED_ELSEWHERE.format(where.title, "; ".join(found))
        attempt.notice(sentence)
    return bool(found)


def _precision(attempt: Attempt, keras: ModuleType) -> None:
    """A remedy that the person allowed; a script that sets a policy itself keeps it."""
    asked = attempt.directive.precision
    keras.config.set_dtype_policy(asked)
    found = keras.config.dtype_policy().name
    applied_directive.tell(attempt, "precision", asked=asked, found=found)


def _tensorflow(
    attempt: Attempt,
    entropy: run_entropy.RunEntropy,
    steps: OwnSteps,
    compilations: KeptCompilations | None,
    tf: ModuleType,
) -> None:
    """Before any op runs: memory of the GPUs, and determinism where asked for."""
    directive = attempt.directive
    if compilations is not None:
        compilations.tensorflow_imported(tf)
    applied_directive.tell_environment(attempt)
    limit_bytes = directive.gpu_memory_limit_bytes
    limited = limit_bytes if _limit_gpus(attempt, tf) else None
    applied_directive.tell(
        attempt, "gpu_memory_limit_bytes", asked=limit_bytes, found=limited
    )
    if _own_draws(attempt, entropy):
        steps.listen(
            isolation.load("trainers.backends.tensorflow.functions.call_hooks")
        )
    if sliced(directive):
        _one_pool(directive)
    if directive.deterministic:
        tf.config.experimental.enable_op_determinism()
        applied_directive.tell(attempt, "deterministic", asked=True, found=True)


def _limit_gpus(attempt: Attempt, tf: ModuleType) -> bool:
    """Memory of the GPUs as the directive says; whether there are any."""
    gpus = tf.config.list_physical_devices("GPU")
    limit_bytes = attempt.directive.gpu_memory_limit_bytes
    if gpus and limit_bytes is not None:
        module = isolation.load("trainers.backends.tensorflow.memory_compat")
        notice = functools.cache(attempt.notice)  # once, however many GPUs there are
        module.limit_gpus(gpus, max(1, limit_bytes // 2**20), notice)
    elif attempt.directive.gpu_memory_growth:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, enable=True)
    return bool(gpus)


def _own_draws(attempt: Attempt, entropy: run_entropy.RunEntropy) -> bool:
    """TensorFlow's shuffles and draws without a seed come from the run's; False: its
    version is not supported, and is left to itself."""
    if not _is_supported(attempt):
        return False
    pipelines = isolation.load("trainers.backends.tensorflow.data.pipelines")
    pipelines.install(seed=attempt.directive.seed, notice=attempt.notice)
    isolation.load("trainers.backends.tensorflow.randomness.unseeded_draws").install(
        entropy
    )
    return True


def on_cpu(directive: Directive) -> bool:
    """Whether training is under a limit on the CPU: no GPU is wanted then."""
    return directive.memory_limit_bytes is not None


def missing(environment: Mapping[str, str]) -> str | None:
    """What to say where TensorFlow sees no GPU: nothing, unless one was asked for."""
    asked = environment.get("CUDA_VISIBLE_DEVICES", "")
    if NAMED_GPU.match(asked) is None:
        return None
    return (
        f"GPU {asked} was asked for, and TensorFlow sees none: training is on the CPU."
        " Does nvidia-smi list it? TensorFlow also needs the CUDA libraries, which"
        " pip install 'tensorflow[and-cuda]' brings"
    )


def sliced(directive: Directive) -> bool:
    """Whether the attempt may work in slices: a plan needs a pool without pieces."""
    return directive.calibrate or directive.slice_size is not None


def _keras(attempt: Attempt, steps: OwnSteps, trainer: ModuleType) -> None:
    """Check the versions and put our ``fit`` in place."""
    if attempt.training.is_open:
        attempt.notice(ANEW)
        return
    found = framework_versions.here()
    versions = {"tensorflow": found.tensorflow, "keras": found.keras}
    attempt.say(RecordKind.LAUNCHED, versions=versions)
    if not _is_supported(attempt):
        sentence = framework_versions.verdict().refused
        refuse(attempt, RefusalReason.VERSIONS, str(sentence))
    isolation.load("trainers.backends.variable_hooks").install()
    original = trainer.TensorFlowTrainer.fit
    tell_of_gpu = functools.cache(functools.partial(_tell_of_missing_gpu, attempt))

    @functools.wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        tell_of_gpu()  # not before: TensorFlow may be there for its data alone
        module = isolation.load("trainers.fit.supervised")
        with steps.fit():
            while True:  # again where a step failed and the supervisor says so
                with module.fit(attempt, original, self, args, kwargs) as train:
                    return train()

    trainer.TensorFlowTrainer.fit = fit
    loop_hooks.hook_trainer(steps, trainer)


def _tell_of_missing_gpu(attempt: Attempt) -> None:
    seen = sys.modules["tensorflow"].config.list_physical_devices("GPU")
    missed = None if seen or on_cpu(attempt.directive) else missing(os.environ)
    if missed is not None:
        attempt.notice(missed)
