"""What the first process of an attempt's own unit prepares, as the job's user."""

from pathlib import Path

from supervisor.host.launch.unit_main import prepare
from supervisor.wire.files import read_json
from supervisor.wire.paths import StatePaths


def test_the_snapshots_of_earlier_runs_are_given_back(tmp_path: Path) -> None:
    """The daemon may not: they are the user's. Logs stay, and so does what is newer, or
    no run of ours."""
    paths = StatePaths(tmp_path)
    for number in (2, 9, 10, 11):
        paths.run("digits", number).attempt(1).root.mkdir(parents=True)
        paths.run("digits", number).snapshots.mkdir()
    other = tmp_path / "jobs" / "digits" / "run-old" / "snapshots"
    other.mkdir(parents=True)
    asked(paths, 10)
    left = [number for number in (2, 9, 10, 11) if snapshots(paths, number).exists()]
    assert left == [10, 11]
    assert other.exists()
    assert paths.run("digits", 2).attempt(1).root.exists()


def test_a_first_run_has_none_before_it(tmp_path: Path) -> None:
    """What it needs is made, and what it is told is written down."""
    paths = StatePaths(tmp_path)
    asked(paths, 1)
    files = paths.run("digits", 1).attempt(2)
    assert files.dumps.is_dir()
    assert read_json(files.directive) is not None
    assert snapshots(paths, 1).is_dir()


def asked(paths: StatePaths, number: int) -> None:
    """The second attempt of run ``number`` is prepared."""
    run = paths.run("digits", number)
    directive = {
        "attempt_directory": str(run.attempt(2).root),
        "snapshot_directory": str(run.snapshots),
    }
    prepare({"directive": directive})


def snapshots(paths: StatePaths, number: int) -> Path:
    """Where those of a run lie."""
    return paths.run("digits", number).snapshots
