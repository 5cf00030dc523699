"""The places where Keras and TensorFlow make variables, watched for allocations that fail."""

from types import ModuleType

from supervisor.wire.records.oom_subject import OomSubject
from trainers.process import allocation_subject
from trainers.process.hooks import import_hooks


def install() -> None:
    """Watch where Keras and TensorFlow make variables. A name that a version does not
    have is not watched: less is known then, and nothing is wrong."""
    import_hooks.after_import(
        {
            "keras.src.backend.tensorflow.core": _variables,
            "keras.src.backend.jax.core": _variables,
            "keras.src.backend.torch.core": _variables,
            "keras.src.optimizers.base_optimizer": _optimizers,
            "tensorflow.python.eager.polymorphic_function.polymorphic_function": _lifted,
        }
    )


def _variables(core: ModuleType) -> None:
    allocation_subject.watch.around(core.Variable, "_initialize", OomSubject.WEIGHTS)


def _optimizers(base_optimizer: ModuleType) -> None:
    for name in ("add_variable", "add_variable_from_reference"):
        allocation_subject.watch.around(
            base_optimizer.BaseOptimizer, name, OomSubject.OPTIMIZER
        )


def _lifted(polymorphic_function: ModuleType) -> None:
    """Variables that are made while a function is traced get their values here."""
    allocation_subject.watch.around(
        polymorphic_function.Function,
        "_initialize_uninitialized_variables",
        OomSubject.WEIGHTS,
        told=allocation_subject.watch.whose,
    )
