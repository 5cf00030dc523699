"""The contract of a remote store, held by S3, directories, and a file system of fsspec."""

import importlib
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.host.remote.remote_store import (
    MissingExtraError,
    RemoteStore,
    RemoteStoreError,
    missing_extra,
    open_store,
)
from tests.support.azure_server import CONTAINER, AzureServer
from tests.support.s3_server import BUCKET, SECRET, S3Server

Opened = Callable[[str], RemoteStore]


@pytest.fixture(params=["s3", "az", "file", "local"])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Opened:
    """What opens a store of its own below a name."""
    scheme: str = request.param
    if scheme in {"file", "local"}:
        return lambda below: open_store(f"{scheme}://{tmp_path}", below=below)
    server: S3Server | AzureServer = request.getfixturevalue(
        "s3" if scheme == "s3" else "azure"
    )
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    place = BUCKET if scheme == "s3" else CONTAINER
    prefix = uuid.uuid4().hex
    return lambda below: open_store(f"{scheme}://{place}/{prefix}", below=below)


def test_the_contract(opened: Opened) -> None:
    """What is put is there, whole, below its address; what is deleted is gone."""
    store = opened("job")
    assert (store.sizes(""), store.get("a/b")) == ({}, None)
    store.put("a/b", b"one")
    store.put("a/b", b"other")
    store.put("a/c/d", b"x" * 100_000)
    store.put("e", b"")
    assert store.get("a/b") == b"other"
    assert store.sizes("") == {"a/b": 5, "a/c/d": 100_000, "e": 0}
    assert store.sizes("a") == {"a/b": 5, "a/c/d": 100_000}
    assert opened("job").get("a/b") == b"other"
    assert opened("other").sizes("") == {}
    assert opened("").directories() == ["job"]
    store.delete(["a/b", "a/b", "never", "a/c/d"])
    assert store.sizes("") == {"e": 0}


def test_a_store_that_does_not_answer_is_told_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a few tries; keys and queries are not in the sentence."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(RemoteStoreError) as failed:
        open_store(f"s3://{BUCKET}/x").put("a", b"1")
    assert SECRET not in str(failed.value)
    assert len(str(failed.value).splitlines()) == 1


def test_a_directory_that_is_not_mounted_is_not_made(tmp_path: Path) -> None:
    """Below a mount point there is a small disk."""
    with pytest.raises(RemoteStoreError, match="is it mounted"):
        open_store(f"file://{tmp_path}/mnt", below="job")


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [("s3://bucket", "obstore", "remote"), ("sftp://h/p", "fsspec", "remote-fsspec")],
)
def test_a_missing_extra_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, address: str, package: str, extra: str
) -> None:
    """It says what to install."""
    importlib.import_module(package)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError):
        open_store(address)
    said = missing_extra(address)
    assert said is not None
    assert f"pip install 'trainwarden[{extra}]'" in said
    assert "\n" not in said


def test_a_package_that_a_file_system_needs_is_named() -> None:
    """fsspec says which; what nobody knows is told, too."""
    said = missing_extra("sftp://host/path")
    assert said is None or "paramiko" in said
    with pytest.raises(RemoteStoreError):
        open_store("nonsense://host/path")
    assert missing_extra("nonsense://host/path") is None
