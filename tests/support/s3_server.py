"""A real server of S3's interface on this machine: moto's, in a process of its own."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import boto3  # pyright: ignore[reportMissingTypeStubs]  # it has none

_client = cast(
    "Callable[..., Any]",
    boto3.client,  # pyright: ignore[reportUnknownMemberType]  # as above
)
BUCKET = "trainwarden-test"
SECRET = "secret-that-is-never-told"  # noqa: S105  # of no account
START_SECONDS = 60.0


@dataclass(frozen=True)
class S3Server:
    """Where it listens, with an empty bucket."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> Mapping[str, str]:
        """How clients find it, and who they are: the platform's own variables."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def client(self) -> Any:
        """The vendor's own client."""
        found = self.environment
        return _client(
            "s3",
            endpoint_url=found["AWS_ENDPOINT_URL"],
            aws_access_key_id=found["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=found["AWS_SECRET_ACCESS_KEY"],
            region_name=found["AWS_REGION"],
        )


@contextlib.contextmanager
def s3_server() -> Generator[S3Server]:
    """Serve until the end, with the bucket ``BUCKET``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    try:
        _until_it_listens(process, port)
        server = S3Server(port, process)
        server.client().create_bucket(Bucket=BUCKET)
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    ends = time.monotonic() + START_SECONDS
    while True:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port)),
        ):
            return
        assert process.poll() is None
        assert time.monotonic() < ends
        time.sleep(0.05)
