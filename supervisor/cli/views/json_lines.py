"""``run --json``: a JSON object a line, in the shapes that docs/json.md documents."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override

from supervisor.cli.views.console import PLAIN_SECONDS, LastingConsole, PlainView
from supervisor.core.jobs.job_status import JobState, JobStatus, status_json
from supervisor.core.text.log_level import LogLevel
from supervisor.host.ledger.ledger import IncidentRow
from supervisor.host.service.nonblocking_writer import GAP


class JsonView(PlainView):
    """For programs: each line says when, and which of three events it is."""

    def __init__(self, console: LastingConsole) -> None:
        super().__init__(console)
        self._stage: tuple[JobState, int] | None = None
        self._told_at = datetime.min.replace(tzinfo=UTC)

    @override
    def say(self, text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:
        """``said``: what a person would read."""
        self.put("said", priority=int(level), text=text)

    @override
    def show(self, status: JobStatus) -> None:
        """``status``: whenever the state or the attempt is another, and now and then."""
        stage, now = (status.state, status.attempt), datetime.now(UTC)
        due = (now - self._told_at).total_seconds() >= PLAIN_SECONDS
        if due or stage != self._stage:
            self._stage, self._told_at = stage, now
            self.put("status", job=status_json(status))

    def finish(
        self, status: JobStatus, incidents: Sequence[IncidentRow], *, code: int
    ) -> None:
        """``ended``: the last line. ``code``: what the command ends with."""
        listed = [asdict(incident) for incident in incidents]
        self.put("ended", code=code, job=status_json(status), incidents=listed)

    def put(self, event: str, **more: Any) -> None:
        """A line."""
        self._console.put(_line(event, **more))


def left_out() -> str:
    """Said where nobody read for so long that lines are missing."""
    return _line("said", priority=int(LogLevel.WARNING), text=GAP)


def _line(event: str, **more: Any) -> str:
    return json.dumps({"at": datetime.now(UTC).isoformat(), "event": event, **more})
