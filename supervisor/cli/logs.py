"""``trainwarden logs``: what a job printed, from the daemon or from the files."""

import sys
import time
from pathlib import Path
from urllib.parse import quote

import click

from supervisor.cli.options import default_state_directory, fail
from supervisor.cli.reach import answering, asking, box_option
from supervisor.cli.records import reading
from supervisor.host.control_client import Client, RefusedError
from supervisor.host.log_parts import PART_BYTES, read_part
from supervisor.host.status import paths_of
from supervisor.wire.paths import StatePaths

POLL_SECONDS = 0.3


@click.command()
@box_option
@click.option("-f", "--follow", is_flag=True, help="Go on as it prints, to its end.")
@click.option("--attempt", type=int, help="Of this attempt. Default: the newest.")
@click.argument("job")
def logs(
    *, state_dir: Path | None, follow: bool, attempt: int | None, job: str
) -> None:
    """Print what JOB printed: the end of its log, or with -f all that comes.

    Example: trainwarden logs -f digits
    """
    client = answering(state_dir)
    if client is None:
        _from_files(state_dir or default_state_directory(), job, attempt)
    else:
        _from_daemon(client, job, attempt, follow=follow)


def _from_daemon(
    client: Client, job: str, attempt: int | None, *, follow: bool
) -> None:
    """Attempt after attempt, if it follows."""
    base, offset = f"/v1/jobs/{quote(job)}/logs", None
    with asking():
        while True:
            number = "" if attempt is None else f"attempt={attempt}&"
            part = "" if offset is None else f"offset={offset}"
            content, headers = client.read(f"{base}?{number}{part}")
            _put(content)
            attempt = int(headers["Trainwarden-Attempt"])
            offset = int(headers["Trainwarden-Offset"])
            ended = headers["Trainwarden-Ended"] == "true"
            if content and (follow or len(content) == PART_BYTES):
                continue
            if not follow:
                return
            if ended and _next(client, base, attempt):
                attempt, offset = attempt + 1, 0
            elif ended and _is_over(client, job):
                return
            time.sleep(POLL_SECONDS)


def _next(client: Client, base: str, attempt: int) -> bool:
    """Whether another attempt has begun."""
    try:
        client.read(f"{base}?attempt={attempt + 1}&offset=0")
    except RefusedError:
        return False
    return True


def _is_over(client: Client, job: str) -> bool:
    state = client.get(f"/v1/jobs/{quote(job)}")["state"]
    return state in {"finished", "drained", "gave_up"}


def _put(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _from_files(state_dir: Path, job: str, attempt: int | None) -> None:
    paths = StatePaths(state_dir.absolute())
    with reading(paths) as ledger:
        run = None if ledger is None else ledger.latest_run(job)
        if ledger is None or run is None:
            fail(f"there is no job {job!r} in {state_dir}; see `trainwarden status`")
        attempts = ledger.attempts(run.id)
    newest = attempts[-1].number if attempts else 0
    number = newest if attempt is None else attempt
    if not 1 <= number <= newest:
        fail(f"{job} has had {newest} attempts, not {number}")
    _, content = read_part(paths_of(run, paths).attempt(number).output, None)
    _put(content)
