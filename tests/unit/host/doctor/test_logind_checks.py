"""What logind is told about RemoveIPC, by all the files that systemd reads."""

from pathlib import Path

import pytest

from supervisor.host.doctor.logind_checks import files, ipc, removes_ipc, runs, texts

KEEP, REMOVE = "[Login]\nRemoveIPC=no\n", "[Login]\nRemoveIPC=yes\n"


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    """The directories, in order of precedence."""
    made = [tmp_path / name for name in ("etc", "run", "usr")]
    for place in made:
        (place / "logind.conf.d").mkdir(parents=True)
    return made


def put(place: Path, name: str, text: str) -> None:
    """A drop-in."""
    (place / "logind.conf.d" / name).write_text(text)


def test_a_drop_in_wins_over_the_file(places: list[Path]) -> None:
    """Also one of the distribution's over the administrator's own file."""
    etc, _, usr = places
    (etc / "logind.conf").write_text(REMOVE)
    assert removes_ipc(texts(places))
    put(usr, "50-ours.conf", KEEP)
    assert not removes_ipc(texts(places))


def test_the_last_name_wins_wherever_it_lies(places: list[Path]) -> None:
    """They are read by name, not by directory."""
    etc, run, usr = places
    put(usr, "90-last.conf", KEEP)
    put(etc, "10-first.conf", REMOVE)
    put(run, "50-between.conf", REMOVE)
    names = [path.name for path in files(places)]
    assert names == ["10-first.conf", "50-between.conf", "90-last.conf"]
    assert not removes_ipc(texts(places))


def test_one_of_the_same_name_hides_the_others(places: list[Path]) -> None:
    """The one in the directory that comes first; a link to /dev/null hides as well."""
    etc, run, usr = places
    put(usr, "50-ipc.conf", KEEP)
    put(run, "50-ipc.conf", REMOVE)
    assert removes_ipc(texts(places))
    (etc / "logind.conf.d/50-ipc.conf").symlink_to("/dev/null")
    put(usr, "40-ipc.conf", KEEP)
    assert not removes_ipc(texts(places))


def test_only_the_first_main_file_is_read(places: list[Path]) -> None:
    """systemd takes the first that there is; without any, its own default."""
    _, run, usr = places
    assert removes_ipc(texts(places))
    (usr / "logind.conf").write_text(KEEP)
    assert not removes_ipc(texts(places))
    (run / "logind.conf").write_text("[Login]\n")
    assert removes_ipc(texts(places))


@pytest.mark.parametrize(
    ("text", "removes"),
    [
        ("[Login]\n RemoveIPC = Off \n", False),
        ("[Login]\nRemoveIPC=no\nRemoveIPC=1\n", True),
        ("[Login]\nRemoveIPC=no\nRemoveIPC=perhaps\n", False),
        ("[Login]\n; RemoveIPC=no\n", True),
        ("[Other]\nRemoveIPC=no\n", True),
        ("RemoveIPC=no\n[Login]\n", True),
        ("[Login]\nRemoveIPCs=no\n", True),
    ],
)
def test_lines(text: str, *, removes: bool) -> None:
    """Sections, comments, and words that systemd knows."""
    assert removes_ipc([text]) is removes
    assert [finding.about for finding in ipc([text])] == ["RemoveIPC"] * removes


def test_where_no_logind_runs(tmp_path: Path) -> None:
    """Nobody removes anything there, whatever its files say."""
    assert not runs(tmp_path / "seats", booted=True)
    (tmp_path / "seats").mkdir()
    assert runs(tmp_path / "seats", booted=True)
    assert not runs(tmp_path / "seats", booted=False)
