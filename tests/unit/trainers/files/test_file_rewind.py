"""Each rule of what is put back, what is left, and what is told; attempts are plain Python."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.files import write_json
from tests.support.attempts import Attempts

CHILD = """
import json, os, pathlib, shutil, signal, sqlite3, subprocess, sys
from supervisor.wire.messages.directive import Directive
from trainers.files.file_rewind import FileRewind


def ordered():
    # A fork for each order, which returns from here: most of the time of an attempt that
    # does so little would be its imports.
    for line in sys.stdin:
        child = os.fork()
        if not child:
            return json.loads(line)
        print(os.waitpid(child, 0)[1], flush=True)
    sys.exit()


order = ordered()
os.dup2(os.open(os.devnull, os.O_RDWR), 0)
os.dup2(0, 1)
os.dup2(os.open(order["errors"], os.O_WRONLY | os.O_CREAT), 2)
os.chdir(order["work"])
directive = Directive.read(pathlib.Path(order["directive"]))
kept = pathlib.Path(directive.snapshot_directory) / "000000000001-000001"
told = pathlib.Path(directive.attempt_directory) / "told"
files = FileRewind(directive, lambda text: told.open("a").write(text + "\\n"))
files.begin()

def fit(): files.followed()
def snapshot(): kept.write_text(json.dumps(files.ends()))
def give_back(): files.put_back(json.loads(kept.read_text()))
def die(): os.kill(os.getpid(), signal.SIGKILL)
def add(text, path="log.txt", mode="a"):
    with open(path, mode) as file:
        file.write(text)


LOOKS = {
    "_path_normpath", "close", "fspath", "fstat", "geteuid", "getpid", "listdir", "lseek",
    "lstat", "pread", "readlink", "scandir", "stat",
}


def dying(left):
    # Before a look is before the next change: how many there are depends on how many
    # processes the machine has, as each is asked for the files that it has open.
    def count(frame, event, argument):
        nonlocal left
        of = getattr(argument, "__module__", ""), getattr(argument, "__name__", "")
        if event == "c_call" and of[0] == "posix" and of[1] not in LOOKS:
            left -= 1
            if left < 0:
                die()
    sys.setprofile(count)

exec(order["code"])
"""


@dataclass
class RewoundRun:
    """A run's attempts, in a directory."""

    directory: Path
    server: subprocess.Popen[str]
    """``CHILD``, which has imported everything."""
    rewind: tuple[str, ...] = (".",)
    attempts: Attempts = field(init=False)
    told: str = ""
    """In the last attempt."""

    def __post_init__(self) -> None:
        place = self.directory / "state" / "attempts"
        self.attempts = Attempts(place, {"rewind": self.rewind})
        self.attempts.snapshots.mkdir(parents=True)
        self.work = self.directory / "work"
        self.work.mkdir()

    def __call__(self, code: str) -> int:
        """The next attempt runs ``code``."""
        self.attempts.count += 1
        directive = self.attempts.directive(self.work / "train.py")
        root = Path(directive.attempt_directory)
        root.mkdir(parents=True)
        write_json(root / "directive.json", directive.to_json())
        order = {
            "work": str(self.work),
            "directive": str(root / "directive.json"),
            "errors": str(root / "errors"),
            "code": code,
        }
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        ended = os.waitstatus_to_exitcode(int(self.server.stdout.readline()))
        assert ended in (0, -9), (root / "errors").read_text()
        path = root / "told"
        self.told = path.read_text() if path.exists() else ""
        return ended

    def files(self) -> dict[str, str]:
        """What there is, by name."""
        found = sorted(path for path in self.work.rglob("*") if path.is_file())
        return {path.name: path.read_text() for path in found}


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    """What each attempt is forked from."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def run(tmp_path: Path, server: subprocess.Popen[str]) -> RewoundRun:
    """A run whose files are put back."""
    return RewoundRun(tmp_path, server)


FIRST = "fit(); add('1\\n'); snapshot(); add('2\\n')"


def test_what_came_after_the_snapshot_is_cut_off_and_kept(run: RewoundRun) -> None:
    """What the restarted script wrote on its way there as well; and that is told."""
    (run.work / "log.txt").write_text("of another run\n")
    run(f"add('begun\\n'); {FIRST}")
    run("add('begun\\n'); give_back(); add('2\\n'); add('3\\n')")
    assert run.files() == {
        "log.txt": "of another run\nbegun\n1\n2\n3\n",
        "log.txt.cut-attempt-1": "2\nbegun\n",
    }
    assert "put back to where the run goes on from: log.txt" in run.told


def test_an_attempt_that_comes_to_no_state_touches_nothing(run: RewoundRun) -> None:
    """However often: what was cut off or not is the same at the end."""
    run(f"add('begun\\n'); {FIRST}")
    run("add('begun\\n')")
    assert run.files() == {"log.txt": "begun\n1\n2\nbegun\n"}
    run("add('begun\\n'); give_back(); add('2\\n')")
    assert run.files()["log.txt"] == "begun\n1\n2\n"


HELD = "log = open('log.txt', '{}'); log.write('begun\\n');"


@pytest.mark.parametrize("mode", ["a", "w"])
def test_a_file_that_is_open_all_the_time(run: RewoundRun, mode: str) -> None:
    """What is in Python's buffer belongs to the snapshot; and one that begins anew with
    each start has again what it had, and goes on at its end."""
    held = HELD.format(mode)
    run(f"fit(); {held} log.write('1\\n'); snapshot(); log.write('2\\n'); log.flush()")
    run(f"{held} give_back(); log.write('2\\n'); log.close()")
    found = run.files()
    assert found.pop("log.txt") == "begun\n1\n2\n"
    (kept,) = found.values()
    assert kept == ("begun\n1\n2\n" if mode == "w" else "2\nbegun\n")


def test_a_copy_that_holds_nothing_more_is_removed(run: RewoundRun) -> None:
    """The file was emptied by the script, and had nothing after the snapshot."""
    held = HELD.format("w")
    run(f"fit(); {held} snapshot()")
    run(f"{held} give_back(); log.write('2\\n')")
    assert run.files() == {"log.txt": "begun\n2\n"}


def test_a_kill_after_the_script_emptied_its_file(run: RewoundRun) -> None:
    """What it held lies beside it from before it was emptied, until it is back."""
    held = HELD.format("w")
    run(f"fit(); {held} snapshot(); log.write('2\\n'); log.flush(); die()")
    run(f"{held} log.flush(); die()")
    assert run.files() == {
        "log.txt": "begun\n",
        "log.txt.cut-attempt-1": "begun\n2\n",
    }
    run(f"{held} log.flush(); die()")
    run(f"{held} give_back(); log.write('2\\n')")
    assert run.files()["log.txt"] == "begun\n2\n"


def test_a_directory_that_the_script_clears_as_it_begins(run: RewoundRun) -> None:
    """The log in it is what it was; what it held is kept outside of it."""
    clears = "shutil.rmtree('out', ignore_errors=True); os.mkdir('out');"
    one, two = "add('1\\n', 'out/log.txt');", "add('2\\n', 'out/log.txt')"
    run(f"{clears} fit(); {one} snapshot(); {two}")
    run(f"{clears} give_back(); {two}")
    assert (run.work / "out" / "log.txt").read_text() == "1\n2\n"
    kept = run.work / "out.cut-attempt-1" / "log.txt"
    assert kept.read_text() == "1\n2\n"


def test_what_a_cleared_directory_held_at_the_snapshot(run: RewoundRun) -> None:
    """Results of calls that are not made again: small ones and large ones."""
    clears = "shutil.rmtree('out', ignore_errors=True); os.mkdir('out');"
    small = "add('[1]', 'out/fold-1.json', 'w');"
    large = "add('1' * 10**5, 'out/fold-1.bin', 'w');"
    run(f"{clears} fit(); {small} {large} snapshot(); add('2', 'out/late.txt', 'w')")
    run(
        f"{clears} add('', 'out/late.txt', 'w'); os.remove('out/late.txt'); give_back()"
    )
    assert run.files() == {"fold-1.json": "[1]", "fold-1.bin": "1" * 10**5}
    assert not (run.work / "out.cut-attempt-1").exists()


def test_a_directory_of_the_users_is_never_removed(run: RewoundRun) -> None:
    """Though it is empty, once a copy in it is not needed."""
    passing = (
        "os.makedirs('out', exist_ok=True); add('1', 'out/x', 'w'); os.remove('out/x')"
    )
    run(f"{passing}; {FIRST}")
    run(f"{passing}; give_back()")
    assert (run.work / "out").is_dir()
    assert not list((run.work / "out").iterdir())


@pytest.mark.parametrize("replaces", [True, False])
def test_a_small_file_that_is_rewritten(run: RewoundRun, replaces: bool) -> None:  # noqa: FBT001
    """It is what it was at the snapshot; what it held is beside it."""
    new = "status.json.new" if replaces else "status.json"
    after = "os.replace('status.json.new', 'status.json');" if replaces else ""
    write = f"add('{{}}', '{new}', 'w'); {after}"
    run(f"fit(); {write.format(1)} snapshot(); {write.format(22)}")
    run("give_back()")
    assert run.files() == {"status.json": "1", "status.json.cut-attempt-1": "22"}


def test_a_small_file_that_differs_early(run: RewoundRun) -> None:
    """All of it is compared, not its end alone."""
    write = "add('{}' + 'x' * 9000, 'status.json', 'w');"
    run(f"fit(); {write.format(1)} snapshot(); {write.format(2)}")
    run("give_back()")
    assert run.files()["status.json"] == "1" + "x" * 9000


def test_a_large_file_that_is_rewritten_is_named(run: RewoundRun) -> None:
    """It is written again when the script comes to it."""
    run(
        "fit(); add('1' * 10**5, 'best', 'w'); snapshot(); add('2' * 10**5, 'best', 'w')"
    )
    run("give_back()")
    assert run.files() == {"best": "2" * 10**5}
    assert "left as they are until it writes them again: best" in run.told


def test_a_file_that_was_begun_after_the_snapshot(run: RewoundRun) -> None:
    """It is begun again; one that was there before the run is left: others may have
    written to it as well, as to a table of all runs."""
    (run.work / "older.txt").write_text("old\n")
    later = "add('2\\n', 'late.txt'); add('2\\n', 'older.txt')"
    run(f"fit(); snapshot(); {later}")
    run(f"give_back(); {later}")
    assert run.files() == {
        "late.txt": "2\n",
        "late.txt.cut-attempt-1": "2\n",
        "older.txt": "old\n2\n2\n",
    }
    assert "older.txt (it was there before the run" in run.told


def test_a_kill_before_the_first_snapshot(run: RewoundRun) -> None:
    """Training begins anew, and so do files; what was there before is left."""
    (run.work / "log.txt").write_text("old\n")
    run("fit(); add('1\\n'); add('1\\n', 'new.txt'); die()")
    run("assert not os.path.exists('new.txt'); add('1\\n', 'new.txt')")
    assert run.files() == {
        "log.txt": "old\n1\n",
        "new.txt": "1\n",
        "new.txt.cut-attempt-1": "1\n",
    }
    assert "log.txt (it was there before the run" in run.told


@pytest.mark.parametrize("first", ["", "snapshot();"])
def test_a_table_whose_head_is_written_where_it_is_missing(
    run: RewoundRun, first: str
) -> None:
    """It was begun after the snapshot, or there was none yet: it is begun again."""
    head = "os.path.exists('t.csv') or add('head\\n', 't.csv', 'w');"
    row, back = "add('1\\n', 't.csv')", "give_back();" if first else ""
    run(f"fit(); {first} {head} {row}; die()")
    run(f"fit(); {back} {head} {row}")
    assert run.files()["t.csv"] == "head\n1\n"


def test_a_script_that_trains_with_nobodys_help(run: RewoundRun) -> None:
    """It may go on from what it has written itself: that is its own."""
    run("add('1\\n'); die()")
    run("add('2\\n')")
    assert run.files() == {"log.txt": "1\n2\n"}


SAME_SIZE = "subprocess.run(['sh', '-c', 'echo other > log.txt'], check=True);"
HELD_TOO = "log = open('log.txt', 'a'); log.write('1\\n');"
OTHERS = "subprocess.run(['sh', '-c', 'echo other >> log.txt'], check=True);"


@pytest.mark.parametrize(
    "code",
    [
        f"fit(); add('other\\n'); snapshot(); {SAME_SIZE} snapshot(); add('2\\n')",
        f"fit(); add('1\\n'); snapshot(); {OTHERS} snapshot(); add('2\\n')",
        f"fit(); add('1\\n'); snapshot(); {OTHERS} add('2\\n')",
        f"fit(); add('1\\n'); snapshot(); {OTHERS}",
        f"{HELD_TOO} snapshot(); {OTHERS} snapshot(); log.write('2\\n'); log.close()",
    ],
    ids=[
        "rewritten",
        "between snapshots",
        "before it is opened",
        "nobody opened it",
        "it is open",
    ],
)
def test_a_file_that_others_write_to_is_left_to_them(
    run: RewoundRun, code: str
) -> None:
    """A line of another process, whenever it came, is never cut off; that is told."""
    run(code)
    before = run.files()
    run("give_back()")
    assert run.files() == before
    assert "other\n" in before["log.txt"]
    assert "something else writes to it too" in run.told


def test_a_file_that_was_written_after_the_attempt_had_ended(run: RewoundRun) -> None:
    """By a person, or by a plain run of the script: it stays."""
    run(FIRST)
    root = run.attempts.directory / "attempt-1"
    (root / "exit.json").touch()
    os.utime(root / "exit.json", (time.time() - 100,) * 2)
    (run.work / "log.txt").write_text("1\n2\nby hand\n")
    run("add('begun\\n'); give_back()")
    assert run.files() == {"log.txt": "1\n2\nby hand\nbegun\n"}
    assert "something else writes to it too" in run.told


def test_a_file_that_another_process_has_open(run: RewoundRun) -> None:
    """Found right before it would be cut."""
    run(FIRST)
    with (run.work / "log.txt").open("a"):
        run("give_back()")
    assert run.files() == {"log.txt": "1\n2\n"}
    assert f"process {os.getpid()} has it open to write" in run.told


@pytest.mark.parametrize(
    ("content", "because"),
    [
        ("0\n2\n", "not the same as then"),
        ("1", "1 bytes shorter"),
        (None, "it is gone"),
    ],
)
def test_a_file_that_is_not_what_it_was(
    run: RewoundRun, content: str | None, because: str
) -> None:
    """Somebody edited, shortened or removed it."""
    run(FIRST)
    path = run.work / "log.txt"
    path.unlink() if content is None else path.write_text(content)
    run("give_back()")
    assert run.files() == ({} if content is None else {"log.txt": content})
    assert because in run.told


def test_a_file_with_a_second_name(run: RewoundRun) -> None:
    """Which may be a backup."""
    run(FIRST)
    (run.work / "backup").hardlink_to(run.work / "log.txt")
    run("give_back()")
    assert run.files() == {"backup": "1\n2\n", "log.txt": "1\n2\n"}
    assert "second name" in run.told


def test_a_link_that_leads_out(run: RewoundRun) -> None:
    """What it leads to is not in the directories that may be put back: named, once."""
    outside = run.directory.parent / f"{run.directory.name}-outside.txt"
    (run.work / "log.txt").symlink_to(outside)
    run(f"{FIRST}; snapshot()")
    run("give_back()")
    assert outside.read_text() == "1\n2\n"
    outside.unlink()


@pytest.mark.parametrize(
    ("writes", "because"),
    [
        ("f = open('data', 'r+'); f.seek(1); f.write('x');", "changed in place"),
        (
            "import gzip; f = gzip.open('data.gz', 'wt'); f.write('x');",
            "from the middle",
        ),
    ],
)
def test_what_cannot_be_cut_is_left(run: RewoundRun, writes: str, because: str) -> None:
    """And told: what is changed in the middle, and an open stream of compressed data."""
    (run.work / "data").write_text("12345")
    run(f"fit(); {writes} f.flush(); snapshot(); f.write('y' * 9); f.close()")
    names = {path.name: path.read_bytes() for path in run.work.iterdir()}
    run("give_back()")
    assert {path.name: path.read_bytes() for path in run.work.iterdir()} == names
    assert because in run.told


NAMED = "a restart does not put back"


def test_what_is_never_put_back_is_named_once_a_run(
    tmp_path: Path, server: subprocess.Popen[str]
) -> None:
    """Databases, and files that lie elsewhere: right at the first snapshot."""
    run = RewoundRun(tmp_path, server, rewind=("results",))
    (run.work / "results").mkdir()
    code = "sqlite3.connect('results/runs.db').close(); fit();"
    run(f"{code} add('1\\n', 'results/log.txt'); snapshot(); snapshot()")
    assert run.told.count(NAMED) == 1
    assert "runs.db" in run.told
    run(f"{code} give_back(); snapshot()")
    assert NAMED not in run.told


@pytest.mark.parametrize("name", [".hidden/log.txt", "log.txt.lock", ".log"])
def test_hidden_files_and_locks_are_not_ours(run: RewoundRun, name: str) -> None:
    """Caches of programs, mostly."""
    (run.work / ".hidden").mkdir()
    run(f"fit(); add('1', {name!r}); snapshot(); add('2', {name!r})")
    run("give_back()")
    assert (run.work / name).read_text() == "12"


@pytest.mark.parametrize(
    "name", ["wandb/run-1/logs/debug.log", "mlruns/0/1/metrics/loss"]
)
def test_what_trackers_keep_is_theirs(run: RewoundRun, name: str) -> None:
    """Their runs go on; a piece that was cut off would be one more metric."""
    (run.work / name).parent.mkdir(parents=True)
    run(f"fit(); add('one ', '{name}'); snapshot(); add('two ', '{name}'); die()")
    run(f"fit(); add('three', '{name}'); give_back(); snapshot()")
    assert (run.work / name).read_text() == "one two three"
    assert run.told == ""


def test_turned_off(tmp_path: Path, server: subprocess.Popen[str]) -> None:
    """Nothing is noticed, and nothing touched."""
    run = RewoundRun(tmp_path, server, rewind=())
    run(FIRST)
    run("give_back()")
    assert run.files() == {"log.txt": "1\n2\n"}
    assert not list(run.attempts.directory.rglob("files.jsonl"))


def test_a_snapshot_of_an_older_version(run: RewoundRun) -> None:
    """It knows of no files: they are left."""
    run(FIRST)
    (kept,) = run.attempts.snapshots.iterdir()
    kept.write_text("null")
    run("give_back()")
    assert run.files() == {"log.txt": "1\n2\n"}


def test_training_that_goes_on_from_no_snapshot(run: RewoundRun) -> None:
    """Although there is one: what is doubled then is told."""
    run(FIRST)
    run("fit(); add('1\\n'); snapshot(); give_back()")
    assert run.files() == {"log.txt": "1\n2\n1\n"}
    assert "training did not go on from a snapshot" in run.told


def test_many_files(run: RewoundRun) -> None:
    """So many are not all put back, and that is told; logs come first."""
    many = "for i in range(400): add('1', f'sample-{i}.txt', 'w')"
    run(f"fit(); exec({many!r}); add('1\\n'); snapshot(); add('2\\n')")
    assert "not put back all of them" in run.told
    run("give_back()")
    assert run.files()["log.txt"] == "1\n"


def test_the_record_in_a_snapshot_is_json(run: RewoundRun) -> None:
    """Sizes, hashes, and small files as they were: by path."""
    run(f"add('{{}}', 'status.json', 'w'); {FIRST}")
    (kept,) = run.attempts.snapshots.iterdir()
    found: dict[str, Any] = json.loads(kept.read_text())
    ends = {Path(path).name: end for path, end in found["ends"].items()}
    assert (ends["log.txt"]["size"], ends["log.txt"]["appends"]) == (2, True)
    assert (ends["status.json"]["text"], ends["log.txt"]["text"]) == ("{}", None)


ALL_KINDS = """
fresh = open("fresh.txt", "w"); fresh.write("begun\\n"); fresh.flush()
add("begun\\n"); add("0", "status.json", "w")
"""
AFTER = (
    "fresh.write('2\\n'); fresh.flush(); add('2\\n'); add('two', 'status.json', 'w')"
)


@pytest.mark.parametrize("apart", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_place_while_files_are_put_back(
    tmp_path: Path, server: subprocess.Popen[str], apart: int
) -> None:
    """Before calls that change something, so many apart: every line is in some file, and
    the next attempt puts all of them where they were."""
    code, calls = -9, 0
    while code == -9:
        (tmp_path / str(calls)).mkdir()
        run = RewoundRun(tmp_path / str(calls), server)
        first = (
            "fit(); fresh.write('1\\n'); add('1\\n'); add('one', 'status.json', 'w')"
        )
        run(f"{ALL_KINDS}\n{first}; snapshot(); {AFTER}")
        code, calls = run(f"{ALL_KINDS}\ndying({calls}); give_back()"), calls + apart
        found = run.files()
        held = [found[name] for name in found if name.startswith("fresh.txt")]
        assert any(one.startswith("begun\n1\n2\n") for one in held) or code == 0
        assert "begun\n1\n" in found["log.txt"]
        assert "2\n" in "".join(found[n] for n in found if n.startswith("log.txt"))
        run(f"{ALL_KINDS}\ngive_back()")
        found = run.files()
        assert (found["log.txt"], found["fresh.txt"]) == ("begun\n1\n",) * 2
        assert found["status.json"] == "one"
    assert code == 0
    assert calls > 25
