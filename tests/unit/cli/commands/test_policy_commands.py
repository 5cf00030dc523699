"""``policy`` and ``quarantine``, as commands."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from supervisor.cli.command_group import trainwarden
from supervisor.core.lifecycle.effects import Quarantine
from supervisor.host.ledger.ledger import Ledger


def invoke(*arguments: str | Path) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(trainwarden, [str(one) for one in arguments])


def test_the_escalations_are_printed_for_people_and_programs(tmp_path: Path) -> None:
    """With what a spec allows."""
    assert "slices planned by a memory model" in invoke("policy").output
    spec = tmp_path / "job.toml"
    spec.write_text("[remedies]\nmixed_precision = true\n[liveness]\nstep = '7s'\n")
    done = invoke("policy", "--json", "--spec", spec)
    assert done.exit_code == 0, done.output
    value = json.loads(done.output)
    (oom,) = [s for s in value["situations"] if s["causes"] == ["device_oom"]]
    assert [r["allowed"] for r in oom["steps"] if r["needs"]] == [True]
    assert value["deadlines"]["step"] == 7.0


def test_a_spec_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    """Missing, no text, or wrong."""
    assert invoke("policy", "--spec", tmp_path / "none.toml").exit_code == 2
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in invoke("policy", "--spec", bad).stderr
    bad.write_text("[remedies]\nfly = true\n")
    assert "remedies.fly" in invoke("policy", "--spec", bad).stderr


def test_a_quarantine_lasts_until_a_person_ends_it(tmp_path: Path) -> None:
    """In the ledger, for every job of the box, once."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    run = ledger.begin_run(
        run_id="r", job="digits", script="s", script_hash="h", seed=1, spec={}, now=1.0
    )
    effect = Quarantine(gpus=("GPU-a", "GPU-b"), attempt=2, because="Xid 79")
    ledger.quarantine(run.id, effect, now=2.0)
    ledger.quarantine(run.id, effect, now=3.0)
    ledger.close()
    listed = invoke("quarantine", "--state-dir", tmp_path, "--json")
    rows = json.loads(listed.output)
    assert [row["gpu"] for row in rows] == ["GPU-a", "GPU-b"]
    assert rows[0] == {
        "gpu": "GPU-a",
        "job": "digits",
        "attempt": 2,
        "at": "1970-01-01T00:00:02+00:00",
        "because": "Xid 79",
    }
    back = invoke("quarantine", "--state-dir", tmp_path, "--return", "GPU-a")
    assert back.exit_code == 0
    assert "GPU-a" not in back.output
    assert "GPU-b" in back.output
    again = invoke("quarantine", "--state-dir", tmp_path, "--return", "GPU-a")
    assert again.exit_code == 2
    invoke("quarantine", "--state-dir", tmp_path, "--return", "GPU-b")
    empty = invoke("quarantine", "--state-dir", tmp_path)
    assert empty.output == "no GPU is quarantined\n"


def test_without_a_ledger_nothing_is_quarantined(tmp_path: Path) -> None:
    """A new state directory."""
    missing = invoke("quarantine", "--state-dir", tmp_path, "--return", "GPU-a")
    assert missing.exit_code == 2
    assert invoke("quarantine", "--state-dir", tmp_path).output.startswith("no GPU")
