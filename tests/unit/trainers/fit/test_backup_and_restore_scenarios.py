"""What Keras' own tests of ``BackupAndRestore`` interrupt, interrupted here.

Those raise in a callback: in the middle of an epoch, at its end, in the first epoch,
with a backup at each epoch and at each step; one spoils the newest backup, one looks
that a run which ended begins anew (``backup_and_restore_test.py`` of Keras 3.15). Theirs
ask for the number of epochs done afterwards; here every bit is compared. (They catch
the exception and fit again in the same process: the row ``caught_and_again`` of
``make certify`` does.)
"""

from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.wire.snapshots.manifest import TENSORS
from tests.certify.certify import CertifyTrial
from tests.certify.places import Death
from tests.certify.table import TABLE
from tests.support.zygote import Zygote

STEPS = 7
"""Of an epoch of the row ``arrays_seeded``."""

SCENARIOS = (
    (STEPS, "step:0:2:3"),
    (STEPS, "epoch_end:0:1"),
    (1, "step:0:0:2"),
    (1, "epoch_begin:0:1"),
)
"""Steps from one snapshot to the next, and where it is interrupted."""


@pytest.mark.slow
def test_interruptions_of_keras_own_tests(tmp_path: Path, zygote: Zygote) -> None:
    """Whenever it is interrupted, by epoch or by step: the next run goes on, and ends
    with the same weights, optimizer and History."""
    row = next(row for row in TABLE if row.name == "arrays_seeded")
    whole = CertifyTrial(zygote, row, tmp_path / "whole")
    assert whole.run(plain=True) == 0
    for index, (every, place) in enumerate(SCENARIOS):
        directory = tmp_path / f"scenario-{index}"
        torn = CertifyTrial(zygote, replace(row, every=every), directory)
        assert torn.run(death=Death(where=place, how="RAISE")) == 1
        assert torn.run() == 0, torn.output()
        assert torn.result() == whole.result(), (place, every)
    # The newest is spoilt: the one before it is used.
    torn = CertifyTrial(zygote, replace(row, every=STEPS), tmp_path / "spoilt")
    assert torn.run(death=Death(where="epoch_end:0:2", how="RAISE")) == 1
    *_, newest = sorted(torn.attempts.snapshots.glob("0*"))
    (newest / TENSORS).write_bytes(b"0")
    assert torn.run() == 0, torn.output()
    assert any("damaged and set aside" in sentence for sentence in torn.told)
    assert torn.result() == whole.result()
    # What has ended is not trained again, whatever is done after it.
    (torn.directory / "result.json").unlink()
    (torn.directory / "ledger.jsonl").write_text("")
    assert torn.run() == 0, torn.output()
    assert torn.result() == whole.result()
    assert torn.lines() == []
