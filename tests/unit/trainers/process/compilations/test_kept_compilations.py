"""Where JAX is told to keep what it compiles, and whose settings win."""

from pathlib import Path

import pytest

from supervisor.wire.event_file import EventReader, RecordKind
from tests.support.attempts import Attempts
from trainers.process.attempt_reporting import Attempt
from trainers.process.compilations.kept_compilations import (
    JAX_DIRECTORY,
    JAX_VARIABLES,
    KeptCompilations,
)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """One that was started a moment ago."""
    directive = Attempts(tmp_path, {"compilation_quota_bytes": 1 << 20}).directive(
        tmp_path / "train.py"
    )
    Path(directive.attempt_directory).mkdir(parents=True)
    return Attempt(directive)


def test_jax_is_told_before_it_is_imported(attempt: Attempt, tmp_path: Path) -> None:
    """A directory of the attempt's own; what a person set of the rest stays."""
    name, other = list(JAX_VARIABLES)[:2]
    environment = {name: "5"}
    KeptCompilations(attempt, environment, str(tmp_path / "kept"))
    assert environment[JAX_DIRECTORY] == str(attempt.paths.root / "compilations")
    assert (environment[name], environment[other]) == ("5", JAX_VARIABLES[other])


@pytest.mark.parametrize(
    "theirs", [{JAX_DIRECTORY: "/x"}, {"JAX_ENABLE_COMPILATION_CACHE": "false"}]
)
def test_who_has_decided_keeps_it(
    attempt: Attempt, tmp_path: Path, theirs: dict[str, str]
) -> None:
    """Neither a setting of ours, nor a file."""
    environment = dict(theirs)
    kept = KeptCompilations(attempt, environment, str(tmp_path / "kept"))
    kept.jax_imported(None)
    assert environment == theirs
    assert not (tmp_path / "kept").exists()


def test_a_script_without_a_framework_leaves_nothing(
    attempt: Attempt, tmp_path: Path
) -> None:
    """No directory, no word."""
    KeptCompilations(attempt, {}, str(tmp_path / "kept")).ended()
    assert not (tmp_path / "kept").exists()
    records = EventReader(attempt.paths.events).poll()
    assert [one for one in records if one.kind == RecordKind.NOTICE] == []
