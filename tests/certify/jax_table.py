"""The table of Keras on JAX: the scripts that run there, and some of its own."""

from dataclasses import replace

from tests.certify.table import SAME, TABLE, CertifyRow, NoProof

SAME_SCRIPTS = (
    "arrays_seeded", "arrays_unseeded", "arrays_unshuffled", "arrays_batch",
    "arrays_steps_per_epoch", "tf_shuffle", "tf_shuffle_unseeded", "tf_repeat",
    "tf_cache", "tf_interleave", "tf_stateless_map", "tf_stateful_map", "tf_chained",
    "tf_unordered", "tf_stateful_parallel", "py_dataset", "py_dataset_workers",
    "py_dataset_unshuffled", "py_dataset_own_order", "py_dataset_global_random",
    "generator", "loader", "validation", "validation_steps", "early_stopping", "files",
    "appended_files", "rewritten_files", "fold_files", "tensorboard",
    "backup_and_restore", "caught_and_again", "own_callback", "lambda_callback",
    "several_fits", "clear_session", "seed_again", "own_fit", "ema", "mixed_precision",
    "steps_per_execution", "steps_per_execution_jit", "schedule", "several_inputs",
    "ordinary_split", "ordinary_permutation", "ordinary_folds", "ordinary_files",
    "ordinary_default_rng", "ordinary_kinds_of_generators", "ordinary_seed_midway",
    "ordinary_set_of_words", "ordinary_pandas", "ordinary_sklearn",
    "ordinary_class_weights", "ordinary_mixup", "ordinary_search",
    "ordinary_augment_layers", "ordinary_early_stopping", "ordinary_pipeline",
    "ordinary_py_dataset", "ordinary_generator", "hidden_draws", "hidden_large",
    "hidden_frame", "hidden_recurrent",
)  # fmt: skip
"""Rows of the other table, by name."""
UNSEEDED_ARE_KERAS_OWN = ("arrays_unseeded",)


def _row(name: str, features: str, **more: object) -> CertifyRow:
    return CertifyRow(name=f"jax_{name}", features=features, quiet=True, **more)  # type: ignore[arg-type]


OWN = (
    _row("arrays", "arrays shuffled, BatchNorm, Dropout; nobody looks within an epoch",
        kills=6, keeps_compilations=True),
    _row("memory", "the same, both tiers", memory=True, kills=6),
    _row("sgd", "SGD with momentum, arrays of JAX"),
    _row("train_step", "a train_step of its own, without state", memory=True),
    _row("steps_per_execution", "steps_per_execution=3, a short last batch",
        memory=True),
    _row("data", "tf.data of unknown length, steps_per_execution=2", ledger=SAME),
    _row("eager", "run_eagerly"),
    _row("early_stopping", "EarlyStopping, ReduceLROnPlateau, validation", memory=True),
    _row("keys", "a callback with random keys and arrays of JAX"),
    _row("each_batch", "a callback that sets the learning rate at each batch"),
    _row("attention", "embedding, attention, recurrent dropout, bfloat16"),
    _row("unseeded", "no seed, unseeded layers, keras.random", plain=False, memory=True),
    _row("callbacks_look", "callbacks that look at the model at some batches"),
    _row("constant", "a plain value that the compiled step uses, changed by a callback",
        why_no_bits="when it was compiled"),
    _row("sliced", "slices of 7 samples, BatchNorm, Dropout; killed under one plan",
        slice_size=7, plain=False, told="slices", no_proof=NoProof.NOT_PROMISED,
        memory=True),
    _row("folds", "four models in turn, two fits each", kills=6),
)  # fmt: skip
"""What is JAX's own: where the values are within an epoch."""

JAX_TABLE = (*(replace(row) for row in TABLE if row.name in SAME_SCRIPTS), *OWN)
JAX_SHORT = ("jax_arrays", "jax_train_step", "arrays_seeded", "tf_shuffle")
