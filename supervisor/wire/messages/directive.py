"""The directive: what the supervisor asks of one attempt, written before it starts."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from supervisor.wire.files import read_json
from supervisor.wire.json_record import JsonRecord
from supervisor.wire.reasons import Changed

ENVIRONMENT = "TRAINWARDEN_DIRECTIVE"
"""Environment variable with the directive's path; absent: unsupervised."""

MARKER = "TRAINWARDEN_ATTEMPT"
"""Environment variable inherited by every process of an attempt: ``RUN_ID/NUMBER``."""

BATCH_ENVIRONMENT = "TRAINWARDEN_BATCH_SIZE"
"""For programs that are not Keras: the batch they should use."""

EXIT_NO_ROOM = 74
"""EX_IOERR of sysexits.h: no room for the attempt's own files; the script did not begin."""

EXIT_DRAINED = 75
"""EX_TEMPFAIL of sysexits.h: ended on request, run again to resume."""

EXIT_REFUSED = 78
"""EX_CONFIG of sysexits.h: training refused before it started; see the events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive(JsonRecord):
    """What one attempt shall do."""

    run_id: str
    job: str
    attempt: int
    script: str
    args: tuple[str, ...]
    attempt_directory: str
    snapshot_directory: str
    """The durable tier."""
    memory_directory: str | None
    """The memory tier: a directory of this run in a tmpfs, whose parent exists. None:
    there is no such tier."""
    seed: int
    """The job's own seed (63 bits): permutations of array data come from it."""
    restore: bool
    """Whether to go on from the newest whole snapshot, if there is one."""
    restore_before_step: int | None
    """Only from snapshots of an earlier step than this."""
    slice_size: int | None
    """Samples in one slice; None: the whole batch at once."""
    calibrate: bool
    """Measure at small slices before the first step, then choose the largest slice
    that fits below ``slice_ceiling``; ``slice_size`` is what to do without."""
    slice_ceiling: int | None
    """The chosen slice stays below this many samples: it has failed before."""
    memory_limit_bytes: int | None
    """The allocator's limit, where the supervisor set one."""
    gpu_memory_limit_bytes: int | None
    gpu_memory_growth: bool
    allow_inexact: bool
    """Whether a microbatch may deviate (BatchNorm, Dropout, losses that are no mean)."""
    snapshot_every_seconds: float | None
    snapshot_every_steps: int | None
    """Interval of durable snapshots; both None: planned from measured cost."""
    memory_every_seconds: float | None
    memory_every_steps: int | None
    """Interval of snapshots in memory; both None: planned from measured cost."""
    snapshot_budget: float
    """Share of the training time that planned snapshots may take."""
    mean_seconds_between_failures: float
    """As this job's past tells, for the planned durable interval."""
    snapshot_quota_bytes: int | None
    """Durable snapshots together take no more than this, the last good one aside."""
    snapshots_kept: int
    deterministic: bool
    """Ask TensorFlow for deterministic algorithms (a remedy)."""
    script_hash: str = ""
    """Of the script as it was when the run began (``seal.script_hash``); empty: nobody
    could read it then."""
    module: str = ""
    """The script is this module, as ``python -m`` runs it; empty: it is a file."""
    kept_script: str = ""
    """Where the training side keeps it as it was; empty: nowhere."""
    changed_modules: str = Changed.AS_KEPT
    """What to do about them: one of ``Changed``."""
    accept_changes: bool = False
    """Go on although the training data are not those of the snapshot."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Environment variables of remedies; ``XLA_FLAGS`` are appended to the job's."""
    visible_gpus: tuple[str, ...] | None = None
    """The GPUs that are left to it; None: those of the spec."""
    precision: str | None = None
    """Keras' global dtype policy; None: the script's own."""
    skip: tuple[int, int] | None = None
    """Batches of the steps from the first (done steps, from 0) to before the second
    are drawn and not trained on."""
    rate_factor: float = 1.0
    """The learning rate is multiplied by this before the first step."""
    watch_loss: bool = False
    """End the attempt when loss and weights are no numbers any more."""
    in_place: bool = False
    """Whether it may ask to go on in its process after a step that failed, and wait for
    the answer."""
    foresee: bool = True
    """The supervisor plans restarts before memory runs out: wait for its answer."""
    prove: bool = False
    """Begin with an older snapshot than the newest, and compare on the way past that."""
    stop_at_step: int | None = None
    """Save and end when so many steps are done, as if asked to: a run that is only tried."""
    die_at_step: int | None = None
    """SIGKILL itself when so many steps are done: what ``certify`` asks for."""
    die_after_seconds: float = 0.0
    """... and so much later, wherever training is then."""
    lose_at_steps: tuple[int, ...] = ()
    """Take the loss for lost once at each of these steps, where a fit is followed: what
    ``make certify`` asks for."""
    compilation_directory: str | None = None
    """Where what XLA compiled is kept for later attempts of the job, and found again;
    its parent exists. None: nowhere."""
    compilation_quota_bytes: int = 0
    """What lies there takes no more than this."""
    rewind: tuple[str, ...] = ()
    """Directories, from the working directory: files below them that the script appends
    to are put back to where they were at a snapshot."""
    tries_versions: bool = False
    """It is part of a self-test: whatever versions are here, go on with them."""
    reduce: str | None = None
    """A model's own ``train_step`` may do several smaller batches instead of one, with
    the learning rate by this rule (``keep``, ``sqrt``, ``linear``); None: it may not."""
    estimate_seconds: float | None = None
    """Train nothing: about so long measure what a step of the first ``fit`` needs, and end
    there; None: train."""
    estimate_batch: int | None = None
    """Measure up to batches of so many samples; None: of as many as the script has."""
    estimate_jit: bool | None = None
    """Measure the step compiled by XLA, or not; None: as the script has it here."""
    trial_steps: int | None = None
    """Train nothing: make so many steps of the first ``fit``, tell of each, and end there;
    None: train."""
    trial_optimizer: str | None = None
    """In a trial: this class of Keras' optimizers in the place of the script's."""
    trial_steps_per_execution: int | None = None
    """In a trial: so many steps in one call; None: as the script has it."""
    trial_read_ahead: int | None = None
    """In a trial: so many batches are read ahead at the end of a ``tf.data`` pipeline, -1: as
    many as TensorFlow likes; None: as the script has it."""
    trial_parallel_maps: bool = False
    """In a trial: each ``map`` of a pipeline makes its calls side by side."""
    trial_cached: bool = False
    """In a trial: what a pipeline reads and computes alike in each pass comes from a file."""
    trial_streamed: bool = False
    """In a trial: batches are cut from arrays in main memory, of which the framework gets no
    copy."""
    trial_half_size: bool = False
    """In a trial: images of half the height and width, or sequences half as long."""
    standby: bool = False
    """Write down how the script imports its framework: the next attempt may do so ahead."""
    jit: bool | None = None
    """Compile steps by XLA, or not; None: as the script has it."""
    recompute: bool = False
    """Keep no activations of layers for the backward pass, but compute them again."""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The directive in the file ``path``; None where there is none."""
        value = read_json(path)
        return None if value is None else cls.from_json(value)
