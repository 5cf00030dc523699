"""What a spec says of files that the script writes."""

import pytest

from supervisor.core.jobs.spec import SpecError, build_spec


@pytest.mark.parametrize(
    ("given", "directories"),
    [
        ({}, (".",)),
        ({"rewind": True}, (".",)),
        ({"rewind": False}, ()),
        ({"rewind": []}, ()),
        ({"rewind": ["results", "/data/logs"]}, ("results", "/data/logs")),
    ],
)
def test_where_files_are_put_back(
    given: dict[str, object], directories: tuple[str, ...]
) -> None:
    """In the working directory, unless the spec says otherwise."""
    spec = build_spec({"script": "x.py", "files": given})
    assert spec.files.rewind == directories


@pytest.mark.parametrize("given", ["results", 3, [""], [3], {"a": 1}])
def test_no_directories(given: object) -> None:
    """Anything else is a problem with a name."""
    with pytest.raises(SpecError, match=r"files\.rewind"):
        build_spec({"script": "x.py", "files": {"rewind": given}})
