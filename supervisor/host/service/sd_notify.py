"""Telling systemd how the service is: the protocol of sd_notify(3)."""

import socket
from collections.abc import MutableMapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SdNotifier:
    """Sends to ``address``; empty: nobody listens, and nothing is sent."""

    address: str = ""

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> "SdNotifier":
        """As systemd tells its services, if it started us. It is taken out of the
        environment: what we start must not speak in our name."""
        for name in ("WATCHDOG_PID", "WATCHDOG_USEC"):
            environment.pop(name, None)
        return cls(environment.pop("NOTIFY_SOCKET", ""))

    def send(self, **fields: str) -> None:
        """Such as ``READY="1", STATUS="4 jobs"``; a deaf systemd is no failure."""
        if not self.address:
            return
        text = "".join(
            f"{name}={value.replace(chr(10), ' ')}\n" for name, value in fields.items()
        )
        name = f"\0{self.address[1:]}" if self.address[0] == "@" else self.address
        flags = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        with socket.socket(socket.AF_UNIX, flags) as channel:
            try:
                channel.sendto(text.encode(errors="backslashreplace"), name)
            except OSError:
                return
