"""Two states of a fit, side by side."""

from pathlib import Path
from typing import Any

import numpy as np

from supervisor.wire.snapshots.manifest import FORMAT, Manifest
from trainers.snapshots.durable_store import Snapshot, SnapshotEntry
from trainers.snapshots.tensor_image import of_array
from trainers.state.state_comparison import Comparison, compare


def state(**attributes: Any) -> dict[str, Any]:
    """Of one variable and one callback."""
    return {
        "variables": ["dense/kernel"],
        "local": {"epoch": 1, "last_finite": None},
        "callbacks": [{"attributes": attributes}],
        "tries": 0,
    }


def taken(of: dict[str, Any], kernel: float) -> Snapshot:
    """A snapshot of it."""
    manifest = Manifest(
        format=FORMAT, job="job", attempt=1, serial=1, step=4, fit=0, fit_done=False,
        epoch=1, step_in_epoch=0, batch=4, samples=16, slices=1, tensors_bytes=0,
        tensors_hash="", wall_time=0.0, state=of,
    )  # fmt: skip
    tensors = {"variable/0": np.array([kernel])}
    return Snapshot(SnapshotEntry(Path("4-1"), 4, 1), manifest, tensors)


def compared(
    before: dict[str, Any], now: dict[str, Any], *, kernel: float = 1.0
) -> Comparison:
    """The state ``now``, with this kernel, beside ``before``, whose kernel is 1."""
    tensors = [of_array("variable/0", np.array([kernel]))]
    return compare(taken(before, 1.0), now, tensors)


def test_what_differs_is_named() -> None:
    """A variable by its name, the rest by its path; NaN is itself."""
    assert compared(state(best=float("nan")), state(best=float("nan"))).equal
    found = compared(state(best=1.0), state(best=2.0), kernel=2.0)
    assert (
        found.sentence
        == "1 of 1 variables (dense/kernel) and callbacks[0].attributes.best"
    )


def test_what_is_none_here_and_could_not_be_saved_there_is_the_same() -> None:
    """CSVLogger's writer, before the first line after a resume; nothing else is left out."""
    assert compared(state(keys=["loss"]), state(keys=["loss"], writer=None)).equal
    assert compared(state(keys=["loss"], writer=None), state(keys=["loss"])).equal
    assert not compared(state(writer=1), state()).equal
    assert not compared(state(writer=1), state(writer=None)).equal


def test_a_tensor_that_only_one_has_is_told_by_its_place() -> None:
    """Not by the name that it has in the snapshot."""
    array = {"!": "array", "v": "callback/0000"}
    tensors = [
        of_array("variable/0", np.array([1.0])),
        of_array("callback/0000", np.array([2.0])),
    ]
    found = compare(taken(state(best=None), 1.0), state(best=array), tensors)
    assert found.others == (
        "callbacks[0].attributes.best",
        "callbacks[0].attributes.best.v",
    )


def test_names_of_variables_are_no_state() -> None:
    """An optimizer that is built while it is restored has others."""
    assert compared(state(), {**state(), "variables": ["adam/dense/kernel"]}).equal


def test_a_snapshot_of_before_devices_were_known_is_comparable() -> None:
    """An older version did not say on what it computed: no resume is disproved by that."""
    here = {**state(), "replicas": 1, "device": {"kind": "cpu", "model": "A"}}
    assert compared(state(), here).equal
