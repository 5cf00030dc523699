"""The sentence for an error of an object store: what is wrong, and what to do.

The library behind ``remote_store`` tells most errors by its text alone (Rust's object_store:
``Generic S3 error: …``). What no row knows is passed on as it is.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vendor:
    """Whose store it is, and how it is told who asks."""

    name: str
    credentials: str
    endpoint: str


_AZURE = Vendor(
    "Azure",
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ENDPOINT",
)
VENDORS = {
    "s3": Vendor(
        "S3",
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        "AWS_ENDPOINT_URL and AWS_REGION",
    ),
    "gs": Vendor(
        "Google Cloud Storage",
        "GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account",
        "GOOGLE_BASE_URL",
    ),
    "az": _AZURE,
    "abfs": _AZURE,
    "abfss": _AZURE,
}
"""By the scheme of an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ErrorKind:
    """One kind of error."""

    rx: str
    """What the library says, any case."""
    sentence: str


_ROWS = (
    # object_store: aws/credential.rs, gcp/credential.rs, azure/credential.rs: the last of
    # each chain is to ask the machine, which is no cloud's.
    _ErrorKind(
        rx=r"169\.254\.169\.254|/latest/(?:api/token|meta-data)|metadata\.google\.internal|performing token request"
        r"|must be specified|(?:missing|no) credentials?|CredentialsError",
        sentence="no credentials for {name} are known here: set {credentials} (and export"
        " them), or run where a role of the machine gives them",
    ),
    # object_store: lib.rs (Unauthenticated, PermissionDenied); S3: error codes
    _ErrorKind(
        rx=r"\b40[13]\b|Unauthorized|Forbidden|AccessDenied|InvalidAccessKeyId"
        r"|SignatureDoesNotMatch|ExpiredToken|lacked valid authentication"
        r"|lacked the necessary privileges",
        sentence="{name} refuses the credentials that it was given: look whether"
        " {credentials} are right and not expired, and may list, read, write and delete"
        " there",
    ),
    _ErrorKind(
        rx=r"NoSuchBucket|\b404 Not Found",
        sentence="{name} has no such bucket: look for a slip in the address, or make the"
        " bucket",
    ),
    # reqwest
    _ErrorKind(
        rx=r"error sending request|Connection refused|dns error|operation timed out",
        sentence="{name} cannot be reached: look whether this machine has a network, and"
        " whether {endpoint}, where set, are right",
    ),
)
"""The first that fits counts."""
_MORE = 160


def store_sentence(said: str, *, scheme: str) -> str:
    """``said`` as one sentence that tells what to do; the library's own words follow."""
    vendor = VENDORS.get(scheme)
    if vendor is None:
        return said
    for row in _ROWS:
        if re.search(row.rx, said, re.IGNORECASE):
            filled = row.sentence.format(
                name=vendor.name,
                credentials=vendor.credentials,
                endpoint=vendor.endpoint,
            )
            return f"{filled} (it says: {said[:_MORE]})"
    return said
