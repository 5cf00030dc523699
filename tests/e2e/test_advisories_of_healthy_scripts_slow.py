"""No advice for healthy scripts: rows of ``make certify``, which asks it of all of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.core.advisories.rules import advise
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.wire.event_file import EventReader, RecordKind
from supervisor.wire.records.step_evidence import StepEvidence
from tests.certify.certify import CertifyTrial
from tests.certify.table import TABLE
from tests.support.zygote import Zygote

pytestmark = pytest.mark.slow
ROWS = {row.name: row for row in TABLE}
REPRESENTATIVE = (
    "arrays_seeded",
    "tf_shuffle",
    "tf_stateless_map",
    "tf_unlike_batches",
    "py_dataset",
    "own_train_step",
    "mixed_precision",
    "several_fits",
    "jit",
    "files",
    "followed_tape",
    "replicas_arrays_2",
)
LONGER = 20
"""Times as many steps: these scripts train for a few seconds, others for days."""


def trained_longer(steps: StepEvidence) -> StepEvidence:
    """The same shares, of so many times the steps; what is traced once stays as it is."""
    return replace(
        steps,
        steps=steps.steps * LONGER,
        seconds=steps.seconds * LONGER,
        data_steps=steps.data_steps * LONGER,
        data_seconds=steps.data_seconds * LONGER,
        wait_seconds=steps.wait_seconds * LONGER,
        write_looks=steps.write_looks * LONGER,
        writing_looks=steps.writing_looks * LONGER,
    )


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_a_healthy_script_is_told_nothing(
    zygote: Zygote, tmp_path: Path, name: str
) -> None:
    """Undisturbed: neither as it trained, nor had it gone on so for longer."""
    trial = CertifyTrial(zygote, ROWS[name], tmp_path / name)
    assert trial.run() == 0, trial.output()
    events = EventReader(next((tmp_path / name).rglob("events.jsonl"))).poll()
    told = [one.fields for one in events if one.kind == RecordKind.EVIDENCE]
    evidence = [StepEvidence.from_json(fields) for fields in told]
    seen = [one for one in evidence if one is not None]
    assert seen, "nothing was measured"
    assert trial.advice == []
    longer = [advise(RunEvidence(steps=trained_longer(one))) for one in seen]
    assert [one.sentence for each in longer for one in each] == []
