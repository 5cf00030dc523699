"""The table: which scripts are killed, and what must be the same afterwards."""

import enum
from dataclasses import dataclass
from typing import Any

ONCE = "once"
"""Every sample of the data exactly once in each epoch."""
SAME = "same"
"""In each epoch the samples that the undisturbed run had there."""

CLOCK = "another number in each attempt"
"""Of the sentence about a seed that comes from the clock."""
SAMPLES = 96


class NoProof(enum.Enum):
    """Why no resume of a row that is exact is proved."""

    NOT_PROMISED = "the run does not promise bits, though they come out the same"
    WRITTEN_TWICE = "the script writes to files that a restart does not put back"
    SESSION = "loops in a session are not put to the proof"
    NOT_RESUMED = "the loop is not resumed: it begins anew"
    BETWEEN_FITS = "the calls of fit are too short to hold two snapshots of one attempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyRow:
    """One script of ``scripts/``, by the name of its function."""

    name: str
    features: str
    ledger: str = ONCE
    samples: int = SAMPLES
    """How many there are in the training data; ids count from 0."""
    plain: bool = True
    """The undisturbed run is plain Python's; False: ours (its order is the job's)."""
    why_no_bits: str | None = None
    """Part of the sentence that says why bits are not promised; None: they are."""
    disproved: bool = False
    """Its state is hidden on purpose: only a proof can withdraw the promise."""
    told: str | None = None
    """Part of a sentence that has to be told although bits come out the same."""
    no_proof: NoProof | None = None
    """Why none of its resumes is proved; None: one is, if the row is exact."""
    advice: tuple[str, ...] = ()
    """The kinds of advisories that it may be told of."""
    rewinds: bool = False
    """The script itself goes back to earlier weights: its own count does as well."""
    every: int = 3
    """Steps from one snapshot to the next."""
    memory: bool = False
    """Also in memory, at every second step; on disk then seldom."""
    kills: int = 4
    rewind: tuple[str, ...] = ()
    """Directories whose files are put back; not where the ledger lies."""
    keeps_compilations: bool = False
    """What XLA compiled is kept from attempt to attempt, as a spec may ask."""
    slice_size: int | None = None
    """Batches are worked through in slices of so many samples; None: whole."""
    quiet: bool = False
    """No step is written down: the ledger is the model's own count alone."""
    before: str | None = None
    """What the script does before it imports anything of TensorFlow (``row.BEFORE``);
    each attempt is a Python of its own then. None: nothing, and it is forked."""


def _ordinary(name: str, features: str, **more: Any) -> CertifyRow:
    """A script without any seed; its undisturbed run is ours, of the same run seed."""
    whole: dict[str, Any] = {"ledger": SAME, "plain": False, **more}
    return CertifyRow(name=f"ordinary_{name}", features=f"no seed: {features}", **whole)


ORDINARY = (
    _ordinary("split", "np.random, train_test_split, validation data"),
    _ordinary("permutation", "np.random.permutation, validation_split", memory=True),
    _ordinary("folds", "StratifiedKFold, a model for each fold"),
    _ordinary("files", "random.shuffle of a list of files"),
    _ordinary("default_rng", "default_rng() for data and a choice of them"),
    _ordinary("kinds_of_generators", "SeedSequence, RandomState, scipy, random.Random"),
    _ordinary("eager_tensors", "tf.random eager, the global generator"),
    _ordinary("seed_midway", "seeded in the middle of the script", memory=True),
    _ordinary("set_of_words", "the order of a set of words"),
    _ordinary("pandas", "DataFrame.sample"),
    _ordinary("sklearn", "scaler, KMeans, randomized PCA"),
    _ordinary("class_weights", "resampled, class weights"),
    _ordinary("mixup", "mixed samples, noisy labels"),
    _ordinary("search", "random search, a model for each try"),
    _ordinary("augment_layers", "augmentation and noise in layers", memory=True),
    _ordinary("initializers", "initializers, a seed generator in a layer"),
    _ordinary("early_stopping", "split, EarlyStopping, ReduceLROnPlateau", rewinds=True),
    _ordinary("drawing_callback", "a callback that draws, by six ways", memory=True),
    _ordinary("pipeline", "tf.data shuffle, prefetch"),
    _ordinary("py_dataset", "PyDataset that augments", memory=True),
    _ordinary("generator", "Python generator with default_rng()",
        told="Python generator", no_proof=NoProof.NOT_PROMISED),
    _ordinary("map", "tf.data map that draws", memory=True),
    _ordinary("parallel_map", "tf.data parallel map that draws, repeated, with images"),
    _ordinary("called_in_map", "tf.data map that calls a tf.function that draws",
        why_no_bits="without a seed"),
)  # fmt: skip
"""What people write: it survives, and ends as it would have."""


def _followed(name: str, features: str, **more: Any) -> CertifyRow:
    """A loop of the script's own that knows nothing of us."""
    whole: dict[str, Any] = {"memory": True, "ledger": SAME, "rewind": ("out",), **more}
    return CertifyRow(
        name=f"followed_{name}", features=f"own loop: {features}", **whole
    )


FOLLOWED = (
    _followed("tape", "GradientTape in a tf.function, a metric by epoch", kills=6),
    _followed("validation", "a tf.function and an eager model for validation, best"
        " weights, learning rate set"),
    _followed("train_on_batch", "train_on_batch", kills=6),
    _followed("on_batch", "train_on_batch, test_on_batch, predict_on_batch",
        memory=False),
    _followed("gan", "two models, two optimizers, a seed generator", kills=6),
    _followed("saves", "weights, models and checkpoints of 1.3 MB written", kills=5,
        rewinds=True),
    _followed("evaluated", "evaluate and predict between epochs", kills=5),
    _followed("two_loops", "two loops, two models", kills=6),
    _followed("after_fit", "a loop, a fit, a loop", kills=6),
    _followed("accumulation", "gradients added up by one function, applied by another"),
    _followed("retraced", "a short last batch", samples=93),
    _followed("jit", "jit_compile=True", keeps_compilations=True),
    _followed("mixed", "mixed_float16, loss scaling"),
    _followed("unseeded", "no seed", plain=False),
    _followed("policy", "weights put back, learning rate by the loss",
        rewinds=True),
    _followed("target_network", "a second network that follows the first"),
    _followed("several_results", "nested arguments and results"),
    _followed("hidden_state", "stateful tf.random in the step",
        why_no_bits="TensorFlow's own random operations"),
    _followed("eager", "an eager step", told="computed eagerly", no_proof=NoProof.NOT_RESUMED),
    _followed("python_inside", "tf.numpy_function in the step",
        why_no_bits="calls Python"),
    _followed("own_iterator", "the step draws its batch", told="operations that nobody", no_proof=NoProof.NOT_RESUMED),
)  # fmt: skip
"""Loops whose calls are recorded."""


def _hidden(name: str, features: str, **more: Any) -> CertifyRow:
    """A script that keeps state where no model holds it."""
    whole: dict[str, Any] = {"memory": True, **more}
    return CertifyRow(
        name=f"hidden_{name}", features=f"hidden state: {features}", **whole
    )


HIDDEN = (
    _hidden("names", "globals two calls away, classes, slots, functions, defaults",
        rewinds=True),
    _hidden("draws", "generators of NumPy and Python, iterators, a queue"),
    _hidden("eager", "plain attributes of a layer, a loss and a metric, run eagerly"),
    _hidden("variables", "a variable, a lookup table and the global generator in the"
        " train step"),
    _hidden("other_model", "a callback that trains another model, also by a fit",
        told="a fit inside a fit"),
    _hidden("recurrent", "a stateful LSTM"),
    _hidden("large", "an array of 2 MB"),
    _hidden("mapped", "an array in a file"),
    _hidden("table", "a table of pandas, changed in place"),
    _hidden("shared", "objects that a list and a dictionary share"),
    _hidden("places", "names that go from variable to variable, and from row to row of a table"),
    _hidden("inner_optimizer", "what an optimizer of the script's within one that scales the"
        " loss keeps"),
    _hidden("library", "a function's cache, a context variable, attributes of a thread,"
        " the environment"),
    _hidden("cache", "a cache of bounded size, of what is drawn",
        why_no_bits="cannot be saved"),
    _hidden("frame", "a Python generator", why_no_bits="cannot be saved"),
    _hidden("clone", "a model made in training", why_no_bits="cannot be saved"),
    _hidden("in_data", "a generator that a PyDataset draws from",
        why_no_bits="ahead of training"),
    _hidden("compiled", "a callback that unfreezes a layer and compiles anew", kills=6,
        every=2),
    _hidden("random_data", "Dataset.random, anew in each epoch", ledger=SAME),
)  # fmt: skip
"""State that is found by what changes."""


def _fresh(name: str, features: str, **more: Any) -> CertifyRow:
    """A script that draws what no later attempt can draw again."""
    whole: dict[str, Any] = {"ledger": SAME, "plain": False, **more}
    return CertifyRow(
        name=f"fresh_{name}", features=f"not to be repeated: {features}", **whole
    )


FRESH = (
    _fresh("urandom", "data from os.urandom", why_no_bits="os.urandom"),
    _fresh("secrets", "a seed by secrets.randbits", why_no_bits="or secrets"),
    _fresh("system_random", "random.SystemRandom", why_no_bits="random.SystemRandom"),
    _fresh("clock_seconds", "np.random.seed by the clock", why_no_bits=CLOCK),
    _fresh("clock_generator", "default_rng by the clock", why_no_bits=CLOCK),
    _fresh("clock_nanoseconds", "tf.random.set_seed by the clock", why_no_bits=CLOCK),
    _fresh("clock_keras", "set_random_seed by five digits of the clock",
        why_no_bits=CLOCK, memory=True),
    _fresh("clock_shuffle", "shuffled by the clock", why_no_bits=CLOCK),
    _fresh("uuid_seed", "seeds by a uuid, in a helper", why_no_bits=CLOCK),
    _fresh("pipeline", "tf.data over os.urandom", why_no_bits="os.urandom"),
    _fresh("pipeline_clock", "tf.data over data seeded by the clock",
        why_no_bits=CLOCK),
    _fresh("in_training", "a callback asks os.urandom", why_no_bits="os.urandom"),
    _fresh("names", "uuid4, a temporary directory and times, for names alone"),
)  # fmt: skip
"""Told before the first restart, by what and where; or nothing, where training does not
depend on it."""


def _concealed(name: str, features: str) -> CertifyRow:
    """A script whose state is hidden from those who search for it."""
    return CertifyRow(
        name=f"concealed_{name}",
        features=f"state hidden on purpose: {features}",
        memory=True,
        disproved=True,
        why_no_bits="put to the proof",
    )


CONCEALED = (
    _concealed("library", "a counter in an attribute of a library's module"),
    _concealed(
        "descriptor", "a counter in a file of memory (memfd), by its descriptor"
    ),
)
"""The proof says that they differ."""


def _replicas(name: str, features: str, **more: Any) -> tuple[CertifyRow, ...]:
    """A script on two devices, and on four."""
    on = "MirroredStrategy on"
    return tuple(
        CertifyRow(
            name=f"replicas_{name}_{n}",
            features=f"{on} {n} devices: {features}",
            **more,
        )
        for n in (2, 4)
    )


REPLICAS = (
    *_replicas("arrays", "arrays shuffled, validation_split, BatchNorm, noise, Dropout",
        samples=72, kills=5),
    *_replicas("shuffle", "tf.data shuffle, prefetch, AdamW with a schedule; shuffled validation"
        " pipeline",
        memory=True, kills=5),
    *_replicas("repeat", "short batches, repeat, steps_per_epoch", ledger=SAME),
    *_replicas("own_step", "own train_step, second optimizer, a generator and a variable"
        " for each replica; two fits", memory=True, kills=5),
    CertifyRow(name="replicas_one_device_1", features="OneDeviceStrategy: arrays, then tf.data",
        ledger=SAME),
    CertifyRow(name="replicas_placed_by_hand_2", features="layers on two devices by hand"),
)  # fmt: skip
"""Several devices in one process."""

SPLIT = 76
"""Training samples of 96 with ``validation_split=0.2``."""

TABLE = (
    CertifyRow(name="arrays_seeded", features="arrays shuffled, seeded, validation_split,"
        " BatchNorm, GaussianNoise, Dropout", samples=SPLIT, kills=6),
    CertifyRow(name="arrays_unseeded", features="arrays shuffled, no seed", plain=False),
    CertifyRow(name="arrays_unshuffled", features="arrays in order, sample weights, short"
        " last batch", every=2),
    CertifyRow(name="arrays_batch", features='arrays shuffle="batch", class weights'),
    CertifyRow(name="arrays_steps_per_epoch", features="arrays, steps_per_epoch,"
        " initial_epoch", ledger=SAME),
    CertifyRow(name="tf_unlike_batches", features="tf.data, batches of 12 and of 9 in a shuffle"),
    CertifyRow(name="tf_shuffle", memory=True, features="tf.data shuffle with reshuffling, prefetch;"
        " shuffled validation pipeline", kills=6),
    CertifyRow(name="tf_shuffle_unseeded", features="tf.data shuffle, no seed", plain=False),
    CertifyRow(name="tf_looked_for", before="look", features="tf.data shuffle, no seed; find_spec"
        " of TensorFlow and Keras before their import", plain=False),
    CertifyRow(name="tf_lazy", before="lazy", features="tf.data shuffle, no seed; TensorFlow"
        " imported by LazyLoader", plain=False),
    CertifyRow(name="tf_repeat", memory=True, features="tf.data shuffle, repeat, steps_per_epoch",
        ledger=SAME),
    CertifyRow(name="tf_repeat_twice", features="tf.data shuffle, repeat without end, two fits",
        ledger=SAME, told="without coming to its end", no_proof=NoProof.NOT_PROMISED),
    CertifyRow(name="tf_cache", features="tf.data cache, seeded shuffle"),
    CertifyRow(name="tf_interleave", features="tf.data interleave in parallel, shuffles"),
    CertifyRow(name="tf_stateless_map", features="tf.data stateless random map, parallel"),
    CertifyRow(name="tf_stateful_map", features="tf.data stateful random map, sequential"),
    CertifyRow(name="tf_stateful_deterministic", features="tf.data stateful random map,"
        " parallel, op determinism"),
    CertifyRow(name="tf_stateful_parallel", features="tf.data stateful random map, parallel",
        why_no_bits="draw in parallel"),
    CertifyRow(name="tf_unordered", features="tf.data unordered parallel map",
        plain=False, told="come in order"),
    CertifyRow(name="tf_random_layer", features="Keras seed generator inside a tf.data map",
        why_no_bits="changes a variable"),
    CertifyRow(name="py_dataset", memory=True, features="PyDataset shuffled, also as validation",
        plain=False),
    CertifyRow(name="py_dataset_workers", no_proof=NoProof.NOT_PROMISED, features="PyDataset shuffled, three workers",
        plain=False, told="with workers"),
    CertifyRow(name="py_dataset_unshuffled", features="PyDataset in order, then two workers"
        " and steps_per_epoch", ledger=SAME, told="with workers"),
    CertifyRow(name="py_dataset_own_order", features="PyDataset with an order and a generator of"
        " its own, mixed between epochs; two fits", kills=5),
    CertifyRow(name="py_dataset_own_random", memory=True, features="PyDataset that draws from a"
        " generator of its own as it is asked, also as validation; two fits", kills=6),
    CertifyRow(name="py_dataset_global_random", memory=True, features="PyDataset that augments"
        " with np.random and random; two fits", kills=6),
    CertifyRow(name="py_dataset_framework_random", memory=True, features="PyDataset that augments"
        " with tf.image and keras.random; two fits", kills=6),
    CertifyRow(name="generator", no_proof=NoProof.NOT_PROMISED, features="Python generator, replayed",
        told="Python generator"),
    CertifyRow(name="loader", no_proof=NoProof.NOT_PROMISED, features="a loader of Grain, shuffled",
        told="loader of another library"),
    CertifyRow(name="validation", memory=True, features="validation_data, _freq, _steps, _batch_size;"
        " repeated shuffled validation pipeline", kills=6),
    CertifyRow(name="validation_steps", features="validation_steps, shuffled repeated pipeline"
        " and arrays", kills=6),
    CertifyRow(name="tf_chained", features="tf.data shuffles under shuffle, repeat, zip,"
        " concatenate; caches of shuffles", ledger=SAME, kills=5),
    CertifyRow(name="early_stopping", memory=True, features="EarlyStopping(restore_best_weights),"
        " ReduceLROnPlateau", samples=67, kills=5, rewinds=True),
    CertifyRow(name="files", features="ModelCheckpoint (best, each n steps),"
        " LearningRateScheduler, CSVLogger", samples=72),
    CertifyRow(name="appended_files", rewind=("out",), memory=True, kills=6, features="a log,"
        " a table, files that are open all the time: appended and begun anew"),
    CertifyRow(name="rewritten_files", rewind=("out",), memory=True, kills=6, features="JSON"
        " replaced and written over, np.save, ModelCheckpoint of the best"),
    CertifyRow(name="fold_files", rewind=("out",), kills=6, features="directory cleared at the"
        " start, results of folds appended, CSVLogger", ledger=SAME),
    CertifyRow(name="files_in_place", no_proof=NoProof.WRITTEN_TWICE, rewind=("out",), features="slots of files, HDF5"
        " attributes", told="a restart does not put back held"),
    CertifyRow(name="tensorboard", features="TensorBoard, its scalars", samples=72),
    CertifyRow(name="backup_and_restore", features="BackupAndRestore in the script"),
    CertifyRow(name="caught_and_again", features="a fit raises, the script catches it and fits"
        " again", ledger=SAME, kills=5, no_proof=NoProof.BETWEEN_FITS),
    CertifyRow(name="own_callback", features="own callback: deque, Counter, generator,"
        " arrays, variables; sets the learning rate"),
    CertifyRow(name="lambda_callback", memory=True, features="LambdaCallback over closures,"
        " globals and an object of the script"),
    CertifyRow(name="several_fits", memory=True, features="three fits of one model, evaluate and predict"
        " between, learning rate set", ledger=SAME, kills=6),
    CertifyRow(name="train_on_batch", features="train_on_batch loops around a fit",
        ledger=SAME, told="steps are made outside of fit"),
    CertifyRow(name="clear_session", features="clear_session, then a second model"),
    CertifyRow(name="seed_again", features="set_random_seed again, two models in turn"),
    CertifyRow(name="own_train_step", memory=True, features="own train_step, second optimizer, variables"),
    CertifyRow(name="no_call", features="model without call, two optimizers of its own,"
        " steps_per_execution=2"),
    CertifyRow(name="optimizers_in_turns", features="eager train_step, optimizers that take"
        " turns, one that is never used"),
    CertifyRow(name="own_fit", features="own fit that calls Keras' twice"),
    CertifyRow(name="ema", features="AdamW with EMA and clipping"),
    CertifyRow(name="mixed_precision", memory=True, features="mixed_float16, loss scaling", samples=72),
    CertifyRow(name="jit", memory=True, features="jit_compile=True", samples=72,
        keeps_compilations=True),
    CertifyRow(name="jit_mixed_ema", features="jit_compile=True, mixed_float16, EMA, tf.data",
        keeps_compilations=True),
    CertifyRow(name="steps_per_execution", features="steps_per_execution=3, arrays",
        samples=72),
    CertifyRow(name="steps_per_execution_jit", features="steps_per_execution=4,"
        " jit_compile=True, tf.data"),
    CertifyRow(name="schedule", features="learning-rate schedule in the optimizer"),
    CertifyRow(name="several_inputs", features="several inputs and outputs, L2", samples=72),
    CertifyRow(name="own_loop", no_proof=NoProof.SESSION, memory=True, features="custom loop: GradientTape, tf.function, two loops,"
        " own state", kills=6),
    CertifyRow(name="own_loop_steps", no_proof=NoProof.SESSION, features="custom loop over batches in Python, eager",
        told="come from Python"),
    CertifyRow(name="own_loop_hidden_state", features="custom loop: stateful tf.random in its"
        " tf.function", why_no_bits="the tf.function noisy_step draws"),
    CertifyRow(name="stateful_random_step", features="stateful tf.random in the traced step",
        why_no_bits="TensorFlow's own random operations"),
    *ORDINARY,
    *FOLLOWED,
    *HIDDEN,
    *FRESH,
    *CONCEALED,
    *REPLICAS,
)  # fmt: skip

SHORT = ("arrays_seeded", "tf_shuffle", "own_loop", "ordinary_split",
    "ordinary_parallel_map", "hidden_names", "followed_tape", "followed_train_on_batch")  # fmt: skip
"""The rows of the short form."""
SAMPLE = ("own_loop", "ordinary_split", "hidden_names", "followed_tape")
"""Those that ``make test`` runs; a seeded script of arrays is killed by other tests there."""
