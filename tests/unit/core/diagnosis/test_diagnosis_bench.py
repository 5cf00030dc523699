"""The bench of the diagnosis: what is too often wrong, or a false alarm, fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench.diagnosis import own_corpora, report_corpora

Case = dict[str, Any]

OOM: Case = {
    "text": "torch.OutOfMemoryError: CUDA out of memory.",
    "cause": "device_oom",
}
QUIET: Case = {"text": "Epoch 1/1\n", "cause": "none"}


def corpus(path: Path, *cases: Case) -> Path:
    """A file of cases."""
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


def test_a_corpus_that_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """97 of 100 are enough, and what else was answered is told by cause."""
    wrong = {**OOM, "cause": "user_error", "id": "mislabelled"}
    also = {**OOM, "cause": "host_oom", "also": ["device_oom"]}
    path = corpus(tmp_path / "c.jsonl", *[OOM] * 60, *[QUIET] * 36, also, *[wrong] * 3)
    assert report_corpora({"c": [path]}) == []
    told = capsys.readouterr().out
    assert "97/100 right" in told
    assert "wrong: mislabelled: user_error, answered device_oom" in told
    row = next(line for line in told.splitlines() if line.startswith("user_error "))
    assert row.split() == ["user_error", "3", "0", "0", "3", "device_oom", "3"]


@pytest.mark.parametrize(
    "cases",
    [
        [OOM] * 96 + [{**OOM, "cause": "user_error"}] * 4,
        [OOM] * 99 + [{**OOM, "cause": "none"}],
    ],
    ids=["too few right", "a false alarm"],
)
def test_a_corpus_that_fails(tmp_path: Path, cases: list[Case]) -> None:
    """Fewer than 97 in 100, or one benign case that is taken for a failure."""
    path = corpus(tmp_path / "c.jsonl", *cases)
    good = corpus(tmp_path / "good.jsonl", OOM, QUIET)
    assert report_corpora({"good": [good], "c": [path]}) == ["c"]


def test_the_repository_s_own_corpora_are_found() -> None:
    """Without them the bench would judge nothing, and pass; batches count as one."""
    found = own_corpora()
    assert set(found) == {"cases", "public", "fresh"}
    assert len(found["fresh"]) == 23
    assert report_corpora({"fresh": found["fresh"]}) == []
