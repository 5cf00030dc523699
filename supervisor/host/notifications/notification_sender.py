"""The sender of one notification: a process beside the run.

``python -I -m supervisor.host.notifications.notification_sender``, with the request as JSON
on its standard input. A process of its own: a service that hangs, a command that never ends,
a resolver that waits hold up nobody. What came of each address is a line on its standard
error, without secrets; it ends with the number of those that were not reached.
"""

import contextlib
import importlib.util
import json
import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tenacity import (
    Retrying,
    retry_if_result,
    stop_after_delay,
    wait_exponential,
)

from supervisor.core.jobs.notification import Notification
from supervisor.host.notifications.addresses import AddressFileError, read_addresses
from supervisor.host.process.child_process import TimeUpError, run_to_end

AT_ONCE = 8
COMMAND_SECONDS = 60.0
PLUGIN_SECONDS = 60.0
"""A last try may take so long; after that the process ends (SIGALRM)."""
MOST_NAMED = 100
"""Failures beyond that are no exit codes."""
MISSING = (
    "notify.addresses needs the package apprise, which is not installed: "
    "pip install 'trainwarden[notify]'"
)


def problem_of(addresses: str | None) -> str | None:
    """Why nothing can be sent to the file of addresses, as a sentence; None: it can."""
    if addresses is None:
        return None
    try:
        read_addresses(Path(addresses))
    except AddressFileError as error:
        return str(error)
    return missing_apprise()


def missing_apprise() -> str | None:
    """The sentence about it; None: it is installed."""
    return None if importlib.util.find_spec("apprise") is not None else MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """What is sent, and to whom."""

    notification: Notification
    addresses: str | None
    """The file of addresses."""
    command: tuple[str, ...]
    seconds: float
    """For how long an address is tried again."""

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


Try = Callable[[], Delivery]
"""To one address, until it took it or time is up."""


def deliver(request: SendRequest) -> Iterator[Delivery]:
    """Send it to every address and to the command; each failure is told, none raised."""
    tries: list[Try] = []
    if request.addresses is not None:
        try:
            tries += list(_by_apprise(request, Path(request.addresses)))
        except AddressFileError as error:
            yield Delivery("addresses", str(error))
    if request.command:
        tries.append(partial(_by_command, request))
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        for sending in [pool.submit(one) for one in tries]:
            yield sending.result()


def _by_apprise(request: SendRequest, file: Path) -> Iterator[Try]:
    addresses = read_addresses(file)
    if (missing := missing_apprise()) is not None:
        raise AddressFileError(missing)
    apprise: Any = importlib.import_module("apprise")
    logging.getLogger("apprise").addHandler(logging.NullHandler())
    for number, address in enumerate(addresses, start=1):
        plugin = apprise.Apprise.instantiate(address)
        if plugin is None:
            yield partial(
                Delivery, f"line {number} of {file}", "is no address of Apprise"
            )
        else:
            yield partial(_by_plugin, plugin, request)


def _by_plugin(plugin: Any, request: SendRequest) -> Delivery:
    told = request.notification

    def send() -> bool:
        with contextlib.suppress(Exception):  # of a plugin, as there are a hundred
            return bool(plugin.notify(title=told.title, body=told.text))
        return False

    sent = Retrying(
        retry=retry_if_result(lambda done: not done),
        wait=wait_exponential(multiplier=1, max=30),
        stop=stop_after_delay(request.seconds),
        retry_error_callback=lambda _state: False,
    )(send)
    return Delivery(
        plugin.url(privacy=True).partition("?")[0],
        None if sent else "did not take it",
    )


def _by_command(request: SendRequest) -> Delivery:
    name = request.command[0]
    try:
        ended = run_to_end(
            request.command,
            seconds=COMMAND_SECONDS,
            text=json.dumps(asdict(request.notification)),
        )
    except TimeUpError:
        return Delivery(name, f"did not end within {COMMAND_SECONDS:.0f} s")
    except OSError as error:
        return Delivery(name, f"cannot be run: {error.strerror}")
    if ended.returncode:
        return Delivery(name, f"ended with {ended.returncode}")
    return Delivery(name, None)


def main() -> int:
    """Send what standard input says; the number of addresses that were not reached."""
    request = SendRequest.from_json(sys.stdin.read())
    signal.alarm(round(request.seconds + COMMAND_SECONDS + PLUGIN_SECONDS))
    failed = 0
    for delivery in deliver(request):
        failed += delivery.problem is not None
        when = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        what = f"{request.notification.kind} to {delivery.address}"
        sys.stderr.write(f"{when} {what}: {delivery.problem or 'sent'}\n")
    return min(failed, MOST_NAMED)


if __name__ == "__main__":
    raise SystemExit(main())
