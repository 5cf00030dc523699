"""The sender of one notification: a process beside the run.

``python -I -m supervisor.host.notifications.notification_sender``, with the request as JSON
on its standard input. A process of its own: a service that hangs, a command that never ends,
a resolver that waits hold up nobody. What came of each address is a line on its standard
error as soon as it is known, without secrets; it ends with the number of those that were not
reached.
"""

import contextlib
import importlib.util
import json
import logging
import os
import queue
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_exponential

from supervisor.core.jobs.notification import Notification, NotificationKind
from supervisor.core.text.visible import visible
from supervisor.host.notifications.addresses import (
    AddressFileError,
    NotificationAddress,
    read_addresses,
)
from supervisor.host.process.child_process import TimeUpError, run_in_session

LAST_TRY_SECONDS = 60.0
"""What a try may take that begins just before its time is up."""
MOST_NAMED = 100
"""More failures than that are no exit codes."""
MISSING = (
    "notify.addresses needs the package apprise, which is not installed: "
    "pip install 'trainwarden[notify]'"
)
URGENCY = {
    NotificationKind.FINISHED: "success",
    NotificationKind.GAVE_UP: "failure",
    NotificationKind.FIRST_OOM: "warning",
    NotificationKind.FORECAST: "warning",
    NotificationKind.DISK: "warning",
}
"""By Apprise's names; a test is ``info``."""
_ANSWER = re.compile(r"error=(\d{3})\b")
"""What Apprise logs of an HTTP service that refused."""


def problem_of(addresses: str | None, command: Sequence[str]) -> str | None:
    """Why nobody can be told by these, as a sentence; None: they can be tried."""
    if command and not os.access(command[0], os.X_OK):
        return f"the command of notify {visible(command[0])} is no program to be run"
    if addresses is None:
        return None
    try:
        read_addresses(Path(addresses))
    except AddressFileError as error:
        return str(error)
    return None if importlib.util.find_spec("apprise") is not None else MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """What is sent, and to whom."""

    notification: Notification
    addresses: str | None
    """The file of addresses."""
    command: tuple[str, ...]
    seconds: float
    """For how long each is tried again."""

    def to_json(self) -> str:
        """As it is read from standard input."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "SendRequest":
        """Raises ValueError, TypeError, KeyError where it is none."""
        value = json.loads(text)
        value["notification"] = Notification(**value["notification"])
        value["command"] = tuple(value["command"])
        return cls(**value)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What came of one address."""

    address: str
    """Without secrets."""
    problem: str | None


Try = Callable[[], str | None]
"""To one address, until it took it or time is up: the problem."""


def deliver(request: SendRequest) -> Iterator[Delivery]:
    """Send it to every address and to the command, all at once; each is told as soon as
    it is known, no failure is raised."""
    tries: dict[str, Try] = {}
    if request.command:
        tries[request.command[0]] = partial(_by_command, request)
    if request.addresses is not None:
        try:
            tries |= _by_apprise(request, Path(request.addresses))
        except AddressFileError as error:
            yield Delivery("addresses", str(error))
    done: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
    for name, one in tries.items():
        # Threads that nobody waits for at the end: one may hang for ever.
        threading.Thread(target=_told, args=(name, one, done), daemon=True).start()
    time_up = time.monotonic() + request.seconds + LAST_TRY_SECONDS
    while tries:
        left = max(time_up - time.monotonic(), 0.0)
        try:
            known = done.get(timeout=left)
        except queue.Empty:
            break
        del tries[known.address]
        yield known
    for name in tries:
        yield Delivery(name, f"did not take it in {request.seconds:.0f} s")


def _told(name: str, one: Try, done: "queue.SimpleQueue[Delivery]") -> None:
    try:
        problem = one()
    except Exception as error:  # of a plugin, as there are a hundred  # noqa: BLE001
        problem = f"failed: {type(error).__name__}"
    done.put(Delivery(name, problem))


def _again(send: Callable[[], str | None], seconds: float) -> str | None:
    """The problem of the last try; None: one had none."""
    return Retrying(
        retry=retry_if_result(lambda problem: problem is not None),
        wait=wait_exponential(multiplier=1, max=30),
        stop=stop_after_delay(seconds),
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )(send)


def _by_apprise(request: SendRequest, file: Path) -> dict[str, Try]:
    addresses = read_addresses(file)
    if importlib.util.find_spec("apprise") is None:
        raise AddressFileError(MISSING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of modules that it imports
        apprise: Any = importlib.import_module("apprise")
        # What it logs may hold secrets.
        logging.getLogger("apprise").propagate = False
        return {one.name: _of_address(apprise, one, request) for one in addresses}


def _of_address(
    apprise: Any, address: NotificationAddress, request: SendRequest
) -> Try:
    service = apprise.Apprise(asset=apprise.AppriseAsset(async_mode=False))
    if not service.add(address.url):
        return lambda: "is no address of Apprise"
    return partial(_by_service, service, request)


def _by_service(service: Any, request: SendRequest) -> str | None:
    told = request.notification

    def send() -> str | None:
        taken = service.notify(
            title=told.title,
            body=told.text,
            body_format="text",
            notify_type=URGENCY.get(told.kind, "info"),  # type: ignore[call-overload]  # a StrEnum's value is one
        )
        if taken:
            return None
        said = "\n".join(str(one.message) for one in taken.logs())
        answers = _ANSWER.findall(said)
        return f"answered {answers[-1]}" if answers else "did not take it"

    return _again(send, request.seconds)


def _by_command(request: SendRequest) -> str | None:
    text = json.dumps(asdict(request.notification))

    def send() -> str | None:
        try:
            code = run_in_session(
                request.command, seconds=LAST_TRY_SECONDS - 5, text=text
            )
        except TimeUpError:
            return "did not end in time, and was killed"
        except OSError as error:
            return f"cannot be run: {error.strerror}"
        return f"ended with {code}" if code else None

    return _again(send, request.seconds)


def main() -> int:
    """Send what standard input says; the number of addresses that were not reached."""
    warnings.simplefilter("ignore")  # the log is for who reads what came of it
    request = SendRequest.from_json(sys.stdin.read())
    failed = 0
    told = request.notification
    for delivery in deliver(request):
        failed += delivery.problem is not None
        when = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        what = f"{told.job}: {told.kind} to {delivery.address}"
        with contextlib.suppress(OSError):  # on a full disk, which may be the news
            sys.stderr.write(f"{when} {what}: {delivery.problem or 'sent'}\n")
            sys.stderr.flush()
    return min(failed, MOST_NAMED)


if __name__ == "__main__":
    # Not by the interpreter's own end, which waits for threads that may hang for ever.
    os._exit(main())
