"""Versions of TensorFlow and Keras: known, tried, or refused; and ``check`` as ``run``."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.host.doctor import version_checks
from supervisor.host.doctor.finding import FindingLevel
from tests.support.version_environments import agree, checked, environment
from trainers.process.environment.framework_versions import (
    KNOWN,
    KNOWN_ON_TORCH,
    Versions,
    installed,
    is_known,
    is_known_on_torch,
    judge,
)

HERE = Versions(python="3.11.7", tensorflow="2.21.0", keras="3.15.1", numpy="2.4.6")


def never(_versions: Versions) -> str | None:
    """A self-test that must not be asked for."""
    raise AssertionError


def test_a_known_pair_runs_without_a_self_test() -> None:
    """It was run as a whole: nothing is to be said."""
    for tensorflow, known in KNOWN.items():
        for keras in known:
            found = replace(HERE, tensorflow=f"{tensorflow}.9", keras=f"{keras}.9")
            verdict = judge(found, never)
            assert (verdict.refused, verdict.warning) == (None, None)


@pytest.mark.parametrize(
    ("tensorflow", "keras"),
    [("2.22.0", "3.15.1"), ("2.21.0", "3.150.0"), ("2.16.2", "3.15.1"), ("3.0", "4.0")],
)
def test_another_pair_runs_with_a_warning_where_its_self_test_holds(
    tensorflow: str, keras: str
) -> None:
    """Known are pairs, not versions; where it fails, the sentence says what."""
    found = replace(HERE, tensorflow=tensorflow, keras=keras)
    assert not is_known(found)
    held = judge(found, lambda _: None)
    assert held.refused is None
    assert held.warning is not None
    assert f"TensorFlow {tensorflow} with Keras {keras}" in held.warning
    failed = judge(found, lambda _: "a name is missing")
    assert failed.warning is None
    assert failed.refused is not None
    assert failed.refused.endswith("its self-test failed (a name is missing)")


@pytest.mark.parametrize("name", ["tensorflow", "keras"])
def test_a_version_that_cannot_be_told_is_refused(name: str) -> None:
    """There is nothing to keep a self-test by."""
    changes: dict[str, Any] = {name: None}
    verdict = judge(replace(HERE, **changes), never)
    assert verdict.refused == f"the version of {name} cannot be told"


def test_versions_on_pytorch_are_known_by_pair() -> None:
    """A build for CPUs has another version than one for GPUs, and is known as well."""
    for torch, known in KNOWN_ON_TORCH.items():
        for keras in known:
            assert is_known_on_torch({"keras": f"{keras}.1", "torch": f"{torch}.0+cpu"})
    assert not is_known_on_torch({"keras": "3.15.1", "torch": "3.0.0"})
    assert not is_known_on_torch({"keras": "3.15.1", "torch": None})


def test_what_the_child_says_is_a_finding() -> None:
    """OK, a warning or a problem; silence is a warning, no TensorFlow told elsewhere."""
    known = {"pair": "both", "refused": None, "warning": None, "legacy": None}

    def levels(answer: dict[str, Any] | None) -> list[FindingLevel]:
        found = version_checks.findings(answer, python="python")
        return [one.level for one in found]

    assert levels(known) == [FindingLevel.OK]
    assert levels({**known, "warning": "tried"}) == [FindingLevel.WARNING]
    assert levels({**known, "refused": "failed"}) == [FindingLevel.PROBLEM]
    assert levels({**known, "legacy": "old"}) == [FindingLevel.OK, FindingLevel.WARNING]
    assert levels({"refused": "training needs Python 3.11"}) == [FindingLevel.PROBLEM]
    assert levels({"absent": True}) == []
    on_torch = {"pair": "both"}
    assert levels({"absent": True, "torch": on_torch}) == [FindingLevel.OK]
    assert levels({**known, "torch": {**on_torch, "warning": "not tried"}}) == [
        FindingLevel.OK,
        FindingLevel.WARNING,
    ]
    assert levels(None) == [FindingLevel.WARNING]


@pytest.mark.slow
def test_check_and_run_agree_on_a_newer_version_that_works(tmp_path: Path) -> None:
    """The self-test holds for real, and is not run again: neither by the attempt nor by
    the next one who asks."""
    newer = environment(tmp_path, keras="3.99.0")
    answer = agree(tmp_path, newer)
    assert answer["refused"] is None
    assert answer["warning"].startswith(
        f"TensorFlow {installed('tensorflow')} with Keras 3.99.0 is not one of the pairs"
    )
    (kept,) = (tmp_path / "cache").glob("self-test-*.json")
    before = kept.stat().st_mtime_ns
    assert checked(newer, tmp_path / "cache") == answer
    assert kept.stat().st_mtime_ns == before
