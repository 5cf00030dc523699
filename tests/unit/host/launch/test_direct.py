"""The direct launcher: what training is given, and who is still there."""

import os
from pathlib import Path

from supervisor.core.jobs.spec import Spec, build_spec
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.launch.direct import DirectLauncher
from supervisor.host.launch.launcher import environment, same_process
from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records.end_records import Shimmed


def directive(*, slice_size: int | None = None) -> Directive:
    """What an attempt is told."""
    return Directive(
        run_id="r1",
        job="j",
        attempt=2,
        script="train.py",
        args=(),
        attempt_directory="/a",
        snapshot_directory="/s",
        memory_directory=None,
        seed=2**40 + 5,
        restore=True,
        restore_before_step=None,
        slice_size=slice_size,
        calibrate=False,
        slice_ceiling=None,
        memory_limit_bytes=None,
        gpu_memory_limit_bytes=None,
        gpu_memory_growth=True,
        allow_inexact=True,
        snapshot_every_seconds=None,
        snapshot_every_steps=None,
        memory_every_seconds=None,
        memory_every_steps=None,
        snapshot_budget=0.01,
        mean_seconds_between_failures=86400.0,
        snapshot_quota_bytes=None,
        snapshots_kept=3,
        deterministic=False,
    )


def given(
    spec: Spec, *, slice_size: int | None = None, **inherited: str
) -> dict[str, str]:
    """The environment of training."""
    told = directive(slice_size=slice_size)
    return environment(spec, told, AttemptPaths(Path("/a")), inherited)


def test_the_spec_wins_over_what_is_inherited_and_nothing_else_is_touched() -> None:
    """Training sees the user's environment, with the spec's values in their places."""
    spec = build_spec({"script": "t.py", "environment": {"A": "spec"}})
    values = given(spec, A="old", B="kept", PYTHONHASHSEED="7")
    assert (values["A"], values["B"], values["PYTHONHASHSEED"]) == ("spec", "kept", "7")
    assert "TF_CPU_ALLOCATOR_USE_BFC" not in values
    assert "CUDA_VISIBLE_DEVICES" not in values
    assert values["TRAINWARDEN_ATTEMPT"] == "r1/2"


def test_the_order_of_sets_is_the_same_in_every_attempt() -> None:
    """Unless the user chose one, the hash seed comes from the run's own seed."""
    values = given(build_spec({"script": "t.py"}))
    assert values["PYTHONHASHSEED"] == "5"


def test_limits_gpus_and_batch() -> None:
    """A memory limit, GPUs and a smaller batch reach frameworks by their variables."""
    spec = build_spec(
        {"script": "t.py", "memory": {"cpu": "600MiB"}, "gpus": [1, "GPU-5"]}
    )
    values = given(spec, slice_size=16)
    assert values["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == "600"
    assert values["CUDA_VISIBLE_DEVICES"] == "1,GPU-5"
    assert values["TRAINWARDEN_BATCH_SIZE"] == "16"


def test_a_limit_that_nobody_would_keep_is_objected_to() -> None:
    """Only systemd keeps one on all processes of an attempt."""
    assert DirectLauncher().objection(Spec(script="a")) is None
    limited = build_spec({"script": "a", "memory": {"host": "300MiB"}})
    objection = DirectLauncher().objection(limited)
    assert objection is not None
    assert "memory.host is 300 MiB, and only systemd keeps such a limit" in objection


def test_a_pid_that_was_given_to_another_process_is_not_ours() -> None:
    """Boot id and start time must both agree."""
    stat = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    boot = boot_id()
    ours = Shimmed(
        shim_pid=1,
        shim_started_ticks=1,
        pid=os.getpid(),
        boot_id=boot,
        started_ticks=int(stat[19]),
    )
    later = Shimmed(
        shim_pid=1,
        shim_started_ticks=1,
        pid=os.getpid(),
        boot_id=boot,
        started_ticks=int(stat[19]) + 1,
    )
    gone = Shimmed(
        shim_pid=1, shim_started_ticks=1, pid=2**22 + 1, boot_id=boot, started_ticks=1
    )
    assert same_process(ours)
    assert not same_process(later)
    assert not same_process(gone)
