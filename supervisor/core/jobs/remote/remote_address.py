"""The address of a remote tier, as a spec has it: ``s3://bucket/prefix``.

It is written into the ledger, logs and records, so there is never a secret in it: what
looks like one is refused, and not repeated in the refusal.
"""

import re
from urllib.parse import urlsplit

ADDRESS_EXPECTED = (
    "the address of a bucket or directory such as s3://bucket/prefix, gs://bucket/prefix, "
    "az://container/prefix or file:///mnt/prefix, or off"
)
NO_SECRETS = (
    "holds a user name, a password or a key; credentials come from the platform "
    "(environment, role of the machine, its own files) and never stand in an address"
)
NO_OPTIONS = (
    "ends in options ('?' or '#'), which may hold a secret; they come from the platform's "
    "environment variables and never stand in an address"
)
OBJECT_STORES = frozenset({"s3", "gs", "az", "abfs", "abfss", "file"})
"""Schemes that are served without fsspec."""
_CONTAINER_FIRST = frozenset({"abfs", "abfss"})
"""Here the container stands before the ``@``: ``abfss://container@account...``."""
_NOT_WRITABLE = frozenset({"http", "https", "data", "memory"})
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
ADDRESS = r"^[a-z][a-z0-9+.-]*://[^?#\u0000-\u0020]+$"
"""For JSON Schema: what an address looks like from afar."""


def checked_address(value: str) -> str:
    """``value`` without slashes at its end. Raises ValueError, without repeating it:
    it is none, or holds a secret."""
    scheme, found, rest = value.partition("://")
    plain = all(letter > " " for letter in value)
    if not found or not plain or not _SCHEME.fullmatch(scheme):
        message = f"expected {ADDRESS_EXPECTED}"
        raise ValueError(message)
    if scheme in _NOT_WRITABLE:
        message = f"{scheme}:// cannot be written to, or is gone with the process; expected {ADDRESS_EXPECTED}"
        raise ValueError(message)
    if "?" in rest or "#" in rest:
        raise ValueError(NO_OPTIONS)
    place, _, path = rest.partition("/")
    user, at, _ = place.rpartition("@")
    if at and (scheme not in _CONTAINER_FIRST or ":" in user):
        raise ValueError(NO_SECRETS)
    if not rest.strip("/") or ".." in path.split("/") or not _splits(value):
        message = f"expected {ADDRESS_EXPECTED}"
        raise ValueError(message)
    return value.rstrip("/")


def _splits(value: str) -> bool:
    try:
        return bool(urlsplit(value))
    except ValueError:  # such as s3://[bucket
        return False


def scheme_of(address: str) -> str:
    """``s3`` of ``s3://bucket``."""
    return address.partition("://")[0]
