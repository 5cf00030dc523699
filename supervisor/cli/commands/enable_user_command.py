"""``trainwarden enable-user``: give a user of this box a place for jobs. As root."""

import grp
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import click

from supervisor.cli.options import fail, json_option
from supervisor.cli.sources.daemon_client import BOX_STATE
from supervisor.core.jobs.unit_names import USER_EXPECTED, is_user_name, template

UNITS = Path("/etc/systemd/system")
DAEMON = "trainwarden"
DATA = "trainwarden-data"
MEMBERS = "trainwarden"
OURS = frozenset({DAEMON, "trainwarden-gpu", "trainwarden-run"})
"""Users of the supervisor itself: what they may read is nobody else's."""


def template_text(text: str, user: str) -> str:
    """The template of a user's attempts, from the one of all."""
    return text.replace("@USER@", user)


@click.command("enable-user")
@json_option
@click.argument("name")
def enable_user(*, as_json: bool, name: str) -> None:
    """Let the user NAME have jobs on this box. As root, once for each user.

    Installs the template of their attempts, makes their directories, and puts them into
    the group trainwarden.

    Example: trainwarden enable-user alice
    """
    if not is_user_name(name):
        fail(f"{name!r} cannot be used here: expected {USER_EXPECTED}")
    if os.geteuid() != 0:
        fail("only root may do that", exit_code=1)
    source = Path(sys.prefix) / "share" / "trainwarden-attempt.service.in"
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        fail(f"there is no user {name!r} on this machine", exit_code=1)
    try:
        daemon = pwd.getpwnam(DAEMON)
        data = grp.getgrnam(DATA).gr_gid
        text = template_text(source.read_text(), name)
    except KeyError as error:
        fail(f"{error.args[0]}: see deploy/README.md, as root", exit_code=1)
    except OSError as error:
        fail(f"{source}: {error.strerror}; run deploy/install.sh first", exit_code=1)
    if user.pw_uid == 0:
        fail("jobs never run as root")
    if name in OURS:
        fail(f"jobs never run as {name}, who is part of the supervisor: name a person")
    # Only the daemon writes requests, only their user reads them.
    make(BOX_STATE / "requests" / name, daemon.pw_uid, user.pw_gid, 0o2750)
    # Only the user writes there; what is made there belongs to the daemon's group.
    place = BOX_STATE / "users" / name
    make(place, user.pw_uid, data, 0o2750)
    unit = UNITS / template(name)
    unit.write_text(text)
    for command in (["usermod", "-aG", MEMBERS, name], ["systemctl", "daemon-reload"]):
        done = subprocess.run(  # noqa: S603  # ours, no shell
            command, check=False, stdout=sys.stderr
        )
        if done.returncode:
            fail(f"{' '.join(command)} ended with {done.returncode}", exit_code=1)
    told = {"user": name, "template": str(unit), "state_dir": str(place)}
    text = f"{name} may submit jobs; their groups count from their next login on"
    click.echo(json.dumps(told, indent=2) if as_json else text)


def make(path: Path, uid: int, gid: int, mode: int) -> None:
    """A directory with exactly this owner and mode. Raises OSError."""
    path.mkdir(exist_ok=True, parents=True)
    os.chown(path, uid, gid, follow_symlinks=False)
    path.chmod(mode)
