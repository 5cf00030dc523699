"""Who may do what."""

from dataclasses import replace

import pytest

from supervisor.core.jobs.authorization import AccessRules, Caller, Permission

RULES = AccessRules(
    members="trainwarden", admins="trainwarden-admin", own_uid=990, trusts_itself=True
)
OF_A_BOX = replace(RULES, trusts_itself=False)
ALICE = Caller(uid=1000, name="alice", groups=frozenset({"alice", "trainwarden"}))
BOSS = Caller(uid=1001, name="boss", groups=frozenset({"trainwarden-admin"}))
ROOT = Caller(uid=0, name="root")
OURSELVES = Caller(uid=990, name="trainwarden")
STRANGER = Caller(uid=1002, name="eve", groups=frozenset({"eve"}))


@pytest.mark.parametrize("caller", [BOSS, ROOT, OURSELVES])
@pytest.mark.parametrize("permission", Permission)
def test_some_may_do_everything(caller: Caller, permission: Permission) -> None:
    """Root, the admin group, and the user that the daemon runs as."""
    assert RULES.why_not(caller, permission, owner="alice") is None


@pytest.mark.parametrize("permission", Permission)
def test_the_user_of_the_daemon_alone_is_nobody(permission: Permission) -> None:
    """On a box with users of its own nobody has to ask as that one, whatever its groups."""
    grouped = replace(OURSELVES, groups=frozenset({"trainwarden", "trainwarden-admin"}))
    for caller in (OURSELVES, grouped):
        told = OF_A_BOX.why_not(caller, permission)
        assert told == "trainwarden is the daemon's own user, and nobody's"
    assert OF_A_BOX.why_not(ROOT, permission) is None
    assert OF_A_BOX.why_not(BOSS, permission) is None


@pytest.mark.parametrize("permission", Permission)
def test_a_stranger_may_not_even_look(permission: Permission) -> None:
    """And is told which group would help."""
    assert RULES.why_not(STRANGER, permission) == "eve is not in the group trainwarden"


def test_a_member_has_their_own_jobs() -> None:
    """And sees, but does not touch, those of others."""
    assert RULES.why_not(ALICE, Permission.OWN, owner="alice") is None
    assert RULES.why_not(ALICE, Permission.OWN) is None
    assert RULES.why_not(ALICE, Permission.LOOK, owner="bob") is None
    told = RULES.why_not(ALICE, Permission.OWN, owner="bob")
    assert told == "the job belongs to bob, not to alice"


def test_a_member_does_not_rule() -> None:
    """Pausing the box concerns everybody."""
    told = RULES.why_not(ALICE, Permission.RULE)
    assert told == "only root and the group trainwarden-admin may do that"
