"""One server of each kind for the tests of a worker that need it."""

from collections.abc import Generator

import pytest

from tests.support.azure_server import AzureServer, azure_server, installed
from tests.support.s3_server import S3Server, s3_server


@pytest.fixture(scope="session")
def s3() -> Generator[S3Server]:
    """Started when a test asks for it."""
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def azure() -> Generator[AzureServer]:
    """... of Azure's interface, where Azurite is installed (``make remote`` does)."""
    if not installed():
        pytest.skip("Azurite is not installed: make .venv/azurite")
    with azure_server() as server:
        yield server
