"""The input file that is not there: its path, and what to do, come first."""

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.explain import explain_incident
from supervisor.core.diagnosis.not_found import missing_advice, missing_file
from tests.support.evidence import crash, ours, seen

NUMPY = "FileNotFoundError: [Errno 2] No such file or directory: '/data/none/train.npy'"
HDF5 = (
    "FileNotFoundError: [Errno 2] Unable to synchronously open file (unable to open file: "
    "name = '/data/x.h5', errno = 2, error message = 'No such file or directory')"
)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (NUMPY, "/data/none/train.npy"),
        ("NotFoundError: {{node Read}} /d/a.tfrecord; No such file or directory", "/d/a.tfrecord"),
        (HDF5, "/data/x.h5"),
        ("DataLossError: corrupted record at 12", None),
        ("ModuleNotFoundError: /a/b; No such file or directory", None),
        ("NotFoundError: s3://key:secret@b/x; No such file or directory", None),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'a' -> 'b'", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_path_that_an_exception_names(text: str, path: str | None) -> None:
    """Of Python, HDF5 and TensorFlow; nothing is made up where none is named."""
    assert missing_file(text) == path


def test_a_relative_path_is_one_from_the_directory_of_the_job() -> None:
    """Which may not be where the reader stands."""
    assert "from the directory that the job runs in" in missing_advice("train.npy")
    assert "the job runs in" not in missing_advice("/data/train.npy")


def test_what_to_do_comes_before_how_one_knows() -> None:
    """It is tried once more all the same: storage may have been away for a moment."""
    name, _, message = NUMPY.partition(": ")
    report = crash(f"builtins.{name}", message)
    found = diagnose(Evidence(exit=ours(1), crash=report))
    assert found.cause is Cause.DATA_ERROR
    assert found.advice == missing_advice("/data/none/train.npy")
    because = "storage may have been away for a moment"
    text = explain_incident(
        {
            "id": 1, "job": "digits", "attempt": 1, "at": "2026-01-31T12:00:00+00:00",
            "cause": "data_error", "failed_step": None, "restored_step": None,
            "because": [{"text": r.text, "signature": r.signature} for r in found.because],
            "remedy": {"kind": "restart", "changes": {}, "because": because},
            "lost_steps": None, "downtime_seconds": None, "advice": found.advice,
        }
    )  # fmt: skip
    paragraphs = text.split("\n\n")
    assert paragraphs[1].startswith("'/data/none/train.npy' is not there")
    assert paragraphs[2].startswith("How we know:")
    assert text.count("is not there") == 1
    assert paragraphs[-1].endswith(f"{because}.")


def test_a_file_whose_absence_was_handled_is_not_the_missing_one() -> None:
    """The log may name any number of them; what ended the script names the cause."""
    handled = "FileNotFoundError: [Errno 2] No such file or directory: '/cache/index'\n"
    report = crash("tensorflow.DataLossError", "corrupted record at 12")
    found = diagnose(Evidence(exit=ours(1), crash=report, log=seen(handled)))
    assert "/cache/index" not in found.advice
