"""The answer to who asks for the allocator's map, and what is left behind after an OOM."""

import contextlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import tensorflow as tf

from supervisor.wire.messages.memory_answer import (
    ASKED,
    OUT_OF_MEMORY,
    MemoryAnswer,
    Variable,
)
from supervisor.wire.paths import AttemptPaths
from trainers.backends.tensorflow.allocator import memory_owners
from trainers.backends.tensorflow.allocator.native_ops import Ops
from trainers.process.attempt_reporting import Attempt
from trainers.process.training_progress import RunningFit


def wanted(paths: AttemptPaths) -> bool:
    """Whether somebody asks. Takes 2 µs."""
    return paths.memory_request.exists()


def give(
    attempt: Attempt, ops: Ops | None, run: RunningFit | None, *, step: int
) -> None:
    """Answer. What cannot be told is not answered; training goes on."""
    with contextlib.suppress(Exception):  # whatever a script's objects may do
        attempt.paths.memory_request.unlink(missing_ok=True)
        variables = [] if run is None else memory_owners.variables_of(run.model, ops)
        roots = memory_owners.roots_of(sys._getframe())  # inspect's own way
        answer = _answer(ASKED, step, run, variables, roots, ops=ops)
        _leave(attempt.paths, b"" if ops is None else ops.map(), answer)


def at_crash(
    error: BaseException,
    attempt: Attempt,
    run: RunningFit | None,
    variables: Sequence[Variable],
) -> None:
    """The last word of a process that ran out of memory, if ``error`` says so.

    ``variables``: as they were known before, with their addresses; now an operation
    might find no memory for its result. The map at the failure is in TensorFlow's own dump.
    """
    exhausted = (tf.errors.ResourceExhaustedError, tf.errors.InternalError, MemoryError)
    if not isinstance(error, exhausted):
        return
    with contextlib.suppress(Exception):  # as above
        model = None if run is None else run.model
        known = variables or memory_owners.variables_of(model, None)
        roots = memory_owners.roots_of_traceback(error.__traceback__)
        answer = _answer(OUT_OF_MEMORY, attempt.training.steps, run, known, roots)
        _leave(attempt.paths, b"", answer)


def _answer(
    reason: str,
    step: int | None,
    run: RunningFit | None,
    variables: Sequence[Variable],
    roots: list[memory_owners.Root],
    *,
    ops: Ops | None = None,
) -> MemoryAnswer:
    held = memory_owners.kept([*memory_owners.roots_of_fit(run), *roots], ops)
    model = None if run is None else run.model
    return MemoryAnswer(
        reason=reason,
        step=step,
        at=time.time(),
        jit=bool(getattr(model, "jit_compile", False)),
        variables=tuple(variables),
        kept=(*held, *memory_owners.batch_of(run)),
    )


def _leave(paths: AttemptPaths, memory_map: bytes, answer: MemoryAnswer) -> None:
    _put(paths.memory_map, memory_map)
    _put(paths.memory_answer, json.dumps(asdict(answer)).encode())


def _put(path: Path, content: bytes) -> None:
    """Whole or not at all; a power cut may lose it, which is worth no wait."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.rename(path)
