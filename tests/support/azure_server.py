"""A real server of Azure's blob interface on this machine: Microsoft's Azurite, from npm."""

import base64
import contextlib
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http.client import HTTPConnection
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTAINER = "trainwarden-test"
ACCOUNT = "devstoreaccount1"
KEY = base64.b64encode(b"a key that is of no account").decode()
VERSION = "2021-08-06"
START_SECONDS = 60.0


@dataclass(frozen=True)
class AzureServer:
    """Where it listens, with an empty container."""

    port: int

    @property
    def environment(self) -> Mapping[str, str]:
        """How clients find it, and who they are: the platform's own variables."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{self.port}/{ACCOUNT}",
        }


def installed() -> Path | None:
    """The program, of this repository's environment or on the PATH; None: there is none."""
    own = ROOT / ".venv" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    found = own if own.exists() else shutil.which("azurite-blob")
    return None if found is None else Path(found)


@contextlib.contextmanager
def azure_server() -> Generator[AzureServer]:
    """Serve until the end, with the container ``CONTAINER``."""
    program = installed()
    assert program is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            [
                *(program, "--silent", "--disableTelemetry", "--skipApiVersionCheck"),
                *("--location", directory, "--blobHost", "127.0.0.1"),
                *("--blobPort", str(port)),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
        )
        try:
            ends = time.monotonic() + START_SECONDS
            while not _made_container(port):
                assert process.poll() is None
                assert time.monotonic() < ends
                time.sleep(0.1)
            yield AzureServer(port)
        finally:
            process.terminate()
            process.wait(30)


def _made_container(port: int) -> bool:
    """Whether it answers, and has the container now."""
    now = formatdate(usegmt=True)
    signed = (
        "PUT" + "\n" * 12 + f"x-ms-date:{now}\nx-ms-version:{VERSION}\n"
        f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    )
    digest = hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)
    headers = {
        "x-ms-date": now,
        "x-ms-version": VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
        "Content-Length": "0",
    }
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        path = f"/{ACCOUNT}/{CONTAINER}?restype=container"
        connection.request("PUT", path, headers=headers)
        status = connection.getresponse().status
    except OSError:
        return False
    finally:
        connection.close()
    assert status == 201, status
    return True
