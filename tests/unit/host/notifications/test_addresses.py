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
    found = read_addresses(path)
    assert [one.url for one in found] == ["ntfy://topic", "json://localhost/hook"]
    assert [one.name for one in found] == ["line 3 (ntfy)", "line 4 (json)"]
    assert "topic" not in repr(found)


def test_a_link_and_a_mark_at_its_beginning(tmp_path: Path) -> None:
    """Secrets are mounted as links; editors of Windows begin a file with a mark."""
    path = file_of(tmp_path, "\ufeffntfy://topic\r\n")
    (tmp_path / "link").symlink_to(path)
    (one,) = read_addresses(tmp_path / "link")
    assert one.url == "ntfy://topic"


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("ntfy://secret", 0o644, "chmod 600"),
        ("ntfy://secret", 0o660, "chmod 600"),
        ("# none\n", 0o600, "names none"),
        ("ntfy://secret\n" * MAX_BYTES, 0o600, "larger than"),
        ("ntfy://secret\n" * 33, 0o600, "more than 32"),
        ("ntfy://secret ntfy://secret\n", 0o600, "line 1 .* not one address"),
        ("#\nsecret\n", 0o600, "line 2 .* not one address"),
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


def test_what_is_no_text(tmp_path: Path) -> None:
    """It is not guessed at."""
    path = file_of(tmp_path, "")
    path.write_bytes("json://h/\u00e9".encode("latin-1"))
    with pytest.raises(AddressFileError, match="UTF-8"):
        read_addresses(path)


def test_no_file(tmp_path: Path) -> None:
    """As anybody would say it; a directory is none."""
    with pytest.raises(AddressFileError, match="No such file"):
        read_addresses(tmp_path / "none")
    with pytest.raises(AddressFileError, match="cannot be read"):
        read_addresses(tmp_path)
