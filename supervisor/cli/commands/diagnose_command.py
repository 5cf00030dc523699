"""``trainwarden diagnose``: what a log says about why a run ended."""

import json
import sys
from pathlib import Path
from typing import Any, BinaryIO

import click

from supervisor.cli.options import fail, json_option
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose_log
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import parse_status, record_of
from supervisor.core.diagnosis.explain import diagnosis_headline
from supervisor.core.diagnosis.log_scanner import LogFindings
from supervisor.core.diagnosis.result import Diagnosis
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.text.visible import visible
from supervisor.host.telemetry.log_follower import scan_stream
from supervisor.wire.records.end_records import ExitRecord

_MEMORY = (
    "limit_bytes",
    "in_use_bytes",
    "requested_bytes",
    "largest_free_bytes",
    "fragmentation",
)


def exit_record(text: str) -> ExitRecord:
    """The exit status in ``text`` as a record. Raises click.BadParameter."""
    status = parse_status(text)
    if status is None:
        message = f"expected an exit code or a signal (1, 137, SIGSEGV), got {text!r}"
        raise click.BadParameter(message, param_hint="--exit")
    return record_of(*status)


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The documented shape of ``diagnose --json``."""
    reasons = [
        {"line": each.line, "text": each.text, "signature": each.signature}
        for each in diagnosis.because
    ]
    return {
        "cause": diagnosis.cause.value,
        "because": reasons,
        "memory": _memory(diagnosis.memory),
        "advice": diagnosis.advice,
    }


def _memory(figures: MemoryFigures | None) -> dict[str, Any] | None:
    if figures is None:
        return None
    return {name: getattr(figures, name) for name in _MEMORY}


def to_text(diagnosis: Diagnosis) -> str:
    """The same for a person."""
    if diagnosis.cause is Cause.NONE:
        return "none: this log shows no failure."
    lines = [f"{diagnosis.cause}: {diagnosis_headline(diagnosis)}", ""]
    for reason in diagnosis.because:
        place = "" if reason.line is None else f"line {reason.line}: "
        lines.append(f"  {place}{reason.text}  [{reason.signature}]")
    return "\n".join([*lines, "", diagnosis.advice])


@click.command()
@click.argument("file", metavar="FILE|-")
@json_option
@click.option(
    "--exit",
    "status",
    metavar="STATUS",
    help="How the program ended, if you know: 1, 137, SIGSEGV.",
)
def diagnose(file: str, *, as_json: bool, status: str | None) -> None:
    """Name the cause of the failure that a log shows, and quote the lines that say so.

    FILE may be of any size; - reads standard input. Says none for a log without a
    failure.

    Example: trainwarden diagnose --exit 137 train.log
    """
    record = None if status is None else exit_record(status)
    ended_well = record is not None and record.exit_code == 0
    evidence = Evidence(exit=record, finished=ended_well)
    diagnosis = diagnose_log(_findings(file), evidence=evidence)
    text = visible(to_text(diagnosis))
    click.echo(json.dumps(to_json(diagnosis)) if as_json else text)


def _findings(file: str) -> LogFindings:
    try:
        if file == "-":
            return scan_stream(sys.stdin.buffer)
        with _opened(file) as stream:
            return scan_stream(stream)
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror or error}.")


def _opened(file: str) -> BinaryIO:
    return Path(file).open("rb", buffering=0)
