"""Two states of a ``fit`` side by side: every tensor, and all that is JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supervisor.wire.snapshots.seal import KEY
from trainers.process.script.unrepeatable_draws import SEEDS_SET
from trainers.snapshots import model_description
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.resume_proof import COMPUTATION, COMPUTE
from trainers.snapshots.tensor_image import Tensor
from trainers.state import encode
from trainers.state.fit_state import TOLD_APART

NAMED = 4
"""Of what differs, so many are named."""
LOOKED_AT = "last_finite"
"""Key of ``local``: when somebody last looked at the loss; it depends on time."""
HEADER = "append_header"
"""Attribute of CSVLogger: a file that goes on has its header."""
_NOT_STATE = frozenset(
    {
        "script",
        "tries",
        "files",
        "loop_files",
        "loop_why_not",
        "fit_why_not",
        "variables",
        "replicas",
        "device",
        KEY,
        COMPUTATION,
        COMPUTE,
        TOLD_APART,
        SEEDS_SET,
    }
)
"""What is not compared: ``variables``, say, are names, and one that is made when it is
restored may be made in another scope; on how many devices, and on which, is told before
anything is given back, and snapshots of older versions do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What came of a proof."""

    tensors: int
    """So many were compared."""
    variables: tuple[str, ...] = ()
    """Names of the variables that differ."""
    others: tuple[str, ...] = ()
    """Where else the state differs, by path."""
    of: int = 0
    """Variables that were compared."""

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.variables and not self.others

    @property
    def sentence(self) -> str:
        """What differs, in half a sentence; nothing does: empty."""
        parts = []
        if self.variables:
            many = f"{len(self.variables)} of {self.of} variables"
            parts.append(f"{many} ({_listed(self.variables)})")
        if self.others:
            parts.append(_listed(self.others))
        return " and ".join(parts)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def compare(
    newer: Snapshot, state: Mapping[str, Any], tensors: Sequence[Tensor]
) -> Comparison:
    """``state`` and ``tensors``, as they would be saved now, beside those of ``newer``."""
    kept = {name: one for name, one in newer.tensors.items() if _is_state(name)}
    now = {one.name: one for one in tensors if _is_state(one.name)}
    names: list[str] = newer.manifest.state["variables"]
    differing = [
        name
        for name in sorted({*kept, *now})
        if name not in kept or name not in now or not _same(kept[name], now[name])
    ]
    before, after = _plain(newer.manifest.state), _plain(state)
    _leave_out_what_one_could_not_save(before, after)
    # A tensor that only one of the two has is named by no path of the other.
    leaves = [*_leaves(after, ""), *_leaves(before, "")]
    places = {value: path for path, value in leaves}
    elsewhere = [places.get(one, one) for one in differing if not _is_of(one)]
    return Comparison(
        tensors=len(now),
        variables=tuple(_variable(names, one) for one in differing if _is_of(one)),
        others=tuple(sorted({*elsewhere, *differences(before, after)})),
        of=len(names),
    )


def _is_state(tensor: str) -> bool:
    """Not the model's description, which is written once for many snapshots."""
    return tensor != model_description.NAME


def _is_of(tensor: str) -> bool:
    """Whether ``tensor`` is that of a variable."""
    return tensor.startswith("variable/")


def _variable(names: Sequence[str], tensor: str) -> str:
    index = int(tensor.removeprefix("variable/"))
    return names[index] if index < len(names) else tensor


def _same(kept: np.ndarray, tensor: Tensor) -> bool:
    now = np.asarray(tensor.read())
    same_kind = now.dtype == kept.dtype and now.shape == kept.shape
    return same_kind and now.tobytes() == kept.tobytes()


def _plain(state: Mapping[str, Any]) -> Any:
    """As JSON gives it back, dictionaries by their keys."""
    left = {key: value for key, value in state.items() if key not in _NOT_STATE}
    whole = json.loads(json.dumps(left))
    found = _by_key(whole, dict(_labelled(whole, "")))
    found["local"].pop(LOOKED_AT, None)
    for callback in found["callbacks"]:
        callback["attributes"].pop(HEADER, None)
    return found


def _leave_out_what_one_could_not_save(before: Any, after: Any) -> None:
    """An attribute that is None in one, and not there in the other: a writer or a file,
    say, that CSVLogger opens again when it needs it."""
    for old, new in zip(before["callbacks"], after["callbacks"], strict=False):
        for one, other in ((old, new), (new, old)):
            ours, theirs = one["attributes"], other["attributes"]
            empty = [name for name, value in ours.items() if value is None]
            for name in set(empty) - set(theirs):
                del ours[name]


def _labelled(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The labels in ``value``, which are numbers, each with the path to what has it."""
    label = encode.label_of(value)
    if label is not None:
        yield label, path
    for inner, one in _parts(value, path):
        yield from _labelled(one, inner)


def _by_key(value: Any, labels: Mapping[str, str]) -> Any:
    """``value`` with the dictionaries that were encoded as pairs as such again, and paths
    for labels."""
    if isinstance(value, list):
        items = value if encode.label_of(value) is None else value[1:]
        return [_by_key(one, labels) for one in items]
    if not isinstance(value, dict):
        return value
    kind = value.get(encode.KIND)
    if kind == "same":
        return {encode.KIND: kind, "v": labels.get(value["v"])}
    if kind == "dict":
        return {_text(key): _by_key(one, labels) for key, one in value["v"]}
    kept = (key for key in value if key != encode.LABEL or kind is None)
    return {key: _by_key(value[key], labels) for key in kept}


def _text(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each text in ``value``, with the path to it."""
    if isinstance(value, str):
        yield path, value
    for inner, one in _parts(value, path):
        yield from _leaves(one, inner)


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield (f"{path}.{key}" if path else key), one
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield f"{path}[{index}]", one


def differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """The paths at which two values of JSON differ."""
    ours, theirs = dict(_parts(before, path)), dict(_parts(now, path))
    if type(before) is type(now) and ours and ours.keys() == theirs.keys():
        for inner, one in ours.items():
            yield from differences(one, theirs[inner], inner)
    elif json.dumps(before) != json.dumps(now):  # NaN is itself
        yield path
