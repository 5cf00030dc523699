"""The file of addresses holds secrets: whose it may be, and what is said of it."""

from pathlib import Path

import pytest

from supervisor.host.notifications.addresses import (
    MAX_BYTES,
    AddressFileError,
    read_addresses,
)


def file_of(directory: Path, text: str, mode: int = 0o600) -> Path:
    """A file of addresses."""
    path = directory / "notify"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_one_a_line(tmp_path: Path) -> None:
    """Comments and empty lines are none."""
    path = file_of(tmp_path, "# mine\n\n  ntfy://topic  \njson://localhost/hook\n")
    assert read_addresses(path) == ["ntfy://topic", "json://localhost/hook"]


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("ntfy://secret", 0o644, "chmod 600"),
        ("ntfy://secret", 0o660, "chmod 600"),
        ("# none\n", 0o600, "names none"),
        ("ntfy://secret\n" * MAX_BYTES, 0o600, "larger than"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, mode: int, said: str) -> None:
    """By a sentence that names the file, and nothing that stands in it."""
    path = file_of(tmp_path, text, mode)
    with pytest.raises(AddressFileError, match=said) as refused:
        read_addresses(path)
    assert str(path) in str(refused.value)
    assert "secret" not in str(refused.value).replace(str(path), "").replace(
        "which holds secrets", ""
    )


def test_no_file(tmp_path: Path) -> None:
    """As anybody would say it; a directory is none."""
    with pytest.raises(AddressFileError, match="No such file"):
        read_addresses(tmp_path / "none")
    with pytest.raises(AddressFileError, match="cannot be read"):
        read_addresses(tmp_path)
