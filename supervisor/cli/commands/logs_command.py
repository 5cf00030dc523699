"""``trainwarden logs``: what a job printed, from the daemon or from the files."""

import codecs
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import click
from typing_extensions import override

from supervisor.cli.command_hint import command_hint
from supervisor.cli.completion import job_argument
from supervisor.cli.options import fail, json_option
from supervisor.cli.sources.daemon_client import (
    answering,
    asking,
    box_option,
    directory_of,
    tell_gone,
)
from supervisor.cli.sources.ledger_reader import reading
from supervisor.core.text.terminal_filter import without_begun, without_colours
from supervisor.core.text.units import counted
from supervisor.core.text.visible import visible
from supervisor.host.control.control_client import Client, RefusedError
from supervisor.host.service.lock import is_locked
from supervisor.host.telemetry.log_parts import PART_BYTES, read_part
from supervisor.runtime.status_builder import paths_of
from supervisor.wire.paths import RunPaths, StatePaths

POLL_SECONDS = 0.3
BETWEEN = "\n--- attempt {} ---"
"""On a terminal, between what two attempts printed: the one before may have ended within a
line."""
MOST_OF_A_LINE = 64 * 1024
"""What is longer is told in pieces: some scripts never end a line."""


class Out(Protocol):
    """Where what was printed goes."""

    def put(self, attempt: int, content: bytes) -> None:
        """Some of it, as it came."""

    def close(self) -> None:
        """There is no more."""


class Raw(Out):
    """Byte for byte."""

    @override
    def put(self, attempt: int, content: bytes) -> None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()

    @override
    def close(self) -> None:
        return None


class Visible(Raw):
    """For a terminal: what it would obey is shown, not done, and colours are left out:
    those of Keras' own lines are in every log of a terminal."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self._shown: int | None = None
        """The attempt whose output was shown last."""

    @override
    def put(self, attempt: int, content: bytes) -> None:
        if content and self._shown not in {None, attempt}:
            self.close()
            super().put(attempt, f"{BETWEEN.format(attempt)}\n".encode())
        if content:
            self._shown = attempt
        text = self._rest + self._decoder.decode(content)
        whole, self._rest = without_begun(text)
        self._show(attempt, whole)

    @override
    def close(self) -> None:
        rest, self._rest = self._rest, ""
        self._show(0, rest)

    def _show(self, attempt: int, text: str) -> None:
        super().put(attempt, visible(without_colours(text), log=True).encode())


class Lines(Out):
    """A JSON object for each line that an attempt printed."""

    def __init__(self) -> None:
        self._attempt = 0
        self._rest = b""

    @override
    def put(self, attempt: int, content: bytes) -> None:
        if attempt != self._attempt:
            self.close()
            self._attempt = attempt
        *whole, self._rest = (self._rest + content).split(b"\n")
        for line in whole:
            self._tell(line)
        if len(self._rest) > MOST_OF_A_LINE:
            self.close()

    @override
    def close(self) -> None:
        rest, self._rest = self._rest, b""
        if rest:
            self._tell(rest)

    def _tell(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        click.echo(json.dumps({"attempt": self._attempt, "text": text}))


@click.command()
@box_option
@json_option
@click.option(
    "--raw", is_flag=True, help="On a terminal, too, byte for byte: it obeys the job."
)
@click.option("-f", "--follow", is_flag=True, help="Go on as it prints, to its end.")
@click.option("--attempt", type=int, help="Of this attempt. Default: the newest.")
@job_argument
def logs(
    *,
    state_dir: Path | None,
    as_json: bool,
    raw: bool,
    follow: bool,
    attempt: int | None,
    job: str,
) -> None:
    """Print what JOB printed: the end of its log, or with -f all that comes.

    On a terminal control characters of its output are shown as text, and colours left out.

    Example: trainwarden logs -f digits
    """
    client = answering(state_dir)
    out = _out(as_json=as_json, raw=raw or not sys.stdout.isatty())
    with closing(out):
        if client is None:
            tell_gone(state_dir)
            _from_files(directory_of(state_dir), job, attempt, out, follow=follow)
        else:
            _from_daemon(client, job, attempt, out, follow=follow)


def _out(*, as_json: bool, raw: bool) -> Out:
    if as_json:
        return Lines()
    return Raw() if raw else Visible()


def _from_daemon(
    client: Client, job: str, attempt: int | None, out: Out, *, follow: bool
) -> None:
    """Attempt after attempt, if it follows."""
    base, offset = f"/v1/jobs/{quote(job)}/logs", None
    with asking():
        while True:
            number = "" if attempt is None else f"attempt={attempt}&"
            part = "" if offset is None else f"offset={offset}"
            content, headers = client.read(f"{base}?{number}{part}")
            attempt = int(headers["Trainwarden-Attempt"])
            out.put(attempt, content)
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


def _from_files(
    state_dir: Path, job: str, attempt: int | None, out: Out, *, follow: bool
) -> None:
    """Attempt after attempt, if it follows, until nobody looks after the job any more."""
    paths = StatePaths(state_dir.absolute())
    with reading(paths) as ledger:
        run = None if ledger is None else ledger.latest_run(job)
        if ledger is None or run is None:
            fail(
                f"there is no job {job!r} in {state_dir}; see `{command_hint('status')}`"
            )
        attempts = ledger.attempts(run.id)
    newest = attempts[-1].number if attempts else 0
    number = newest if attempt is None else attempt
    begins = follow and number == 0 and is_locked(paths.lock(job))
    if number == newest == 0 and not begins:
        fail(f"{job} has printed nothing: no attempt of it has begun")
    if not 1 <= number <= newest and not begins:
        fail(f"{job} has had {counted(newest, 'attempt')}, not {number}")
    files = paths_of(run, paths)
    offset: int | None = None
    while True:
        # Before a last look at what it printed: that is all of it then.
        runs, next_one = is_locked(paths.lock(job)), _next_file(files, number)
        start, content = read_part(files.attempt(number).output, offset)
        out.put(number, content)
        offset = start + len(content)
        if not follow:
            return
        if content:
            continue
        if next_one is not None:
            number, offset = next_one, 0
        elif runs:
            time.sleep(POLL_SECONDS)
        else:
            return


def _next_file(files: RunPaths, number: int) -> int | None:
    """The next attempt after ``number`` that has printed; one that could not be started
    has not."""
    names = (
        path.parent.name for path in files.attempt(0).root.parent.glob("*/output.log")
    )
    later = (int(name) for name in names if name.isdecimal() and int(name) > number)
    return min(later, default=None)
