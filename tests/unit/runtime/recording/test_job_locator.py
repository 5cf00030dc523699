"""Where a job's files are, and where it worked."""

import pytest

from supervisor.runtime.recording.job_locator import JobFiles


@pytest.mark.parametrize(
    ("script", "named", "directory", "base"),
    [
        ("/home/me/net/train.py", "train.py", None, "/home/me/net"),
        ("/home/me/net/train.py", "./net/train.py", None, "/home/me"),
        ("/home/me/net/train.py", "train.py", "net", "/home/me/net"),
        ("/train.py", "train.py", None, "/"),
        ("/elsewhere/train.py", "/elsewhere/train.py", "/home/me", "/home/me"),
        ("/elsewhere/train.py", "/elsewhere/train.py", None, None),
        ("/behind/a_link.py", "train.py", None, None),
        ("/home/me/my-train.py", "train.py", None, None),
        ("/home/train.py", "../train.py", None, None),
        ("", "train.py", None, None),
    ],
)
def test_where_it_worked(
    script: str, named: str, directory: str | None, base: str | None
) -> None:
    """As its spec says, or as the script's place does; else nobody knows."""
    spec = {"script": named, "working_directory": directory}
    files = JobFiles(
        job="j", run_id="1", directory="/none", attempt=1, spec=spec, script=script
    )
    assert files.base == base
