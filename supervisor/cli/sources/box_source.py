"""What can be seen of a box: by its daemon, or by the files of a state directory, with the
rights of who asks either way. Unlike ``job_lookup`` it ends no command: a page goes on."""

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from supervisor import __version__
from supervisor.cli.command_hint import command_hint
from supervisor.cli.options import default_state_directory
from supervisor.cli.sources.daemon_client import answering, directory_of
from supervisor.cli.sources.ledger_reader import nothing_ran
from supervisor.cli.views.top.log_lines import LogTail, decoded_tail
from supervisor.core.jobs.job_status import status_json
from supervisor.host.control.control_client import Client, NoDaemonError, RefusedError
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.ledger_file import LedgerError
from supervisor.host.service.clock import Clock
from supervisor.host.telemetry.log_parts import read_part
from supervisor.runtime.recording.job_locator import JobFiles, job_files
from supervisor.runtime.recording.run_history import by_lock, record_of, summaries
from supervisor.runtime.stored_status import stored_owners, stored_statuses
from supervisor.web.attempt_evidence import AttemptEvidence, read_epochs, read_evidence
from supervisor.web.incident_view import IncidentDossier
from supervisor.web.run_view import RunDossier
from supervisor.wire.paths import RunPaths, StatePaths


class UnseenError(Exception):
    """There is no such thing, or it is not theirs to see; the message is a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSource:
    """Every method raises UnseenError."""

    client: Client | None
    """None: the files tell."""
    where: Path
    """The state directory that tells where no daemon does."""

    def box(self) -> dict[str, Any]:
        """The shape of ``top --json``."""
        if self.client is None:
            with self._ledger() as ledger:
                owners = stored_owners(ledger)
            return stored_box(self.jobs(), owners)
        found: dict[str, Any] = self._ask("/v1/status")
        return found

    def jobs(self) -> list[dict[str, Any]]:
        """The shape of ``status --json``."""
        if self.client is not None:
            return cast("list[dict[str, Any]]", self._ask("/v1/status")["jobs"])
        with self._ledger() as ledger:
            now = Clock().now()
            found = stored_statuses(ledger, self._paths, now=now)
        return [status_json(one) for one in found]

    def job(self, name: str) -> dict[str, Any]:
        """One of them."""
        found = next((one for one in self.jobs() if one["job"] == name), None)
        if found is None:
            raise UnseenError(self._unknown(name))
        return found

    def incidents(self, job: str | None = None) -> list[dict[str, Any]]:
        """The shape of ``incidents --json``; ``job``: only those of it."""
        if self.client is not None:
            of = "" if job is None else f"?job={quote(job)}"
            return cast("list[dict[str, Any]]", self._ask(f"/v1/incidents{of}"))
        with self._ledger() as ledger:
            return [asdict(row) for row in ledger.incidents(job=job)]

    def log_tail(self, name: str) -> LogTail:
        """The end of what the newest attempt of a job printed."""
        if self.client is not None:
            return _told_tail(self.client, name)
        files = self._files(name)
        if files is None or not files.attempt:
            return LogTail(job=name, problem="it has printed nothing yet")
        begin, content = read_part(files.paths.attempt(files.attempt).output, None)
        text = decoded_tail(content, begins_log=begin == 0)
        return LogTail(job=name, attempt=files.attempt, text=text)

    def history(self) -> list[dict[str, Any]]:
        """The shape of ``history --json``."""
        if self.client is not None:
            return cast("list[dict[str, Any]]", self._ask("/v1/history"))
        with self._ledger() as ledger:
            now = Clock().wall()
            found = summaries(ledger, by_lock(self._paths), now=now)
        return [asdict(one) for one in found]

    def gpus(self) -> dict[str, Any] | None:
        """The shape of ``gpu --json``; None: no daemon asks a driver."""
        if self.client is None:
            return None
        found: dict[str, Any] = self._ask("/v1/gpus")
        return found

    def run(self, name: str, *, epochs: bool = True) -> RunDossier:
        """How the newest run of a job went."""
        record, status = self._record(name), self.job(name)
        began = record["run"]["began_at"]
        incidents = [
            i for i in self.incidents() if i["job"] == name and i["at"] >= began
        ]
        files = self._files(name) if epochs else None
        numbers = [one["attempt"] for one in record["attempts"]]
        return RunDossier(
            run=record["run"],
            attempts=record["attempts"],
            status=status,
            incidents=incidents,
            epochs={} if files is None else _epochs(files.paths, numbers),
            versions={} if files is None else _versions(files),
            spec={} if files is None else files.spec,
        )

    def log(self, name: str) -> Path | None:
        """Where the newest attempt of a job printed; None: it may not be read."""
        files = self._files(name)
        if files is None or not files.attempt:
            return None
        return files.paths.attempt(files.attempt).output

    def log_of(self, incident: dict[str, Any]) -> Path | None:
        """Where its attempt printed; None: it may not be read, or is not there any more."""
        if self._run_of(incident) is None:
            return None
        files = self._files(incident["job"])
        return (
            None if files is None else files.paths.attempt(incident["attempt"]).output
        )

    def incident(self, number: int) -> IncidentDossier:
        """One incident, with its run where that is the newest of its job."""
        found = next((i for i in self.incidents() if i["id"] == number), None)
        if found is None:
            message = (
                f"there is no incident {number}; see `{command_hint('incidents')}`"
            )
            raise UnseenError(message)
        run = self._run_of(found)
        if run is None:
            return IncidentDossier(incident=found)
        files = self._files(found["job"])
        evidence = AttemptEvidence()
        if files is not None:
            evidence = read_evidence(files.paths.attempt(found["attempt"]))
        return IncidentDossier(incident=found, run=run, evidence=evidence)

    def _run_of(self, incident: dict[str, Any]) -> RunDossier | None:
        try:
            run = self.run(incident["job"])
        except UnseenError:
            return None
        return run if incident in run.incidents else None

    def _record(self, name: str) -> dict[str, Any]:
        if self.client is not None:
            found: dict[str, Any] = self._ask(f"/v1/jobs/{quote(name)}/record")
            return found
        with self._ledger() as ledger:
            now = Clock().wall()
            record = record_of(ledger, name, by_lock(self._paths), now=now)
        if record is None:
            raise UnseenError(self._unknown(name))
        return asdict(record)

    def _files(self, name: str) -> JobFiles | None:
        """None: there are none that may be read."""
        try:
            if self.client is not None:
                told = self._ask(f"/v1/jobs/{quote(name)}/files")
                names = JobFiles.__slots__
                return JobFiles(**{n: told[n] for n in names if n in told})
            with self._ledger() as ledger:
                return job_files(ledger, name, self._paths)
        except (UnseenError, TypeError):  # a daemon that tells other things
            return None

    def _ask(self, place: str) -> Any:
        assert self.client is not None  # noqa: S101  # who asks has looked
        try:
            return self.client.get(place)
        except (NoDaemonError, RefusedError) as error:
            raise UnseenError(str(error)) from error

    @property
    def _paths(self) -> StatePaths:
        return StatePaths(self.where.absolute())

    @contextmanager
    def _ledger(self) -> Generator[Ledger]:
        if not self._paths.ledger.exists():
            raise UnseenError(nothing_ran(self.where))
        try:
            with closing(Ledger(self._paths.ledger, read_only=True)) as ledger:
                yield ledger
        except LedgerError as error:
            raise UnseenError(str(error)) from error

    def _unknown(self, name: str) -> str:
        return (
            f"there is no job {name!r} in {self.where}; see `{command_hint('status')}`"
        )


def stored_box(jobs: list[dict[str, Any]], owners: Mapping[str, str]) -> dict[str, Any]:
    """``jobs`` as the box that their files tell of: without a ``launcher``, as nothing is
    started. ``owners``: of those of which it is known whose they are."""
    return {
        "version": __version__,
        "launcher": None,
        "paused_by": None,
        "gpus": [],
        "problems": [],
        "jobs": [
            {**one, "owner": owners[one["job"]]} if one["job"] in owners else one
            for one in jobs
        ],
    }


def _told_tail(client: Client, name: str) -> LogTail:
    """As the daemon tells it."""
    try:
        content, headers = client.read(f"/v1/jobs/{quote(name)}/logs")
    except (NoDaemonError, RefusedError) as error:
        return LogTail(job=name, problem=str(error))
    attempt, end = (int(headers[f"Trainwarden-{n}"]) for n in ("Attempt", "Offset"))
    text = decoded_tail(content, begins_log=end == len(content))
    return LogTail(job=name, attempt=attempt, text=text)


def _epochs(paths: RunPaths, numbers: list[int]) -> dict[int, Any]:
    return {number: read_epochs(paths.attempt(number)) for number in numbers[-64:]}


def _versions(files: JobFiles) -> dict[str, str]:
    return read_evidence(files.paths.attempt(files.attempt)).versions


def source_of(state_dir: Path | None) -> BoxSource:
    """The daemon, if one answers; else the files."""
    return BoxSource(client=answering(state_dir), where=directory_of(state_dir))


def sources_of(state_dir: Path | None) -> list[BoxSource]:
    """Where to look for a job, in turn: a run in the foreground is none of the daemon's,
    but of the state directory of who started it."""
    first, mine = source_of(state_dir), default_state_directory()
    beside = first.client is not None and state_dir is None
    if beside and StatePaths(mine).ledger.exists():
        return [first, BoxSource(client=None, where=mine)]
    return [first]
