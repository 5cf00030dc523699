"""The file of addresses that notifications go to: one a line, read by its owner alone."""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.wire.files import open_regular

MAX_BYTES = 65536
MAX_ADDRESSES = 32


class AddressFileError(Exception):
    """The file cannot be used; the message is one sentence, without what is in it."""


@dataclass(frozen=True, slots=True)
class NotificationAddress:
    """One of them."""

    line: int
    """Of the file, from 1."""
    url: str = field(repr=False)

    @property
    def name(self) -> str:
        """What may be said of it: any other part may be a secret, as ntfy's topic and
        the path of a webhook are."""
        return f"line {self.line} ({self.url.partition(':')[0][:20]})"


def read_addresses(path: Path) -> list[NotificationAddress]:
    """The addresses; empty lines and those that begin with ``#`` are none.

    Raises:
        AddressFileError: it cannot be read, holds none or too many, is another user's,
            may be read by others, or a line is no single address.
    """
    addresses = [
        NotificationAddress(number, line.strip())
        for number, line in enumerate(_text(path).splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not addresses:
        message = (
            f"the file of addresses {path} names none: one a line, e.g. ntfy://topic"
        )
        raise AddressFileError(message)
    if len(addresses) > MAX_ADDRESSES:
        message = f"the file of addresses {path} names more than {MAX_ADDRESSES}"
        raise AddressFileError(message)
    for one in addresses:
        if len(one.url.split()) > 1 or "://" not in one.url:
            message = (
                f"line {one.line} of the file of addresses {path} is not one address, "
                "such as ntfy://topic"
            )
            raise AddressFileError(message)
    return addresses


def _text(path: Path) -> str:
    """What stands in the file. Raises AddressFileError."""
    try:
        # By its real path: secrets are often mounted as links (Kubernetes).
        with open_regular(path.resolve(), links=True) as file:
            found = os.fstat(file.fileno())
            content = file.read(MAX_BYTES + 1)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "its links lead nowhere"
        message = f"the file of addresses {path} cannot be read: {why}"
        raise AddressFileError(message) from error
    if found.st_uid not in {os.geteuid(), 0}:
        message = f"the file of addresses {path} is another user's"
        raise AddressFileError(message)
    if stat.S_IMODE(found.st_mode) & 0o077:
        message = (
            f"others may read the file of addresses {path}, which holds secrets: "
            f"chmod 600 {path}"
        )
        raise AddressFileError(message)
    if len(content) > MAX_BYTES:
        message = f"the file of addresses {path} is larger than {MAX_BYTES} bytes"
        raise AddressFileError(message)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        message = f"the file of addresses {path} is not UTF-8 text"
        raise AddressFileError(message) from None
