"""What is said where a store refuses: the cause, what to do, and the library's own words."""

from pathlib import Path

import pytest

from supervisor.host.remote.remote_store import RemoteStoreError, open_store
from supervisor.host.remote.store_errors import VENDORS, store_sentence
from tests.support.s3_server import BUCKET, S3Server

AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


NO_ROLE = (
    "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 5s"
    " - HTTP error: error sending request"
)
NO_ACCOUNT = (
    "Generic GCS error: Error performing token request: Error performing GET"
    " http://metadata.google.internal/x - 403"
)
DENIED = (
    "The operation lacked the necessary privileges to complete for path x: Server returned"
    " non-2xx status code: 403 Forbidden"
)
MISSING = "Server returned non-2xx status code: 404 Not Found: <Code>NoSuchBucket"
AWAY = (
    "Error performing GET http://127.0.0.1:9/b?... - HTTP error: error sending request"
)


@pytest.mark.parametrize(
    ("scheme", "said", "told"),
    [
        ("s3", NO_ROLE, "no credentials for S3 are known here: set AWS_ACCESS_KEY_ID"),
        ("gs", NO_ACCOUNT, "no credentials for Google Cloud Storage are known here"),
        ("az", "Generic MicrosoftAzure error: Account must be specified", "no cred"),
        (
            "s3",
            DENIED,
            "S3 refuses the credentials that it was given: look whether AWS_",
        ),
        ("s3", MISSING, "S3 has no such bucket: look for a slip"),
        ("s3", AWAY, "S3 cannot be reached: look whether"),
    ],
)
def test_what_is_wrong_and_what_to_do(scheme: str, said: str, told: str) -> None:
    """One sentence; what the library said stands behind it."""
    sentence = store_sentence(said, scheme=scheme)
    assert sentence.startswith(told)
    assert f"(it says: {said[:30]}" in sentence


def test_what_no_row_knows_is_passed_on() -> None:
    """And what comes from a store of nobody's, a directory say."""
    assert store_sentence("disk quota exceeded", scheme="s3") == "disk quota exceeded"
    assert store_sentence("403", scheme="file") == "403"
    assert set(VENDORS) == {"s3", "gs", "az", "abfs", "abfss"}


def test_a_real_store_that_has_no_such_bucket(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the server says it, and the library."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    open_store(f"s3://{BUCKET}/x").put("a", b"1")
    with pytest.raises(RemoteStoreError, match=r"^S3 has no such bucket"):
        open_store(f"s3://{BUCKET}-not/x").put("a", b"1")


def test_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real connection that is refused."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for name in AWS:
        monkeypatch.setenv(name, "x")
    with pytest.raises(RemoteStoreError, match=r"^S3 cannot be reached"):
        open_store(f"s3://{BUCKET}/x").get("a")


def test_nobody_says_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable, no file, no role: what to set is named."""
    for name in (*AWS, "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # boto3 asks nobody
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        RemoteStoreError, match=r"^no credentials for S3 are known here"
    ):
        open_store(f"s3://{BUCKET}/x").get("a")
