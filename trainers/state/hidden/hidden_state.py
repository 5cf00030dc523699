"""State that training changes and that belongs to no model: found by what changes.

When a ``fit`` begins, all that it can reach is marked (``reachable``). What is another
when a snapshot is taken is part of it, and given back in place. What has changed and
cannot be saved is named then, long before the crash that would lose it.
"""

import contextlib
import logging
import pathlib
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from trainers.backends import torch_loaders
from trainers.backends.selected import backend
from trainers.snapshots.tensor_image import Tensor
from trainers.state import array_views, decode, encode, iterator_state
from trainers.state.callback_state import FILES, refers
from trainers.state.compilation import Compilation
from trainers.state.hidden import (
    baked_values,
    late_models,
    reachable,
    watched_variables,
)
from trainers.state.hidden.baked_values import BakedValues
from trainers.state.hidden.fingerprint import Mark
from trainers.state.hidden.library_state import UnsavedCache
from trainers.state.hidden.marks import (
    Name,
    arrays_held,
    changed,
    flat,
    mark_of_table,
    marks_of,
    nested,
    plain_values,
    unchanged,
    values_of,
)
from trainers.state.hidden.owner import Owner
from trainers.state.hidden.reachable import Reached
from trainers.state.references import UntrustedNameError
from trainers.state.variable_state import Places

KEY = "hidden"
"""Where it stands in a snapshot's JSON."""
OLD_KEY = "outside"
"""Where an earlier version kept what one callback reaches, by name alone."""
MOST_BYTES = 256 << 20
"""Of arrays that are no variables, for one name."""
GLOBAL_GENERATOR = "tf.random.get_global_generator()"

PASSING = (
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType,
    *FILES, threading.Thread, type(threading.Lock()), logging.Logger,
)  # fmt: skip
"""What a name may stand for that is no state: the script makes it again."""
LOST = (
    "training changes {}, which holds {} and cannot be saved: after a restart it is what"
    " the script makes it at the start"
)
LARGE = (
    "training changes {}, which takes {:.0f} MiB and is too large to be saved with each"
    " snapshot: after a restart it is what the script makes it at the start"
)
OF_DATA = (
    "the data change {} as they are drawn, which happens ahead of training: after a"
    " restart samples are neither repeated nor skipped, but what is drawn may differ"
)
UNSEEN = (
    "what training changes outside of the model cannot be looked at ({}): after a restart"
    " it is what the script makes it at the start"
)
STRAY = (
    "a step without data, in which a restart makes the model's variables, changes {}, which"
    " the snapshot does not have: it stays as that step has left it"
)
GONE = "what {} held is in the snapshot, but there is no such thing now"
STAYS = "{} cannot be put where it was: {}"


def of_call(
    model: Any, callbacks: Iterable[Any], data: Any, validation_data: Any = None
) -> "HiddenState":
    """What the ``fit`` that is about to train ``model`` on ``data`` can reach."""
    own = data if isinstance(data, keras.utils.PyDataset) else None
    # Elsewhere they are read ahead of training: what they change belongs to no step.
    given = {"data": data, "validation data": validation_data}
    loaded = given.items() if backend.fit.LOADS else ()
    more = [part for path, one in loaded for part in torch_loaders.parts(one, path)]
    if (
        isinstance(validation_data, keras.utils.PyDataset)
        and validation_data is not own
    ):
        more.append(("validation data", validation_data))  # a whole pass at a time
    return HiddenState(model, callbacks, own, more)


def _where(error: Exception) -> str:
    """``error``, and the line that raised it: of the script's own attributes, or ours."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{error!r}, {pathlib.Path(last.filename).name}:{last.lineno}"


def told_of(state: Mapping[str, Any]) -> list[str]:
    """Why bits are not promised any more once ``state``, of a snapshot, is restored."""
    baked = (state.get(KEY) or {}).get("baked", ())
    return baked_values.told_of((path, name) for path, name in baked)


class HiddenState:
    """What one ``fit`` can reach, beside what is saved anyway."""

    def __init__(
        self,
        model: Any,
        callbacks: Iterable[Any],
        dataset: Any = None,
        more: Iterable[tuple[str, Any]] = (),
    ) -> None:
        """``dataset``: the ``PyDataset`` it trains on, if it does. ``more``: what else it
        calls, by path."""
        self._model, self._callbacks = model, list(callbacks)
        self._dataset, self._more = dataset, list(more)
        self._compilation = Compilation(model)
        self._marks: dict[Name, Mark] = {}
        self._data: dict[Name, Mark] = {}
        self._variables_of_data: dict[str, Any] = {}
        """Their marks, as they were when each was seen first."""
        self._variables = watched_variables.WatchedVariables()
        self._late = late_models.LateModels(model)
        self._tables: dict[str, Mark] = {}
        self._baked = BakedValues(model)
        self._large: dict[Name, str] = {}
        """What was told of each that is too large: once, as it may grow on."""
        self._wrong: str | None = None
        """What went wrong when it was looked at."""
        try:
            self._mark()
        except Exception as error:  # noqa: BLE001  # of the script's own attributes, too
            self._wrong = _where(error)

    def _mark(self) -> None:
        found = self._look()
        self._marks = marks_of(found)
        self._variables.begin(found)
        self._late.begin(found)
        self._tables = {path: mark_of_table(one) for path, one in found.tables.items()}
        if self._dataset is not None:
            of_data = self._of_data(found)
            self._data = marks_of(of_data)
            self._variables_of_data = watched_variables.marks_of(of_data)

    def _look(self) -> Reached:
        found = reachable.reachable(
            self._model, self._callbacks, self._more, apart=self._dataset
        )
        generator = backend.hidden.global_generator()
        if generator is not None:
            found.variables.setdefault(GLOBAL_GENERATOR, generator)
        return found

    def _of_data(self, training: Reached) -> Reached:
        """What only the data reach."""
        found = reachable.reachable_from_data(self._dataset)
        known = {(o.path, name) for o in training.owners.values() for name in o.names}
        owners = {
            path: Owner(
                path,
                tuple(name for name in one.names if (path, name) not in known),
                one.values,
                one.put,
            )
            for path, one in found.owners.items()
        }
        seen = {id(backend.values.tensor_of(v)) for v in training.variables.values()}
        variables = {
            path: one
            for path, one in found.variables.items()
            if id(backend.values.tensor_of(one)) not in seen
        }
        return Reached(owners=owners, variables=variables, tables={}, models={})

    def traced(self, function: str) -> bool:
        """The model's ``function`` (``TRAIN``, ``TEST``) may just have been traced, for the
        first time: plain values that it used are part of it from here on. Whether it has
        been by now."""
        return self._baked.traced(function, self._look)

    def named(self) -> dict[str, Any]:
        """The variables beside the model's: see ``WatchedVariables.named``."""
        return self._variables.named()

    def variables(self) -> list[Any]:
        """Those that are watched."""
        try:
            return list(self._look().variables.values())
        except Exception:  # noqa: BLE001  # ``capture`` tells
            return []

    def capture(
        self, places: Places, met: encode.Met | None = None
    ) -> tuple[dict[str, Any], list[Tensor], list[str]]:
        """What has changed, as JSON and tensors, and a sentence for what is not there.

        ``places``: of the variables that are saved with the model, and of those ``named``.
        ``met``: what else is saved, of callbacks, which may be what is met here.
        """
        try:
            if self._wrong is None:
                return self._changes(places, met)
        except Exception as error:  # noqa: BLE001  # it must not end training
            self._wrong = _where(error)
        return {"values": {}}, [], [UNSEEN.format(self._wrong)]

    def _changes(
        self, places: Places, met: encode.Met | None
    ) -> tuple[dict[str, Any], list[Tensor], list[str]]:
        found, told = self._look(), list[str]()
        moved = watched_variables.moved(found, places)
        variables = watched_variables.present(found, places, moved)
        encoder = encode.StateEncoder(
            f"{KEY}/",
            array_of=backend.values.framework_array,
            kind_of=backend.values.kind_of,
            refers=refers,
            place_of=places.of,
            place_of_id=places.of_id,
            met=met,
        )
        values = {
            name: self._encoded(encoder, name, value, told)
            for name, value in changed(found, self._marks)
        }
        values |= _met_again(found, values, encoder)
        variables = {
            name: one
            for name, one in sorted(variables.items())
            if self._variables.has_changed(name, one)
        }
        tensors = {
            name: encoder.tensor(np.array(backend.values.framework_array(one)))
            for name, one in variables.items()
        }
        lost = {reachable.at(*name) for name, one in values.items() if one is None}
        told += (
            late_models.LATE.format(owner)
            for owner in self._late.lost(variables, found, places, encoder.has_met)
            if owner not in lost  # told already
        )
        tables = {
            path: [*map(encoder.encode, backend.hidden.table_content(one))]
            for path, one in sorted(found.tables.items())
            if self._tables.get(path) != mark_of_table(one)
        }
        if self._dataset is not None:
            of_data = self._of_data(found)
            drawn = changed(of_data, self._data)
            told += [OF_DATA.format(reachable.at(*name)) for name, _ in drawn]
            told += map(OF_DATA.format, self._drawn_variables(of_data, places))
        self._baked.compare(found)
        baked = sorted(self._baked.names)
        told += baked_values.told_of(baked)
        traced = self._baked.capture(values, encoder.encode)
        encoder.met.join(arrays_held(found, values))
        compiled, why_not = self._compilation.capture()
        told += why_not
        state = {
            "baked": [list(name) for name in baked],
            "built": self._late.builds(found),
            "compiled": compiled,
            "traced": traced,
            "values": nested({k: v for k, v in values.items() if v is not None}),
            "moved": sorted(moved),
            "variables": tensors,
            "tables": tables,
        }
        return state, encoder.tensors, told

    def _drawn_variables(self, of_data: Reached, places: Places) -> Iterator[str]:
        """Those that only the data reach, and that have changed: the seed of a layer that
        augments them, say. One that they made on the way, a weight, is as it was made."""
        for path, one in sorted(of_data.variables.items()):
            if places.is_of_model(one):
                continue
            now = backend.hidden.mark(one)
            before = self._variables_of_data.setdefault(path, now)
            if not backend.hidden.same_mark(before, now):
                yield path

    def _encoded(
        self, encoder: encode.StateEncoder, name: Name, value: Any, told: list[str]
    ) -> Any:
        """``value`` as JSON in a list; None: it is left out."""
        if isinstance(value, UnsavedCache):
            told.append(LOST.format(reachable.at(*name), value))
            return None
        before = encoder.mark
        try:
            found = encoder.encode(value)
        except encode.UnencodableError as error:
            if not isinstance(value, PASSING):
                told.append(LOST.format(reachable.at(*name), error))
            return None
        size = sum(one.nbytes for one in encoder.tensors[before[0] :])
        if size > MOST_BYTES:
            encoder.back_to(before)
            large = LARGE.format(reachable.at(*name), size / (1 << 20))
            told.append(self._large.setdefault(name, large))
            return None
        return [found]

    def goes_back(self, state: Mapping[str, Any]) -> None:
        """``state``, of a snapshot, is given back in the process that took it: functions
        that were traced later are taken for traced when they are called again, where they
        would have been traced the same."""
        self._baked.goes_back(state.get(KEY, {}))

    def beyond(self, state: Mapping[str, Any], places: Places) -> str | None:
        """What has changed since ``fit`` began although ``state``, of a snapshot, does not
        have it: this process cannot give that back. In half a sentence; None: nothing.

        ``places``: of the variables that are saved with the model.
        """
        try:
            return self._wrong or next(self._beyond(state.get(KEY, {}), places), None)
        except Exception as error:  # noqa: BLE001  # as in ``capture``
            return repr(error)

    def _beyond(self, kept: Mapping[str, Any], places: Places) -> Iterator[str]:
        compiled, why_not = self._compilation.capture()
        if compiled or why_not:
            yield "a callback compiled the model anew, or let other layers train"
        found = self._look()
        saved = flat(kept.get("values", {}))
        now = {
            (o.path, name) for o in found.owners.values() for name, _ in values_of(o)
        }
        lost = [name for name, _ in changed(found, self._marks) if name not in saved]
        for name in [*lost, *(self._marks.keys() - now)]:
            yield f"{reachable.at(*name)} has changed since the snapshot"
        moved = watched_variables.moved(found, places)
        for path, one in watched_variables.present(found, places, moved).items():
            known = path in kept.get("variables", {})
            if not known and self._variables.has_changed(path, one):
                yield f"{path} has changed since the snapshot"
        for path, one in found.tables.items():
            known = path in kept.get("tables", {})
            if not known and self._tables.get(path) != mark_of_table(one):
                yield f"{path} has changed since the snapshot"

    def keep_while(
        self, build: Callable[[], None], state: Mapping[str, Any]
    ) -> list[str]:
        """Let ``build`` take steps without data, which change more than variables. What of
        that is not in ``state``, which is given back next, is put back if it is plain: a
        step of zeros may go another way. A sentence for each that is not."""
        try:
            before = self._look()
        except Exception:  # noqa: BLE001  # ``restore`` tells
            build()
            return []
        marks, plain = marks_of(before), plain_values(before)
        held = watched_variables.marks_of(before)
        build()
        found, kept = self._look(), state.get(KEY) or {}
        saved = flat(kept.get("values", {}))
        stray = watched_variables.others_changed(found, held, kept.get("variables", {}))
        for place, value in [*changed(found, marks)]:
            path, name = place
            if place in saved or place not in marks:
                continue
            if place in plain:
                found.owners[path].put(name, plain[place])
            elif not isinstance(value, PASSING):
                stray.append(reachable.at(path, name))
        return [STRAY.format(one) for one in stray]

    def compile_again(self, state: Mapping[str, Any]) -> list[str]:
        """As a callback had compiled the model when ``capture`` was asked, where one had;
        before its variables are looked for. A sentence, where that cannot be."""
        compiled = state.get(KEY, {}).get("compiled", {})
        own = {
            name: value
            for name, value in vars(sys.modules["__main__"]).items()
            if isinstance(value, (type, types.FunctionType))
        }
        return self._compilation.restore(compiled, own) if compiled else []

    def trace_again(
        self, state: Mapping[str, Any], trace: Mapping[str, Callable[[], None]]
    ) -> None:
        """Let ``trace``, by function, be done with the plain values of that time."""
        self._baked.trace_again(state.get(KEY, {}), trace, self._look)

    def keep_places(self, state: Mapping[str, Any], made: decode.Made) -> None:
        """Before anything is given back: what has to go into what is there now, as nothing
        else can be put there, or it is for what has not changed."""
        if not made.told_apart:
            return
        with contextlib.suppress(Exception):  # ``restore`` tells
            self._keep_places(state, made)

    def _keep_places(self, state: Mapping[str, Any], made: decode.Made) -> None:
        whole = [state.get(KEY, {}), state.get("callbacks")]
        nodes = dict(decode.labelled_in(whole))
        values = flat(whole[0].get("values", {}))
        held = [
            ((o.path, name), value)
            for o in self._look().owners.values()
            for name, value in values_of(o)
        ]
        held.sort(key=lambda one: not one[0][0].endswith(reachable.GIVEN))
        for place, value in held:
            if place not in values:
                made.keep(value)
                if isinstance(value, np.ndarray):
                    made.held[place] = value
            elif place[0].endswith(reachable.GIVEN):
                node = _node(values[place][0], nodes)
                made.keep(value, node)
                made.goes_into(node, value)
        for place, value in held:
            if place in values:
                node = _node(values[place][0], nodes)
                made.goes_into(node, value)
                if isinstance(value, np.ndarray):  # a part of it is no place for others
                    made.keep(value, node)

    def restore(
        self,
        state: Mapping[str, Any],
        stored: Mapping[str, np.ndarray],
        places: Places,
        made: decode.Made | None = None,
    ) -> list[str]:
        """Give back what ``capture`` had; a sentence for what has no place any more.
        ``made``: what else was given back, of callbacks."""
        if made is None:
            self.keep_places(state, made := decode.Made())
        try:
            return self._give_back(state, stored, places, made)
        except Exception as error:  # noqa: BLE001  # as in ``capture``
            return [UNSEEN.format(_where(error))]

    def _give_back(
        self,
        state: Mapping[str, Any],
        stored: Mapping[str, np.ndarray],
        places: Places,
        made: decode.Made,
    ) -> list[str]:
        hidden = state.get(KEY) or {"values": _of_old(state)}

        def assign(existing: Any, array: np.ndarray, kind: str) -> Any:
            free = None if places.is_taken(existing) else existing
            return backend.values.framework_value(free, array, kind)

        decoder = decode.StateDecoder(
            stored,
            assign=assign,
            variable_at=places.variable_at,
            whole=[hidden, state.get("callbacks")],
            made=made,
        )
        self._baked.names.update((path, name) for path, name in hidden.get("baked", ()))
        self._compilation.unfreeze(hidden.get("compiled", {}))
        told = self._put_values(flat(hidden["values"]), decoder)
        found = self._look()
        late_models.build(found, hidden.get("built", {}))
        found = self._look()
        moved = hidden.get("moved", ())
        variables = watched_variables.present(found, places, moved)
        for name, tensor in hidden.get("variables", {}).items():
            if name in variables:
                backend.values.assign_whole(variables[name], stored[tensor])
            else:
                told.append(GONE.format(name))
        for path, content in hidden.get("tables", {}).items():
            if path in found.tables:
                backend.hidden.fill_table(
                    found.tables[path], *(decoder.decode(one) for one in content)
                )
            else:
                told.append(GONE.format(path))
        return told

    def _put_values(
        self, values: dict[Name, Any], decoder: decode.StateDecoder
    ) -> list[str]:
        """One that is put in its place may lead to the place of another."""
        told: list[str] = []
        while values:
            owners = self._look().owners
            if self._dataset is not None:
                owners |= reachable.reachable_from_data(self._dataset).owners
            ready = [name for name in values if name[0] in owners]
            for name in ready:
                problem = _put(owners[name[0]], name[1], values.pop(name), decoder)
                if problem is not None:
                    told.append(STAYS.format(reachable.at(*name), problem))
            if not ready:
                break
        return told + [GONE.format(reachable.at(*name)) for name in values]


def _met_again(
    found: Reached, values: Mapping[Name, Any], encoder: encode.StateEncoder
) -> dict[Name, Any]:
    """The names that have not changed, of what was met where something has, or lies in the
    memory of that."""
    return {
        name: [encoder.encode(value)]
        for name, value in unchanged(found, values)
        if isinstance(value, decode.CHANGEABLE_TYPES)
        and (encoder.has_met(value) or encoder.has_met(array_views.owner_of(value)))
    }


def _node(encoded: Any, nodes: Mapping[str, Any]) -> Any:
    """``encoded``, or what it is the same as."""
    same = isinstance(encoded, dict) and encoded[encode.KIND] == "same"
    return nodes.get(encoded["v"]) if same else encoded


def _put(
    owner: Owner, name: str, encoded: Any, decoder: decode.StateDecoder
) -> str | None:
    """Let ``name`` have its value, in place where it can be; why not, or None."""
    existing = owner.values().get(name)
    try:
        value = decoder.decode(encoded[0], existing=existing)
    except (
        iterator_state.NoWayBackError, UntrustedNameError, TypeError, AttributeError,
    ) as error:  # fmt: skip
        return str(error)
    if value is not existing:
        owner.put(name, value)
    return None


def _of_old(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What an earlier version saved of each callback's surroundings, as ``values``."""
    found: dict[Name, Any] = {}
    for callback in state["callbacks"]:
        for key, encoded in callback.get(OLD_KEY, {}).items():
            function, cell, name = key.rpartition("/")
            found[f"{function}{cell}", name] = [encoded]
    return nested(found)
