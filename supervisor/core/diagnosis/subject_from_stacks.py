"""What memory was asked for when it ran out, by the stack that faulthandler wrote.

A tensor made of a NumPy array gets a null pointer where there is no memory, and the
process ends by a signal (TensorFlow 2.21, ``constant_op.py``): no exception tells.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.wire.oom_subject import OomSubject

_CURRENT = re.compile(r"^Current thread .*\n((?:  File .*\n?)+)", re.MULTILINE)
_FRAME = re.compile(r'^  File "([^"\n]*)", line \d+ in (.*)$', re.MULTILINE)

GENERATOR = "tensorflow/python/ops/script_ops.py"
"""Python code below an op: what it makes tensors of is a batch, not the data set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Which frames tell of a subject."""

    subject: OomSubject
    path: str
    """The file's path contains this."""
    functions: frozenset[str] = frozenset()
    """Empty: any."""
    outside_only: bool = False
    """Tells nothing while a ``fit`` runs."""

    def matches(self, path: str, function: str) -> bool:
        """Whether the frame of ``function`` in ``path`` is one."""
        return self.path in path and (not self.functions or function in self.functions)


ROWS = (
    Row(
        subject=OomSubject.OPTIMIZER,
        path="keras/src/optimizers/",
        functions=frozenset(
            {"build", "add_variable", "add_variable_from_reference"}
            | {"add_optimizer_variables"}
        ),
    ),
    Row(subject=OomSubject.WEIGHTS, path="keras/src/backend/common/variables.py"),
    Row(
        subject=OomSubject.WEIGHTS,
        path="eager/polymorphic_function/polymorphic_function.py",
        functions=frozenset({"_initialize_uninitialized_variables"}),
    ),
    Row(subject=OomSubject.DATA, path="data/ops/from_tensor_slices_op.py"),
    Row(subject=OomSubject.DATA, path="data/ops/from_tensors_op.py"),
    Row(subject=OomSubject.DATA, path="keras/src/trainers/data_adapters/"),
    Row(
        subject=OomSubject.DATA,
        path="tensorflow/python/framework/constant_op.py",
        functions=frozenset({"convert_to_eager_tensor"}),
        outside_only=True,
    ),
    Row(
        subject=OomSubject.EVALUATION,
        path="keras/src/backend/tensorflow/trainer.py",
        functions=frozenset({"evaluate"}),
    ),
)
"""In the order in which they are asked (Keras 3.15, TensorFlow 2.21)."""


def subject_in_stack(stacks: str, *, in_fit: bool) -> OomSubject | None:
    """What the thread that crashed was asking memory for; None: its stack tells nothing.

    ``in_fit``: whether a ``fit`` was running.
    """
    found = _CURRENT.search(stacks)
    frames: Sequence[tuple[str, str]] = _FRAME.findall(found[1]) if found else ()
    if any(GENERATOR in path for path, _ in frames):
        return None
    for row in ROWS:
        if row.outside_only and in_fit:
            continue
        if row.subject is OomSubject.EVALUATION and not in_fit:
            continue
        if any(row.matches(path, function) for path, function in frames):
            return row.subject
    return None


def named_subject(value: str | None) -> OomSubject | None:
    """The subject that a crash report names; None: none, or one of a newer version."""
    return OomSubject(value) if value in set(OomSubject) else None
