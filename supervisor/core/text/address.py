"""``HOST:PORT`` as people write it."""

import re
from dataclasses import dataclass

from typing_extensions import override

ADDRESS_EXPECTED = "HOST:PORT such as 127.0.0.1:9464 or [::1]:9464"
LOOPBACK = "127.0.0.1"

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]/]*)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens. Port 0: one that is free."""

    host: str
    port: int

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """``HOST:PORT``; ``:PORT`` is loopback. Raises ValueError, saying what to write."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match[3]) > 65535:
        message = f"expected {ADDRESS_EXPECTED}, got {text!r}"
        raise ValueError(message)
    return Address(match[1] or match[2] or LOOPBACK, int(match[3]))
