"""The table of Keras on PyTorch: the scripts that run there, and some of its own."""

from dataclasses import replace

from tests.certify.jax_table import SAME_SCRIPTS
from tests.certify.table import SAME, TABLE, CertifyRow, NoProof

NOT_THERE = (
    "steps_per_execution", "steps_per_execution_jit", # Keras has no such thing there
    "hidden_recurrent", # its own fit fails: backward through a carried state
    "own_callback", # adds arrays to variables, which PyTorch's do not allow
)  # fmt: skip
"""Scripts that fail by themselves on PyTorch."""


def _row(name: str, features: str, **more: object) -> CertifyRow:
    return CertifyRow(name=f"torch_{name}", features=features, **more)  # type: ignore[arg-type]


def _sliced(name: str, features: str, **more: object) -> CertifyRow:
    """The undisturbed run is ours, in the same slices: bits of whole batches they have not,
    and they are not promised."""
    return _row(
        name,
        features,
        plain=False,
        slice_size=3,
        told="worked through in slices",
        no_proof=NoProof.NOT_PROMISED,
        **more,
    )


OWN = (
    _row("arrays", "arrays shuffled, BatchNorm, Dropout, validation_split",
        samples=76, kills=6, memory=True),
    _row("quiet", "the same; nobody looks within an epoch", quiet=True, kills=6),
    _row("tensors", "tensors of PyTorch, SGD with momentum"),
    _row("batch_order", 'shuffle="batch", layers that draw from PyTorch\'s generator'),
    _row("steps_per_epoch", "fewer steps than batches: a pass goes on in the next epoch",
        ledger=SAME, kills=6),
    _row("loader", "DataLoader shuffled, no worker; as validation, too", kills=6,
        memory=True),
    _row("loader_generator", "DataLoader with a generator of its own, two fits", kills=6),
    _row("loader_weighted", "WeightedRandomSampler, drop_last", ledger=SAME),
    _row("loader_augments", "a data set that draws by NumPy, PyTorch and a generator of"
        " its own", memory=True, kills=6),
    _row("loader_workers", "DataLoader with two workers that draw", kills=6),
    _row("loader_persistent", "persistent workers", told="workers are persistent", no_proof=NoProof.NOT_PROMISED),
    _row("loader_iterable", "an IterableDataset", told="is iterated, not asked", no_proof=NoProof.NOT_PROMISED),
    _row("loader_own_sampler", "a sampler of the script's own",
        told="sampler of the script's own", no_proof=NoProof.NOT_PROMISED),
    _row("train_step", "a train_step of its own, a second optimizer of Keras'",
        memory=True),
    _row("adds_up", "a train_step that adds gradients up over two steps",
        why_no_bits="never calls zero_grad"),
    _row("optimizer", "a train_step with an optimizer of PyTorch's",
        why_no_bits="cannot be saved"),
    _row("modules", "modules of PyTorch in a model: BatchNorm1d, Dropout, a module of the"
        " script's own with a buffer and a count", memory=True, kills=6),
    _row("tensors_kept", "a callback with tensors, a generator and an average of weights",
        memory=True),
    _row("teacher", "another module, which a callback lets follow the model"),
    _row("each_batch", "a callback that sets the learning rate at each batch"),
    _row("attention", "embedding, attention, recurrent dropout, bfloat16"),
    _row("early_stopping", "EarlyStopping, ReduceLROnPlateau, validation", memory=True,
        samples=67, rewinds=True),
    _row("unseeded", "no seed, unseeded layers, torch.rand", plain=False, memory=True),
    _row("eager", "run_eagerly"),
    _row("folds", "four models in turn, two fits each", quiet=True, kills=6),
    _sliced("sliced", "in slices: arrays shuffled, BatchNorm, Dropout", memory=True,
        kills=6),
    _sliced("sliced_loader", "in slices: a DataLoader, a module of PyTorch's, two passes"),
    _row("compiled", "torch.compile, batches of one size", quiet=True),
    _row("compiled_rest", "torch.compile, a short last batch", quiet=True,
        told="compiled by torch.compile", no_proof=NoProof.NOT_PROMISED),
)  # fmt: skip
"""What is PyTorch's own."""

TORCH_TABLE = (
    *(
        replace(row)
        for row in TABLE
        if row.name in SAME_SCRIPTS and row.name not in NOT_THERE
    ),
    *OWN,
)
TORCH_SHORT = ("torch_loader", "torch_modules", "arrays_seeded", "tf_shuffle")
