"""One S3 server for the tests of a worker that need it."""

from collections.abc import Generator

import pytest

from tests.support.s3_server import S3Server, s3_server


@pytest.fixture(scope="session")
def s3() -> Generator[S3Server]:
    """Started when a test asks for it."""
    with s3_server() as server:
        yield server
