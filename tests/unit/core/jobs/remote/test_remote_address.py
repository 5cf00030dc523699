"""What may stand in the address of a remote tier."""

import pytest

from supervisor.core.jobs.remote.remote_address import checked_address, scheme_of
from supervisor.core.jobs.spec import SpecError, build_spec, check_for_daemon


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/prefix/", "s3://bucket/prefix"),
        ("gs://bucket/a/b", "gs://bucket/a/b"),
        ("az://container/a", "az://container/a"),
        (
            "abfss://container@account.dfs.core.windows.net/a",
            "abfss://container@account.dfs.core.windows.net/a",
        ),
        ("file:///mnt/shared", "file:///mnt/shared"),
        ("sftp://host/path", "sftp://host/path"),
    ],
)
def test_addresses(given: str, kept: str) -> None:
    """Buckets and directories, of any file system; slashes at the end do not count."""
    assert checked_address(given) == kept


SECRET = "wJalrXUtnFEMI"  # noqa: S105  # of nobody


@pytest.mark.parametrize(
    "given",
    [
        f"s3://AKIA:{SECRET}@bucket/prefix",
        f"s3://{SECRET}@bucket",
        f"abfss://container:{SECRET}@account/a",
        f"https://account.blob.core.windows.net/a?sig={SECRET}",
        f"az://container/a?sig={SECRET}",
        f"az://container/a#{SECRET}",
        f"sftp://user:{SECRET}@host/path",
        f"{SECRET}",
        f"S3://{SECRET}",
        f"s3://bucket/{SECRET} x",
        f"s3://bucket/../{SECRET}",
        f"s3://[{SECRET}",
        "s3://",
        "file:///",
        "memory://x",
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(given: str) -> None:
    """It may hold a secret: the refusal ends in logs."""
    with pytest.raises(ValueError, match=r".") as refused:
        checked_address(given)
    assert SECRET not in str(refused.value)


def test_a_spec_with_a_secret_is_refused_in_one_sentence() -> None:
    """At the path where it stands."""
    tables = {
        "script": "train.py",
        "snapshots": {"remote": f"s3://AKIA:{SECRET}@bucket"},
    }
    with pytest.raises(SpecError) as refused:
        build_spec(tables)
    assert str(refused.value).startswith("snapshots.remote: holds a user name")
    assert SECRET not in str(refused.value)


def test_keys_of_a_spec() -> None:
    """With their units."""
    spec = build_spec(
        {
            "script": "train.py",
            "snapshots": {
                "remote": "s3://bucket/runs/",
                "remote_keep": 3,
                "remote_bandwidth": "50MB/s",
                "remote_wait": "2min",
            },
        }
    ).snapshots
    assert (spec.remote, spec.remote_keep) == ("s3://bucket/runs", 3)
    assert (spec.remote_bandwidth, spec.remote_wait) == (50_000_000, 120.0)


@pytest.mark.parametrize("given", ["50MB", "x/s", 50])
def test_a_rate_is_a_size_a_second(given: object) -> None:
    """A size alone is none."""
    with pytest.raises(SpecError, match="expected a rate such as"):
        build_spec({"script": "a", "snapshots": {"remote_bandwidth": given}})


def test_off_and_what_is_no_text() -> None:
    """``off`` is none; numbers are no address."""
    off = build_spec({"script": "a", "snapshots": {"remote": "off"}})
    assert off.snapshots.remote is None
    check_for_daemon(off)
    with pytest.raises(SpecError, match="expected the address"):
        build_spec({"script": "a", "snapshots": {"remote": 7}})


def test_a_daemon_refuses_it() -> None:
    """It sends nothing yet, and says so before a job is taken."""
    spec = build_spec({"script": "a", "snapshots": {"remote": "s3://bucket"}})
    with pytest.raises(SpecError, match="no daemon does yet"):
        check_for_daemon(spec)


def test_schemes() -> None:
    """What stands before the slashes."""
    assert scheme_of("s3://bucket") == "s3"
