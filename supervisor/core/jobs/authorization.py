"""Who may do what on a box with many users."""

import enum
from dataclasses import dataclass


class Permission(enum.Enum):
    """What somebody asks for."""

    LOOK = "look"
    """See jobs, incidents and the state of the box."""
    OWN = "own"
    """Begin, end or read the logs of a job of one's own."""
    RULE = "rule"
    """What concerns everybody: pause the box, take a GPU out of service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, as the kernel knows them."""

    uid: int
    name: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """Who is trusted with what."""

    members: str
    """The group whose members may have jobs."""
    admins: str
    """The group whose members may do everything, like root."""
    own_uid: int
    """The daemon's own user."""
    trusts_itself: bool
    """Whether that user may do everything: it is the person who has started the daemon.
    Where it is a user of the daemon's alone nobody asks as that user, unless a program
    has broken in."""

    def rules(self, caller: Caller) -> bool:
        """Whether ``caller`` may do everything."""
        if caller.uid == 0:
            return True
        if caller.uid == self.own_uid:
            return self.trusts_itself
        return self.admins in caller.groups

    def why_not(
        self, caller: Caller, permission: Permission, *, owner: str | None = None
    ) -> str | None:
        """Why ``caller`` may not do that to a job of ``owner``; None: they may.

        ``owner`` is None where no job is concerned.
        """
        if self.rules(caller):
            return None
        if caller.uid == self.own_uid:
            return f"{caller.name} is the daemon's own user, and nobody's"
        if self.members not in caller.groups:
            return f"{caller.name} is not in the group {self.members}"
        if permission is Permission.RULE:
            return f"only root and the group {self.admins} may do that"
        if permission is Permission.OWN and owner is not None and owner != caller.name:
            return f"the job belongs to {owner}, not to {caller.name}"
        return None
