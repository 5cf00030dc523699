"""Names of users, from the machine's database."""

import pwd


def user_name(uid: int) -> str:
    """The name of a user; the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
