"""What overrides asks for reaches the attempt: its directive and its environment."""

from pathlib import Path

import pytest

from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.effects import AnswerFailure
from supervisor.core.lifecycle.events import DiskRoom, SnapshotFailed
from supervisor.core.lifecycle.live_incidents import incident_of
from supervisor.core.remediation.microbatch_planner import MicrobatchPlan
from supervisor.core.remediation.overrides import (
    MIXED,
    NOTHING,
    LossRecovery,
    Overrides,
)
from supervisor.host.launch.launcher import environment
from supervisor.runtime.attempts.directive_builder import (
    answer_of,
    incident_sentence,
    make_directive,
)
from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import RunPaths
from tests.support.directives import row_of, spec_of

GIB = 1 << 30
BOX = tuple(
    Gpu(
        uuid=f"GPU-{n}",
        index=n,
        memory=GpuMemory(total=(10 + n) * GIB, used=0, free=(10 + n) * GIB),
    )
    for n in range(3)
)
EVERYTHING = Overrides(
    plan=MicrobatchPlan(
        slice_size=8, slices=4, calibrate=True, ceiling=16, because="x"
    ),
    async_allocator=True,
    growth=True,
    headroom=0.1,
    workspace_mib=256,
    autotune_off=True,
    deterministic=True,
    precision=MIXED,
    avoid=("GPU-0",),
    detour=LossRecovery(restore_before_step=7, skip=(6, 9), rate_factor=0.5),
)


def told(
    tmp_path: Path,
    overrides: Overrides | None,
    *,
    gpus: tuple[Gpu, ...] = BOX,
    quarantined: frozenset[str] = frozenset(),
    **tables: object,
) -> tuple[Spec, Directive]:
    """The spec, and what an attempt of it is told."""
    spec = spec_of(tmp_path / "train.py", **tables)
    directive = make_directive(
        row_of(spec, "job"),
        spec,
        RunPaths(tmp_path / "run"),
        3,
        overrides,
        between_failures=60.0,
        gpus=gpus,
        quarantined=quarantined,
    )
    return spec, directive


def variables(
    tmp_path: Path, overrides: Overrides | None, **options: object
) -> dict[str, str]:
    """The environment of such an attempt."""
    spec, directive = told(tmp_path, overrides, **options)  # type: ignore[arg-type]  # by name
    paths = RunPaths(tmp_path / "run").attempt(3)
    inherited = {"XLA_FLAGS": "--xla_dump_to=/x", "CUDA_VISIBLE_DEVICES": "0,1,2"}
    return environment(spec, directive, paths, inherited)


def test_everything_reaches_the_directive_and_survives_its_file(
    tmp_path: Path,
) -> None:
    """Training reads the same values that the supervisor wrote."""
    _, directive = told(tmp_path, EVERYTHING)
    assert Directive.from_json(directive.to_json()) == directive
    value = directive.to_json()
    assert Directive.from_json({**value, "snapshot_budget": 1}) is not None
    assert Directive.from_json({**value, "restore": "yes"}) is None
    del value["restore"]
    assert Directive.from_json(value) is None
    assert directive.slice_size == 8
    assert directive.restore_before_step == 7
    assert directive.skip == (6, 9)
    assert directive.rate_factor == 0.5
    assert directive.precision == MIXED
    assert directive.deterministic
    assert directive.watch_loss
    assert directive.visible_gpus == ("GPU-1", "GPU-2")


def test_compilations_are_kept_where_the_spec_asks_for_it(tmp_path: Path) -> None:
    """Not without a word: with a GPU nobody has tried it."""
    _, silent = told(tmp_path, None)
    _, asked = told(tmp_path, None, compilation={"cache": True})
    kept = str(RunPaths(tmp_path / "run").compilations)
    assert (silent.compilation_directory, asked.compilation_directory) == (None, kept)


def test_flags_of_the_job_stay_and_ours_come_last(tmp_path: Path) -> None:
    """XLA takes the last of a name; other variables are replaced."""
    values = variables(tmp_path, EVERYTHING)
    assert values["XLA_FLAGS"] == "--xla_dump_to=/x --xla_gpu_autotune_level=0"
    assert values["TF_GPU_ALLOCATOR"] == "cuda_malloc_async"
    assert values["TF_CUDNN_WORKSPACE_LIMIT_IN_MB"] == "256"
    assert values["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"


def test_without_remedies_nothing_is_touched(tmp_path: Path) -> None:
    """The environment is the person's."""
    values = variables(tmp_path, None)
    assert values["XLA_FLAGS"] == "--xla_dump_to=/x"
    assert values["CUDA_VISIBLE_DEVICES"] == "0,1,2"
    assert not [name for name in values if name.startswith("TF_CUDNN")]


def test_a_quarantined_gpu_is_not_visible(tmp_path: Path) -> None:
    """Also to a run that has nothing to do with why it is out of use."""
    kept = frozenset({"GPU-1"})
    assert (
        variables(tmp_path, None, quarantined=kept)["CUDA_VISIBLE_DEVICES"]
        == "GPU-0,GPU-2"
    )


def test_headroom_is_a_limit_below_the_smallest_gpu(tmp_path: Path) -> None:
    """A limit of the spec that is lower stays; without sizes there is none to set."""
    _, directive = told(tmp_path, EVERYTHING)
    assert directive.gpu_memory_limit_bytes == int(0.9 * 11 * GIB)
    _, lower = told(tmp_path, EVERYTHING, memory={"gpu": "4GiB"})
    assert lower.gpu_memory_limit_bytes == 4 * GIB
    _, unknown = told(tmp_path, EVERYTHING, gpus=())
    assert unknown.gpu_memory_limit_bytes is None
    assert unknown.visible_gpus is None


def test_how_steps_are_computed_is_told_from_the_first_attempt_on(
    tmp_path: Path,
) -> None:
    """A remedy's own plan and precision win over those of the spec."""
    compute = {"slice": 16, "precision": "mixed_float16", "jit": True}
    _, plain = told(tmp_path, None, compute=compute)
    assert (plain.slice_size, plain.precision) == (16, "mixed_float16")
    assert (plain.jit, plain.recompute) == (True, False)
    again = {"slice": 16, "recompute": True}
    _, remedied = told(tmp_path, EVERYTHING, compute=again)
    assert (remedied.slice_size, remedied.precision) == (8, MIXED)
    assert remedied.recompute
    _, neither = told(tmp_path, None)
    assert (neither.slice_size, neither.precision, neither.jit) == (None, None, None)


@pytest.mark.parametrize(("overrides", "size"), [(NOTHING, 16), (EVERYTHING, 8)])
def test_slices_of_the_spec_stay_where_training_goes_on_in_its_process(
    overrides: Overrides, size: int
) -> None:
    """Those of a remedy's plan win, as they do in a new process."""
    spec = Spec.model_validate({"script": "x.py", "compute": {"slice": 16}})
    effect = AnswerFailure(number=1, overrides=overrides, because="x")
    assert answer_of(effect, spec).slice_size == size


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("no_room", [True, False])
def test_a_full_disk_is_told_with_what_to_do(*, in_memory: bool, no_room: bool) -> None:
    """At once, in the run's own output; another failure of a disk is no want of room."""
    event = SnapshotFailed(
        in_memory=in_memory, step=40, because="it is so.", no_room=no_room
    )
    told = incident_sentence(incident_of(event, attempt=1))
    assert "it is so; it trains on" in told
    assert ("make room on the disk" in told) == (no_room and not in_memory)


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (DiskRoom(directory="/s", free_bytes=2048, held_bytes=0), "2 KiB free)"),
        (
            DiskRoom(directory="/s", free_bytes=0, held_bytes=3 << 20),
            "0 bytes free, and snapshots of this run hold 3 MiB)",
        ),
        (
            DiskRoom(directory="/s", free_bytes=None, held_bytes=0),
            "what is free is not known)",
        ),
    ],
)
def test_a_full_disk_is_told_with_its_room(room: DiskRoom, said: str) -> None:
    """Which directory it is, how much is free there, and what of it is our own doing."""
    event = SnapshotFailed(
        in_memory=False, step=40, because="no space", no_room=True, room=room
    )
    told = incident_sentence(incident_of(event, attempt=1))
    assert f"no space (in /s: {said}; it trains on: make room" in told
