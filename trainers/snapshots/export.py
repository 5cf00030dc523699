"""The export of a snapshot to ordinary Keras: ``PYTHON .../export.py SNAPSHOT OUT``.

Run by the job's own interpreter. ``OUT`` ends in ``.keras`` (the model with its
optimizer) or ``.weights.h5``. Ends with 0, or with 1 and a sentence on standard error.
"""

import sys

# As in ``launch``: our directory must not shadow modules of others.
if __name__ == "__main__":
    sys.path.pop(0)

import importlib.util
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]


class NotExportedError(Exception):
    """Why there is no file; the text is the sentence for a person."""


def _expose() -> None:
    """Make ``supervisor`` and ``trainers`` importable, and nothing else."""
    spec = importlib.util.spec_from_file_location("_held", HERE / "held_modules.py")
    assert spec is not None  # noqa: S101  # it lies beside this file
    assert spec.loader is not None  # noqa: S101  # as it is a file
    held_modules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(held_modules)
    held_modules.expose(HERE.parent)


def export(source: Path, out: Path) -> None:
    """Write the model in the snapshot ``source`` to ``out``.

    Raises:
        NotExportedError: the snapshot is damaged, or its model needs the script.
    """
    from trainers.snapshots import durable_store, model_description  # noqa: PLC0415  # exposed by now

    step, _, serial = source.name.partition("-")
    entry = durable_store.SnapshotEntry(source, int(step), int(serial))
    try:
        taken = durable_store.load(entry, job=None)
    except durable_store.DamagedError as error:
        message = f"the snapshot {source.name} is damaged: {error}"
        raise NotExportedError(message) from error
    model = _rebuild(model_description.read(taken.tensors))
    _fill(model, taken.manifest.state["variables"], taken.tensors)
    if out.name.endswith(".weights.h5"):
        model.save_weights(out)
    else:
        model.save(out)


def _rebuild(description: dict[str, Any] | None) -> Any:
    import keras  # noqa: PLC0415  # the job's, and slow

    from trainers.backends import keras_compat  # noqa: PLC0415  # exposed by now

    if description is None:
        message = (
            "the model cannot be described without its script (its class has no"
            " get_config, or one that failed): load the state there instead"
        )
        raise NotExportedError(message)
    foreign = next(keras_compat.foreign_names(description), None)
    if foreign is not None:
        message = (
            f"the model is made of {foreign}, which is the script's or a library's, and a"
            " snapshot imports nothing: load the state in the script instead"
        )
        raise NotExportedError(message)
    try:
        return keras.saving.deserialize_keras_object(description)
    except Exception as error:
        name = description.get("registered_name") or description.get("class_name")
        first = str(error).strip().splitlines() or [type(error).__name__]
        message = (
            f"the model {name} cannot be made without its script; make its classes"
            " importable and register them (keras.saving.register_keras_serializable):"
            f" {first[0]}"
        )
        raise NotExportedError(message) from error


def _fill(model: Any, names: list[str], stored: Any) -> None:
    """Give ``model`` and its optimizer their values."""
    groups: dict[str, list[Any]] = {"model": [], "optimizer": []}
    for index, name in enumerate(names):
        group = groups.get(name.partition(":")[0])
        if group is not None:
            group.append(stored[f"variable/{index:05d}"])
    _assign("model", model.variables, groups["model"])
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        optimizer.build(model.trainable_variables)
        # Those of the script's own optimizers follow: its class has them, no file can.
        count = len(optimizer.variables)
        _assign("optimizer", optimizer.variables, groups["optimizer"][:count])


def _assign(what: str, variables: list[Any], arrays: list[Any]) -> None:
    shapes = [tuple(variable.shape) for variable in variables]
    if shapes != [array.shape for array in arrays]:
        message = (
            f"the {what}, made again from its configuration, has other variables than"
            f" the snapshot ({len(shapes)} and {len(arrays)})"
        )
        raise NotExportedError(message)
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def main(arguments: list[str]) -> int:
    """Export; returns the exit code."""
    source, out = Path(arguments[0]), Path(arguments[1])
    _expose()
    try:
        export(source, out)
    except NotExportedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"{where}{error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(main(sys.argv[1:]))
