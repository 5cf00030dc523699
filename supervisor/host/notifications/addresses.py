"""The file of addresses that notifications go to: one a line, read by its owner alone."""

import os
import stat
from pathlib import Path

from supervisor.wire.files import open_regular

MAX_BYTES = 65536


class AddressFileError(Exception):
    """The file cannot be used; the message is one sentence, without what is in it."""


def read_addresses(path: Path) -> list[str]:
    """The addresses; empty lines and those that begin with ``#`` are none.

    Raises:
        AddressFileError: it cannot be read, holds none, is another user's, or may be
            read by others.
    """
    try:
        with open_regular(path, links=True) as file:
            found = os.fstat(file.fileno())
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        message = f"the file of addresses {path} cannot be read: {error.strerror}"
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
    lines = (line.strip() for line in content.decode(errors="replace").splitlines())
    addresses = [line for line in lines if line and not line.startswith("#")]
    if not addresses:
        message = (
            f"the file of addresses {path} names none: one a line, e.g. ntfy://topic"
        )
        raise AddressFileError(message)
    return addresses
