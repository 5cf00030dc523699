"""The first scenario of ``make slurm``: a requeue, in a step that lasts on."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.slurm.slurm_cluster import missing, slurm_in
from tests.slurm.slurm_trial import SlurmTrial, requeued
from tests.support.zygote import Zygote


def test_a_requeue_saves_the_step_that_is_being_done(
    tmp_path: Path, zygote: Zygote
) -> None:
    """Slurm asks several times, that is one request, and the run ends with the bits of
    one that nobody disturbed."""
    reason = missing()
    if reason is not None and (os.geteuid() or not os.environ.get("CI")):
        pytest.skip(reason)
    assert reason is None
    root = Path(tempfile.mkdtemp(prefix="tw-slurm-"))  # short: a socket lies in it
    try:
        with slurm_in(root / "s") as cluster:
            trial = SlurmTrial(cluster, tmp_path / "jobs")
            result = trial.directory / "undisturbed"
            zygote.run_plain(trial.directory / "train.py", str(result))
            assert requeued(trial, result.read_text())
        assert list(cluster.processes()) == []
    finally:
        shutil.rmtree(root)
