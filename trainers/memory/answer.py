"""Answering who asks for the allocator's map, and leaving it behind after an OOM."""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from supervisor.wire.memory import ASKED, OUT_OF_MEMORY, Answer
from supervisor.wire.paths import AttemptPaths
from trainers.attempt import Attempt
from trainers.memory import holders
from trainers.memory.native import Ops


def wanted(paths: AttemptPaths) -> bool:
    """Whether somebody asks. Takes 2 µs."""
    return paths.memory_request.exists()


def give(attempt: Attempt, ops: Ops | None, model: Any, *, step: int) -> None:
    """Answer. What cannot be written is not answered; training goes on."""
    with contextlib.suppress(OSError):
        attempt.paths.memory_request.unlink(missing_ok=True)
        _leave(attempt.paths, ops, _answer(ASKED, ops, model, step=step))


def at_crash(
    error: BaseException, attempt: Attempt, ops: Ops | None, model: Any
) -> None:
    """The last word of a process that ran out of memory, if ``error`` says so."""
    exhausted = (tf.errors.ResourceExhaustedError, tf.errors.InternalError, MemoryError)
    if isinstance(error, exhausted):
        with contextlib.suppress(OSError, tf.errors.OpError):
            _leave(attempt.paths, ops, _answer(OUT_OF_MEMORY, ops, model, step=None))


def _answer(reason: str, ops: Ops | None, model: Any, *, step: int | None) -> Answer:
    return Answer(
        reason=reason,
        step=step,
        at=time.time(),
        jit=bool(getattr(model, "jit_compile", False)),
        variables=tuple([] if model is None else holders.variables_of(model, ops)),
        kept=tuple(holders.kept()),
    )


def _leave(paths: AttemptPaths, ops: Ops | None, answer: Answer) -> None:
    _put(paths.memory_map, b"" if ops is None else ops.map())
    _put(paths.memory_answer, json.dumps(answer.to_json()).encode())


def _put(path: Path, content: bytes) -> None:
    """Whole or not at all; a power cut may lose it, which is worth no wait."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.rename(path)
