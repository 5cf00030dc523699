"""The names of units."""

import pytest

from supervisor.core.jobs.unit_names import (
    attempt_number,
    attempt_unit,
    attempt_units,
    is_user_name,
    template,
)


@pytest.mark.parametrize("name", ["alice", "anna-maria", "_svc", "a" * 32])
def test_names_of_users(name: str) -> None:
    """What useradd takes."""
    assert is_user_name(name)


@pytest.mark.parametrize("name", ["", "-a", "Alice", "a b", "a@b", "a/b", "a" * 33])
def test_what_is_no_name(name: str) -> None:
    """Nothing that could change the meaning of a unit's name or of a path."""
    assert not is_user_name(name)


def test_units() -> None:
    """The template names its user, and each attempt is an instance."""
    assert template("anna-maria") == "trainwarden-attempt-anna-maria@.service"
    unit = attempt_unit("alice", "digits", 7)
    assert unit == "trainwarden-attempt-alice@digits-7.service"
    assert (
        attempt_units("alice", "digits") == "trainwarden-attempt-alice@digits-*.service"
    )
    assert attempt_number(unit, "alice", "digits") == 7


@pytest.mark.parametrize(
    ("user", "job"), [("bob", "digits"), ("alice", "digit"), ("alice", "digits-7")]
)
def test_a_unit_belongs_to_one_job(user: str, job: str) -> None:
    """Also where one name begins like the other: the number is what comes last."""
    unit = "trainwarden-attempt-alice@digits-7.service"
    assert attempt_number(unit, user, job) is None


def test_a_job_whose_name_ends_in_a_number() -> None:
    """``digits-2`` is another job than ``digits``."""
    unit = attempt_unit("alice", "digits-2", 7)
    assert attempt_number(unit, "alice", "digits-2") == 7
    assert attempt_number(unit, "alice", "digits") is None
