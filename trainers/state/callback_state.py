"""The state of callbacks: saved by attribute, given back in place.

What a callback refers to but does not own (models, functions, open files) is left as
the script made it. What looks like state and cannot be saved is told, not dropped.
"""

import contextlib
import io
import logging
import os
import threading
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras

from trainers.backends import keras_compat, tf_data
from trainers.backends.selected import backend
from trainers.process.attempt_reporting import current
from trainers.state import decode, encode
from trainers.state.iterator_state import NoWayBackError
from trainers.state.references import UntrustedNameError
from trainers.state.variable_state import Places

NOT_STATE = (*keras_compat.CALLBACK_SETTINGS, "_trainwarden")
"""Attributes that ``fit`` itself sets."""

FILES = (
    io.RawIOBase, io.BufferedReader, io.BufferedWriter, io.BufferedRandom,
    io.TextIOWrapper,
)  # fmt: skip
REFERENCES = (
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType,
    type, *FILES, threading.Thread, type(threading.Lock()), logging.Logger,
    keras.Layer, keras.optimizers.Optimizer, keras.Metric, keras.Loss,
    keras.callbacks.Callback, keras.utils.PyDataset,
)  # fmt: skip
"""What a callback may refer to; it is the script's, and the script makes it again."""

BEGINNINGS = ("set_model", "set_params", "on_train_begin", "on_epoch_begin")
"""What a ``fit`` calls before its first step."""

DISPLAY = (keras.callbacks.ProgbarLogger,)
"""Callbacks whose state is only what is on the screen."""


def refers(value: Any) -> bool:
    """Whether a callback may refer to ``value``: the script makes it again."""
    return isinstance(value, REFERENCES) or tf_data.is_pipeline(value)


def of_fit(callbacks: Iterable[Any], model: Any) -> list[Any]:
    """The callbacks with a state to keep: those given, and the History."""
    found = [one for one in callbacks if not isinstance(one, DISPLAY)]
    history = getattr(model, "history", None)
    if isinstance(history, keras.callbacks.History) and history not in found:
        found.append(history)
    return found


def encode_all(
    callbacks: list[Any], places: Places, met: encode.Met
) -> tuple[list[Any], list[Any], list[str]]:
    """The states as JSON, their tensors, and a sentence for each part left out.

    ``places``: of the model's variables, which callbacks may refer to. ``met``: see
    ``StateEncoder``.
    """
    states, tensors, told = [], [], []
    for index, callback in enumerate(callbacks):
        encoder = encode.StateEncoder(
            f"callback/{index}/",
            array_of=backend.values.framework_array,
            kind_of=backend.values.kind_of,
            refers=refers,
            place_of=places.of,
            place_of_id=places.of_id,
            met=met,
        )
        attributes, missing = _attributes(callback, encoder)
        state: dict[str, Any] = {
            "type": encode.type_name(callback),
            "attributes": attributes,
        }
        if isinstance(callback, keras.callbacks.CSVLogger):
            state["file_bytes"] = _size(callback.filename)
            if _is_put_back(callback.filename):
                state["file_bytes"] = None  # with all files of the script
        if isinstance(callback, keras.callbacks.TensorBoard):
            keras_compat.flush_summaries(
                callback
            )  # what is before the snapshot comes once
        states.append(state)
        tensors += encoder.tensors
        told += missing
    return states, tensors, told


def _attributes(
    callback: Any, encoder: encode.StateEncoder
) -> tuple[dict[str, Any], list[str]]:
    attributes, missing = {}, []
    for name, value in vars(callback).items():
        if name in NOT_STATE:
            continue
        try:
            attributes[name] = encoder.encode(value)
        except encode.UnencodableError as error:
            lost = [] if refers(value) else [(name, str(error))]
            if type(value) is dict:
                attributes[name], lost = _entries(name, value, encoder)
            if not _is_keras_own(callback):
                missing += [
                    f"{_called(callback)} keeps {what} in {where}, which cannot be saved"
                    for where, what in lost
                ]
    return attributes, missing


def _entries(
    name: str, value: dict[Any, Any], encoder: encode.StateEncoder
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What can be saved of a dictionary; where in it the rest is, and what that is.

    The rest stays as the script makes it again.
    """
    pairs, lost = [], []
    for key, one in value.items():
        before = encoder.mark
        try:
            pairs.append(encoder.many((key, one), 0))
        except encode.UnencodableError as error:
            encoder.back_to(before)  # the key
            if not refers(one):
                lost.append((f"{name}[{key!r}]", str(error)))
    return {encode.KIND: "dict", "v": pairs, encode.PART: True}, lost


class Unsaved:
    """What callbacks of the script's own refer to when a ``fit`` begins, beside what a
    snapshot has of them."""

    def __init__(self, callbacks: Iterable[Any]) -> None:
        self._at_begin = [
            (one, {**vars(one)}) for one in callbacks if not _is_keras_own(one)
        ]

    def changed(self, states: Iterable[Mapping[str, Any]]) -> str | None:
        """What is another now and not in ``states``, of a snapshot, in half a sentence;
        None: nothing."""
        for callback, before in self._at_begin:
            kind = encode.type_name(callback)
            saved = [one["attributes"] for one in states if one["type"] == kind]
            for name, value in vars(callback).items():
                known = name in NOT_STATE or all(name in one for one in saved)
                if not (known and saved) and before.get(name) is not value:
                    return f"{_called(callback)} keeps what is not saved in {name}"
        return None


def begins_anew(callbacks: Iterable[Any]) -> str | None:
    """Which of ``callbacks`` does something of the script's own when a ``fit`` begins;
    None: none does."""
    for one in callbacks:
        for name in BEGINNINGS:
            module = getattr(getattr(one, name, None), "__module__", "")
            if not str(module).startswith("keras."):
                return _called(one)
    return None


def _called(callback: Any) -> str:
    own: str | None = getattr(type(callback), "trainwarden_called", None)
    return own or f"the callback {type(callback).__name__}"


def _is_keras_own(callback: Any) -> bool:
    """Keras' own callbacks keep writers and profilers, which they make again."""
    return type(callback).__module__.startswith("keras.")


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116  # a path of the user's, any kind
    except OSError:
        return None


def decode_all(
    callbacks: list[Any],
    states: list[Any],
    stored: Any,
    places: Places,
    made: decode.Made,
) -> list[str]:
    """Give ``callbacks`` their ``states``; returns a sentence for each that has none.
    ``made``: see ``StateDecoder``."""
    told = []

    def assign(existing: Any, array: Any, kind: str) -> Any:
        # The model has its own values by now: these are none of them.
        free = None if places.is_taken(existing) else existing
        return backend.values.framework_value(free, array, kind)

    decoder = decode.StateDecoder(
        stored,
        assign=assign,
        variable_at=places.variable_at,
        whole=states,
        made=made,
    )
    for index, callback in enumerate(callbacks):
        state = states[index] if index < len(states) else None
        if state is None or state["type"] != encode.type_name(callback):
            told.append(
                f"the callback {type(callback).__name__} was not there when the"
                " snapshot was taken: it starts anew"
            )
            continue
        present = vars(callback)
        for name, value in state["attributes"].items():
            existing = present.get(name)
            try:
                setattr(callback, name, decoder.decode(value, existing=existing))
            except (NoWayBackError, UntrustedNameError) as error:
                told.append(f"{_called(callback)} keeps its own {name}: {error}")
        if isinstance(callback, keras.callbacks.CSVLogger):
            told += _cut_csv(callback, state.get("file_bytes"))
    return told


@contextlib.contextmanager
def deaf(callbacks: Iterable[Any]) -> Iterator[None]:
    """Within, ``callbacks`` do not hear of batches of the training."""
    names = ("on_train_batch_begin", "on_train_batch_end")
    given = [(one, name) for one in callbacks for name in names]
    covered = [(one, name, vars(one).get(name)) for one, name in given]
    for one, name in given:
        vars(one)[name] = _nothing
    try:
        yield
    finally:
        for one, name, before in covered:
            del vars(one)[name]
            if before is not None:
                vars(one)[name] = before


def _nothing(*_arguments: Any, **_more: Any) -> None:
    """What a callback does that does not hear."""


def keep_csv_rows(callbacks: Iterable[Any]) -> list[tuple[Any, bool]]:
    """Before a resumed ``fit``: CSVLogger would empty its file when training begins."""
    loggers = [one for one in callbacks if isinstance(one, keras.callbacks.CSVLogger)]
    kept = [(one, one.append) for one in loggers]
    for logger in loggers:
        logger.append = True
    return kept


def _cut_csv(logger: Any, size: int | None) -> list[str]:
    """Let the file end where it ended at the snapshot: replayed rows come again."""
    present = _size(logger.filename)
    logger.writer = None  # made again at the next row, with the same columns
    logger.append_header = logger.append_header and logger.keys is None
    if size is None or present is None or logger.csv_file is None:
        return []
    if present < size:
        return [f"{logger.filename} is shorter than it was: rows are missing"]
    logger.csv_file.flush()
    os.truncate(logger.filename, size)
    return []


def _is_put_back(path: str) -> bool:
    attempt = current()
    return attempt is not None and attempt.files.looks_after(path)
