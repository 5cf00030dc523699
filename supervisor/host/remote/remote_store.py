"""A remote store: a few small verbs over object stores and other file systems.

obstore (Rust's object_store, no dependency of its own) serves S3, Google's, Azure's and
directories; fsspec whatever else it knows (``sftp://``, ``hdfs://``, ...). Both are extras.
Names are paths below the address; a put makes an object whole or not at all.
"""

import importlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import unquote, urlsplit

from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from supervisor.core.jobs.remote.remote_address import OBJECT_STORES, scheme_of
from supervisor.host.remote.store_errors import store_sentence

TRIES = 4
"""Of one request, the library's own included nowhere: one place decides."""
REQUEST_TIMEOUT = timedelta(seconds=120)
ENDPOINTS = (
    "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL",
)  # fmt: skip
"""Environment variables that say where a store is, if not with its vendor."""
_SECRETIVE = re.compile(r"\?\S*")
_MORE = 400

Answer = TypeVar("Answer")


class RemoteStoreError(Exception):
    """A store that could not do as asked; the text says what, without secrets."""


class MissingExtraError(Exception):
    """A package that the address needs is not installed; the text is the sentence."""


class RemoteStore(Protocol):
    """What the remote tier needs of any store. All of it raises RemoteStoreError."""

    def put(self, name: str, content: bytes) -> None:
        """Write an object, whole or not at all; one of that name is replaced."""
        ...

    def get(self, name: str) -> bytes | None:
        """The object; None: there is none."""
        ...

    def sizes(self, prefix: str) -> dict[str, int]:
        """The objects below ``prefix/`` and their sizes in bytes."""
        ...

    def directories(self) -> list[str]:
        """The first parts of all names."""
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects; those that are not there are no matter."""
        ...


def open_store(address: str, *, below: str = "") -> RemoteStore:
    """The store at a checked ``address``; nothing is asked of it yet.

    Raises:
        MissingExtraError: a package is missing.
        RemoteStoreError: it cannot be one, or lacks its settings.
    """
    if scheme_of(address) == "file":
        _must_be_there(Path(unquote(urlsplit(address).path)))
    if scheme_of(address) in OBJECT_STORES:
        return _ObjectStore(address, f"{below}/" if below else "")
    return _FileSystem(f"{address}/{below}" if below else address)


def _must_be_there(directory: Path) -> None:
    """Not made here: where a file system is not mounted, its mount point is a disk."""
    if not directory.is_dir():
        message = f"the directory {directory} is not there (is it mounted?)"
        raise RemoteStoreError(message)


def missing_extra(address: str) -> str | None:
    """The sentence about what is not installed for ``address``; None: all is."""
    try:
        open_store(address)
    except MissingExtraError as error:
        return str(error)
    except RemoteStoreError:
        return None
    return None


def plainly(error: BaseException) -> str:
    """An error of a library as one line: without what may hold a secret or a page."""
    line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return _SECRETIVE.sub("?...", line)[:_MORE]


def _tried(
    ask: Callable[[], Answer],
    *,
    errors: tuple[type[BaseException], ...],
    scheme: str = "",
) -> Answer:
    """What ``ask`` answers, asked again with growing pauses. Raises RemoteStoreError."""
    retrying = Retrying(
        retry=retry_if_exception_type(errors),
        wait=wait_random_exponential(multiplier=0.2, max=5.0),
        stop=stop_after_attempt(TRIES),
        reraise=True,
    )
    try:
        return retrying(ask)
    except errors as error:
        said = store_sentence(plainly(error), scheme=scheme)
        raise RemoteStoreError(said) from error


class _ObjectStore:
    """A store by obstore."""

    def __init__(self, address: str, below: str) -> None:
        self._below, self._scheme = below, scheme_of(address)
        try:
            self._ask: Any = importlib.import_module("obstore")
            stores: Any = importlib.import_module("obstore.store")
        except ImportError:
            message = (
                "snapshots.remote needs the package obstore, which is not installed: "
                "pip install 'trainwarden[remote]'"
            )
            raise MissingExtraError(message) from None
        self._errors = (self._ask.exceptions.BaseError, OSError)
        try:
            self._store = stores.from_url(address, **_options(address))
        except (self._ask.exceptions.BaseError, ValueError, OSError) as error:
            said = store_sentence(plainly(error), scheme=self._scheme)
            raise RemoteStoreError(said) from error

    def put(self, name: str, content: bytes) -> None:
        path = self._below + name
        put = partial(self._ask.put, self._store, path, content, use_multipart=False)
        _tried(put, errors=self._errors, scheme=self._scheme)

    def get(self, name: str) -> bytes | None:
        def ask() -> bytes | None:
            try:
                found = self._ask.get(self._store, self._below + name)
                return bytes(found.bytes())
            except FileNotFoundError:
                return None

        return _tried(ask, errors=self._errors, scheme=self._scheme)

    def sizes(self, prefix: str) -> dict[str, int]:
        def ask() -> dict[str, int]:
            whole = f"{self._below}{prefix}" or None
            pages: Iterable[Any] = self._ask.list(self._store, whole)
            return {
                str(one["path"]).removeprefix(self._below): int(one["size"])
                for page in pages
                for one in page
            }

        return _tried(ask, errors=self._errors, scheme=self._scheme)

    def directories(self) -> list[str]:
        ask = partial(self._ask.list_with_delimiter, self._store, self._below or None)
        found: Any = _tried(ask, errors=self._errors, scheme=self._scheme)
        names = (str(one).removeprefix(self._below) for one in found["common_prefixes"])
        return sorted(name.strip("/") for name in names)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:  # some stores refuse lists
            _tried(
                partial(self._remove, name), errors=self._errors, scheme=self._scheme
            )

    def _remove(self, name: str) -> None:
        try:
            self._ask.delete(self._store, self._below + name)
        except FileNotFoundError:
            return


def _options(address: str) -> dict[str, Any]:
    """How a store is reached; who asks is known by the platform's own chain."""
    scheme = scheme_of(address)
    if scheme == "file":
        return {"automatic_cleanup": True}
    client: dict[str, Any] = {"timeout": REQUEST_TIMEOUT, "connect_timeout": "5s"}
    if any(os.environ.get(name, "").startswith("http://") for name in ENDPOINTS):
        client["allow_http"] = True  # somebody has chosen it
    options: dict[str, Any] = {
        "client_options": client,
        "retry_config": {"max_retries": 0},
    }
    if scheme == "s3" and importlib.util.find_spec("boto3") is not None:
        options |= _of_boto3()
    return options


def _of_boto3() -> dict[str, Any]:
    """Where boto3 is installed its chain is asked, which also knows ``~/.aws``."""
    boto3: Any = importlib.import_module("boto3")
    auth: Any = importlib.import_module("obstore.auth.boto3")
    session = boto3.Session()
    if session.get_credentials() is None:
        return {}  # obstore's own chain: environment, web identity, container, machine
    return {"credential_provider": auth.Boto3CredentialProvider(session)}


class _FileSystem:
    """A store by fsspec."""

    def __init__(self, address: str) -> None:
        try:
            fsspec: Any = importlib.import_module("fsspec")
        except ImportError:
            message = (
                f"snapshots.remote with {scheme_of(address)}:// needs the package fsspec, "
                "which is not installed: pip install 'trainwarden[remote-fsspec]'"
            )
            raise MissingExtraError(message) from None
        try:
            self._files, self._root = fsspec.core.url_to_fs(address)
        except ImportError as error:
            message = f"snapshots.remote: fsspec says: {plainly(error)}"
            raise MissingExtraError(message) from None
        except Exception as error:  # each file system has its own
            raise RemoteStoreError(plainly(error)) from error
        self._root = cast("str", self._root).rstrip("/")

    def put(self, name: str, content: bytes) -> None:
        _tried(partial(self._put, name, content), errors=(Exception,))

    def _put(self, name: str, content: bytes) -> None:
        """Written beside and renamed: on a file system a put is not whole by itself."""
        path = f"{self._root}/{name}"
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._files.pipe_file(f"{path}.partial", content)
        self._files.mv(f"{path}.partial", path)

    def get(self, name: str) -> bytes | None:
        def ask() -> bytes | None:
            try:
                return bytes(self._files.cat_file(f"{self._root}/{name}"))
            except FileNotFoundError:
                return None

        return _tried(ask, errors=(Exception,))

    def sizes(self, prefix: str) -> dict[str, int]:
        def ask() -> dict[str, int]:
            self._files.invalidate_cache()
            top = f"{self._root}/{prefix}".rstrip("/")
            try:
                found = self._files.find(top, detail=True)
            except FileNotFoundError:
                return {}
            return {
                path.removeprefix(f"{self._root}/"): int(about["size"])
                for path, about in found.items()
                if not path.endswith(".partial")
            }

        return _tried(ask, errors=(Exception,))

    def directories(self) -> list[str]:
        def ask() -> list[str]:
            self._files.invalidate_cache()
            try:
                found = self._files.ls(self._root, detail=True)
            except FileNotFoundError:
                return []
            return sorted(
                one["name"].rstrip("/").rpartition("/")[2]
                for one in found
                if one["type"] == "directory"
            )

        return _tried(ask, errors=(Exception,))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            _tried(partial(self._remove, name), errors=(Exception,))

    def _remove(self, name: str) -> None:
        path = f"{self._root}/{name}"
        try:
            self._files.rm_file(path)
        except FileNotFoundError:
            return
        self._tidy(path.rpartition("/")[0])

    def _tidy(self, directory: str) -> None:
        """An empty directory is no object: it goes with the last of them."""
        try:
            if directory != self._root and not self._files.ls(directory, detail=False):
                self._files.rmdir(directory)
        except OSError:
            return
