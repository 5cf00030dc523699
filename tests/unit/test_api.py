"""The Python API: a run, its result, what is read back."""

from pathlib import Path
from typing import Any

import pytest

from supervisor import api


def test_a_run_and_what_is_told_of_it(tmp_path: Path) -> None:
    """A script that is killed once: its result, its incident, its events."""
    script = tmp_path / "train.py"
    script.write_text(
        "import os, pathlib\n"
        "if not pathlib.Path('died').exists():\n"
        "    pathlib.Path('died').touch()\n"
        "    os.kill(os.getpid(), 9)\n"
        "print('done')\n"
    )
    events: list[dict[str, Any]] = []
    state = tmp_path / "state"
    spec = {"script": script, "working_directory": tmp_path}
    result = api.run(spec, state_dir=state, on_event=events.append)
    assert (result.code, result.finished, result.drained) == (0, True, False)
    assert [one["cause"] for one in result.incidents] == ["preempted"]
    assert events[-1]["event"] == "ended"
    (job,) = api.jobs(state_dir=state)
    assert (job["job"], job["state"], job["attempt"]) == ("train", "finished", 2)
    assert api.incidents("train", state_dir=state) == result.incidents


def test_what_cannot_be_run_is_a_sentence(tmp_path: Path) -> None:
    """No script, or a key that is none."""
    with pytest.raises(api.RunRefusedError, match="there is no script"):
        api.run({"script": tmp_path / "missing.py"}, state_dir=tmp_path / "state")
    with pytest.raises(api.RunRefusedError, match="epochs"):
        api.run({"script": "train.py", "epochs": 3}, state_dir=tmp_path / "state")


def test_a_listener_that_fails_ends_the_run(tmp_path: Path) -> None:
    """In good order: it is drained, and its exception comes out."""
    script = tmp_path / "train.py"
    script.write_text("import time\ntime.sleep(600)\n")

    class MineError(Exception):
        """The listener's own."""

    def fails(_event: dict[str, Any]) -> None:
        raise MineError

    with pytest.raises(MineError):
        api.run({"script": script}, state_dir=tmp_path / "state", on_event=fails)
